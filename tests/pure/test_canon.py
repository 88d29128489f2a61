import json
import math
import multiprocessing
import threading
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure import canon
from tenure.errors import InvalidInput, ResultNotSerializable
from tenure.states import JobStatus

VECTORS = json.loads(Path(__file__).with_name("digest_vectors.json").read_text("utf-8"))

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["why"] for vector in VECTORS])
def test_vectors(vector: dict[str, str]) -> None:
    value = json.loads(vector["json"])
    assert canon.canonical(value) == vector["canonical"]
    assert canon.digest(value) == vector["digest"]


def test_vectors_are_all_different() -> None:
    assert len({vector["digest"] for vector in VECTORS}) == len(VECTORS) >= 12


@given(plain)
def test_encode_gives_the_value_back(value: Any) -> None:
    assert json.loads(canon.encode(value)) == value
    assert json.loads(canon.canonical(value)) == value


@given(st.dictionaries(st.text(), st.integers()))
def test_order_of_keys_counts_in_encode_alone(value: dict[str, int]) -> None:
    backwards = dict(reversed(value.items()))
    assert canon.digest(value) == canon.digest(backwards)
    assert list(json.loads(canon.encode(backwards))) == list(backwards)


def test_distinct_values_have_distinct_digests() -> None:
    values: list[Any] = [
        1,
        1.0,
        True,
        "1",
        None,
        "null",
        [],
        {},
        "",
        [1],
        {"1": 1},
        "é",
        "e\u0301",
        2**53,
        2**53 + 1,
        0,
        False,
    ]
    assert len({canon.digest(value) for value in values}) == len(values)


def loop() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize("function", [canon.canonical, canon.digest, canon.encode])
@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [1, math.nan]}, "$.a[1]"),
        (math.inf, "$"),
        ({"a": {1: 2}}, "$.a"),
        ({"a": {None: 2}}, "$.a"),
        (["\ud800"], "$[0]"),
        ({"b": {"\udfff": 1}}, "$.b"),
        ([(1, 2)], "$[0]"),
        ([b"x"], "$[0]"),
        ({"when": datetime(2026, 1, 1, tzinfo=UTC)}, "$.when"),
        ({"s": {1, 2}}, "$.s"),
        (object(), "$"),
        (loop(), "$[0][0]"),
        ([10**5000], "$"),
    ],
)
def test_what_is_not_json_is_refused_by_path(function: Any, value: Any, path: str) -> None:
    with pytest.raises(ResultNotSerializable) as refused:
        function(value)
    assert str(refused.value).startswith(path)


def test_depth_of_500_is_the_last_that_is_taken() -> None:
    value: Any = 1
    for _ in range(canon.MAX_DEPTH):
        value = [value]
    assert canon.encode(value)
    with pytest.raises(ResultNotSerializable, match="500 levels"):
        canon.encode([value])


def test_statuses_are_text() -> None:
    assert canon.encode({JobStatus.QUEUED: JobStatus.RUNNING}) == '{"queued":"running"}'


# -- ids ---------------------------------------------------------------------------------------------------------------


def test_uuid7_is_one() -> None:
    before = canon.epoch_ms()
    number = uuid.UUID(canon.uuid7())
    assert (number.version, number.variant) == (7, uuid.RFC_4122)
    assert before <= number.int >> 80 <= canon.epoch_ms() + 1_000


def test_uuid7_grows_also_as_text() -> None:
    ids = [canon.uuid7() for _ in range(20_000)]
    assert ids == sorted(set(ids))


def test_uuid7_grows_when_the_clock_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    first = canon.uuid7()
    monkeypatch.setattr(canon, "epoch_ms", lambda: 1)
    ids = [first, *(canon.uuid7() for _ in range(1_000))]
    assert ids == sorted(set(ids))


def test_uuid7_is_unique_across_threads() -> None:
    seen: list[list[str]] = [[] for _ in range(4)]
    threads = [threading.Thread(target=lambda own=own: own.extend(canon.uuid7() for _ in range(3_000))) for own in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(own == sorted(own) for own in seen)
    assert len({number for own in seen for number in own}) == 12_000


def _send_ids(pipe: Any) -> None:
    pipe.send([canon.uuid7() for _ in range(200)])


def test_uuid7_survives_fork_while_another_thread_holds_the_gate() -> None:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    with canon._ids.gate:
        child = context.Process(target=_send_ids, args=(theirs,))
        child.start()
        # Longer than an id needs, so that a child which waits for the gate of its parent is caught at it.
        answered = ours.poll(5)
    if not answered:
        child.kill()
    child.join()
    assert answered, "the child waits for a gate that nobody will open"
    ids = ours.recv()
    assert len({*ids, *(canon.uuid7() for _ in range(200))}) == 400


# -- forms -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("250ms", 0.25),
        ("90s", 90.0),
        ("10m", 600.0),
        ("2h", 7200.0),
        ("1d", 86_400.0),
        ("1.5h", 5400.0),
        (" 0s ", 0.0),
        ("3650d", 315_360_000.0),
        (timedelta(minutes=2), 120.0),
    ],
)
def test_durations(text: object, seconds: float) -> None:
    assert canon.duration(text, "delay") == seconds


@pytest.mark.parametrize(
    "value",
    [
        *(90, 1.5, True, None, "", "90", "s", "-1s", "+1s", "1 s", "1e3s", "1w", "90S", "٣s", "1h30m", "nans", "infs"),
        *("3651d", "9" * 15 + "d", "9" * 4000 + "s", timedelta(-1), timedelta.max, b"90s", [90]),
    ],
)
def test_durations_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="delay: expected") as refused:
        canon.duration(value, "delay")
    assert refused.value.field == "delay"
    assert len(str(refused.value)) < 250


@pytest.mark.parametrize("text", ["a", "user@host:8080", "A-Z_09.+x", "x" * 200])
def test_names(text: str) -> None:
    assert canon.name(f" \t{text}\n", "session_id") == text


@pytest.mark.parametrize(
    "value", ["", " ", "a b", "a/b", "é", "x" * 201, "a\nb", "a\x00", "\u00a0a", "а", None, 7, b"a", ["a"]]
)
def test_names_refused(value: object) -> None:
    with pytest.raises(
        InvalidInput, match=r"session_id: expected 1-200 characters of A-Z a-z 0-9 \. _ : @ \+ -"
    ) as refused:
        canon.name(value, "session_id")
    assert (refused.value.field, refused.value.code) == ("session_id", "invalid_input")


def test_instants_come_out_in_utc() -> None:
    moment = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
    for value in ("2026-03-01T09:00:00Z", " 2026-03-01T12:00:00+03:00 ", "2026-03-01 09:00+00:00", moment):
        found = canon.instant(value, "expires_at")
        assert found == moment
        assert found.tzinfo is UTC


@pytest.mark.parametrize(
    "value",
    [
        *("2026-03-01T09:00:00", "2026-03-01", "tomorrow", "", None, 1767225600, datetime(2026, 3, 1)),  # noqa: DTZ001
        *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"),
    ],
)
def test_instants_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="expires_at: expected an instant with its offset"):
        canon.instant(value, "expires_at")


@pytest.mark.parametrize(("given", "kept"), [(5.0, 5.0), (-1.0, 0.0), (1e12, 60.0), (math.nan, 0.0), (math.inf, 60.0)])
def test_clamped_seconds_are_noted(given: float, kept: float) -> None:
    seconds, note = canon.clamp_seconds(given, 60, "retry_after")
    assert seconds == kept
    assert (note is None) == (given == kept)
