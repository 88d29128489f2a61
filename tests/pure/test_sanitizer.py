import base64
import copy
import hashlib
import json
import random
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.payload import DEFAULT, Detector, Policy, binary, detectors, keys, sanitize, sanitize_text, storable
from tests.pure.sanitizer_tables import BLOB, MUST_KEEP, MUST_MASK


def dumped(value: Any) -> str:
    """Strict JSON with the blanks of json.dumps; backslashes undone, so that a piece of text is found as it is."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace('\\"', '"').replace("\\\\", "\\")


class Anything:
    def __str__(self) -> str:
        return "Anything(inside)"

    __repr__ = __str__


class FakeDict:
    __class__ = dict  # type: ignore[assignment]


class Broken(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("no")


@pytest.mark.parametrize("row", MUST_MASK, ids=range(len(MUST_MASK)))
def test_must_mask(row: tuple[Any, str, tuple[str, ...]]) -> None:
    value, hidden, seen = row
    text = dumped(sanitize(value))
    assert hidden not in text
    for piece in seen:
        assert piece in text


@pytest.mark.parametrize("row", MUST_MASK, ids=range(len(MUST_MASK)))
def test_must_mask_inside_other_values(row: tuple[Any, str, tuple[str, ...]]) -> None:
    value, hidden, _ = row
    assert hidden not in dumped(sanitize({"a": [value]}))
    if isinstance(value, str):
        assert hidden not in dumped(sanitize(json.dumps({"error": value})))


@pytest.mark.parametrize("value", MUST_KEEP, ids=range(len(MUST_KEEP)))
def test_must_keep(value: Any) -> None:
    assert dumped(sanitize(value)) == dumped(value)


@pytest.mark.parametrize("row", MUST_MASK, ids=range(len(MUST_MASK)))
def test_table_is_idempotent(row: tuple[Any, str, tuple[str, ...]]) -> None:
    once = sanitize(row[0])
    assert sanitize(once) == once


def test_the_value_given_is_not_changed() -> None:
    value = {"password": "x", "n": [{"t": "a@example.com"}]}
    before = copy.deepcopy(value)
    sanitize(value)
    assert value == before


# -- B25: identifiers and personal data --------------------------------------------------------------------------------


def identifiers(dice: random.Random) -> Iterator[str]:
    crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    for _ in range(1_500):
        number = uuid.UUID(int=dice.getrandbits(128), version=4)
        yield str(number)
        yield number.hex
        yield "".join(dice.choices(crockford, k=26))
        yield str(dice.randint(1_600_000_000, 1_900_000_000))
        yield str(dice.randint(1_600_000_000_000, 1_900_000_000_000))
        yield str(dice.randint(1_600_000_000_000_000_000, 1_900_000_000_000_000_000))
        yield f"{dice.getrandbits(160):040x}"
        yield ".".join(str(dice.randint(0, 255)) for _ in range(4))
        yield str(dice.randint(10**12, 10**13 - 1))
        yield f"{dice.uniform(-90, 90):.6f},{dice.uniform(-180, 180):+.6f}"


def test_no_identifier_is_damaged() -> None:
    dice = random.Random(25)
    damaged = [text for text in identifiers(dice) for line in (f"run {text} ended",) if sanitize(line) != line]
    assert damaged == []


def test_uuids_without_letters_survive() -> None:
    dice = random.Random(7)
    for _ in range(5_000):
        digits = "".join(dice.choices("0123456789", k=32))
        dashed = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
        assert sanitize(dashed) == dashed
        assert sanitize(digits) == digits


def luhn(digits: str) -> str:
    total = sum(int(d) if at % 2 else sum(divmod(2 * int(d), 10)) for at, d in enumerate(reversed(digits)))
    return digits + str(-total % 10)


def personal(dice: random.Random) -> Iterator[str]:
    for _ in range(100):
        yield f"{dice.choice(['anna', 'bob.k', 'li_wei'])}{dice.randint(1, 99)}@{dice.choice(['x', 'mail.co'])}.com"
        yield f"+7 ({dice.randint(900, 999)}) {dice.randint(100, 999)}-{dice.randint(10, 99)}-{dice.randint(10, 99)}"
        yield f"+1 {dice.randint(200, 999)}-{dice.randint(200, 999)}-{dice.randint(1000, 9999)}"
        card = luhn("4" + "".join(dice.choices("0123456789", k=14)))
        separator = dice.choice(" -")
        yield separator.join(card[at : at + 4] for at in range(0, 16, 4))


def test_personal_data_is_masked() -> None:
    values = list(personal(random.Random(11)))
    seen = [value for value in values if value in sanitize_text(f"see {value} please")]
    assert len(seen) <= len(values) // 20, seen[:5]


# -- the five properties -----------------------------------------------------------------------------------------------

awkward = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(), max_size=60),
    st.binary(max_size=60),
    st.sampled_from(
        [
            Broken(a=1),
            object,
            float("nan"),
            "\x00\ud800",
            {1, 2},
            BLOB,
            list(BLOB),
            "x" * 9_000,
            "[masked:key]",
            "password=[masked:key]]",
            "…[cut 12]",
        ]
    ),
    st.sampled_from([row[0] for row in MUST_MASK]),
    st.builds(Anything),
    st.builds(lambda: 10**5000),
    st.builds(FakeDict),
)
keys_of = st.one_of(
    st.text(max_size=12), st.integers(), st.none(), st.sampled_from(["password", "job_id", "value", "name", "[cut]"])
)
trees = st.recursive(
    awkward,
    lambda inner: st.one_of(
        st.lists(inner, max_size=6), st.tuples(inner, inner), st.dictionaries(keys_of, inner, max_size=6)
    ),
    max_leaves=25,
)
pieces = st.lists(
    st.one_of(
        st.text(max_size=12),
        st.sampled_from([row[0] for row in MUST_MASK if isinstance(row[0], str)]),
        st.sampled_from(
            ["password=", "[masked:", "]", "…[cut ", "Bearer ", "\\", '"', "://", "@", "eyJ", "+7 916", "-"]
        ),
    ),
    max_size=12,
).map("".join)


def depth_of(value: Any) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict) and binary.is_descriptor(value):
        return 0
    return 1 + max(map(depth_of, children), default=0) if isinstance(value, (dict, list)) else 0


def within(value: Any, policy: Policy) -> bool:
    if isinstance(value, str):
        return len(value) <= policy.string
    if isinstance(value, list):
        return len(value) <= policy.items and all(within(child, policy) for child in value)
    if isinstance(value, dict):
        return len(value) <= policy.keys and all(within(child, policy) for child in value.values())
    return True


@settings(max_examples=300, deadline=None)
@given(trees)
def test_total_idempotent_and_bounded(value: Any) -> None:
    once = sanitize(value)
    text = json.dumps(once, ensure_ascii=False, allow_nan=False)
    assert json.loads(text) == once
    assert "\\u0000" not in text
    assert "inside" not in text
    assert len(text.encode()) <= DEFAULT.payload
    assert within(once, DEFAULT)
    assert depth_of(once) <= DEFAULT.depth
    assert sanitize(once) == once


SMALL = Policy(depth=3, string=80, items=4, keys=4, payload=400)


@settings(max_examples=300, deadline=None)
@given(trees)
def test_small_bounds_hold_too(value: Any) -> None:
    once = sanitize(value, SMALL)
    assert len(json.dumps(once, ensure_ascii=False).encode()) <= SMALL.payload
    assert within(once, SMALL)
    assert sanitize(once, SMALL) == once


@settings(max_examples=400, deadline=None)
@given(pieces, st.integers(30, 400))
def test_text_is_idempotent_also_when_cut(text: str, limit: int) -> None:
    once = sanitize_text(text, limit)
    assert len(once) <= limit
    assert sanitize_text(once, limit) == once


@pytest.mark.parametrize("row", [row for row in MUST_MASK if isinstance(row[0], str) and len(row[0]) < 200])
def test_masked_before_cut_at_every_offset(row: tuple[str, str, tuple[str, ...]]) -> None:
    value, hidden, _ = row
    for before in range(0, 260, 3):
        shown = sanitize_text("." * before + " " + value, 200)
        assert hidden[:12] not in shown
        assert hidden[:5] not in shown or hidden[:5] in value.replace(hidden, "")


def test_a_secret_that_begins_before_the_cut_and_ends_far_behind_it() -> None:
    secret = "".join(random.Random(3).choices("abcdefXYZ0123456789", k=20_000))
    for opening in (
        "sk-" + "proj-",
        "password=",
        '"token": "',
        "https://h/?api_key=",
        "-----BEGIN " + "PRIVATE KEY-----\n",
    ):
        for before in (0, 1_900, 1_960, 1_975, 1_990):
            assert secret[:6] not in sanitize_text("." * before + " " + opening + secret)


def test_a_cut_never_splits_a_mark() -> None:
    for before in range(120, 200):
        shown = sanitize_text("." * before + " +79161234567 " + "," * 100, 200)
        assert "[masked:phone]" in shown or "[m" not in shown


def test_binary_longer_than_the_window_is_described_whole() -> None:
    data = random.Random(2).randbytes(30_000)
    shown = sanitize_text(f"see {base64.b64encode(data).decode()} end")
    assert f"bytes=30000 sha256={hashlib.sha256(data).hexdigest()}" in shown
    assert len(shown) < 200


class Counting:
    """A detector of the user's own that counts the characters it is shown."""

    def __init__(self) -> None:
        self.characters = 0

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        self.characters += len(text)
        return iter(())

    def policy(self, **bounds: int) -> Policy:
        return Policy(detectors=(Detector("counted", (), self.find),), **bounds)


def looked_at(value: Any, **bounds: int) -> int:
    counting = Counting()
    sanitize(value, counting.policy(**bounds))
    return counting.characters


def test_linear_in_what_is_given() -> None:
    """Twice the input, at most twice (+5 %) the characters looked at, with bounds so wide that nothing is cut."""
    wide = {"items": 10**6, "keys": 10**6, "string": 10**7, "payload": 10**8}
    for unit in ("word a@example.com ", "password=abc1 ", "[1,2] ", "eyJ", "sk-", "=\"'", "://a:b"):
        assert looked_at(unit * 2_000, **wide) <= 2.1 * looked_at(unit * 1_000, **wide)
    row = {"text": "call +7 916 123-45-67", "n": 1}
    assert looked_at([row] * 200, **wide) <= 2.1 * looked_at([row] * 100, **wide)


def test_bounded_in_what_is_looked_at() -> None:
    """Beyond the bounds nothing more is looked at, however much is given."""
    text = "a word, " * 1_000
    assert looked_at("a word, " * 1_000_000) <= looked_at("a word, " * 10_000) + 10
    assert looked_at([[text] * 100] * 100) <= looked_at([text] * 100) * 1.2
    deep: Any = text
    for _ in range(5_000):
        deep = [deep]
    assert looked_at(deep) <= 200


HOSTILE = (
    '["password","',
    "password:'",
    "eyJ",
    "sk-",
    "-----BEGIN A-----",
    "://a:",
    "a@",
    "1 ",
    "+7",
    "password=",
    "A1b",
    '"',
    "\\",
    "(",
    "data:a/b;",
)


@pytest.mark.parametrize("unit", HOSTILE)
def test_no_pattern_turns_quadratic(unit: str) -> None:
    """Steps of the patterns cannot be counted, so time is: sixteen times the text within sixty times the time."""
    small, large = (measure(unit * (size // len(unit))) for size in (10_000, 160_000))
    assert large <= 60 * small + 0.05


def measure(text: str) -> float:
    from time import process_time

    started = process_time()
    list(detectors.find(text))
    list(binary.in_text(text, len(text)))
    return process_time() - started


# -- what is kept when the rest is cut ---------------------------------------------------------------------------------


def test_ids_and_references_are_kept_when_the_rest_is_cut() -> None:
    value = {f"k{number}": "ы" * 2_000 for number in range(150)}
    value |= {"job_id": "j-1", "artifact_ref": "a-9", "event_seq": 12}  # type: ignore[dict-item]
    shown = sanitize(value)
    assert (shown["job_id"], shown["artifact_ref"], shown["event_seq"]) == ("j-1", "a-9", 12)
    assert "[cut]" in shown
    assert len(json.dumps(shown, ensure_ascii=False).encode()) <= DEFAULT.payload


def test_a_reference_after_a_large_sibling_is_kept() -> None:
    shown = sanitize({"pages": [["ы" * 2_000] * 100] * 100, "result": {"text": "x" * 9_000, "file_id": "f-3"}})
    assert len(json.dumps(shown, ensure_ascii=False).encode()) <= DEFAULT.payload


def test_cuts_say_how_much_is_missing() -> None:
    assert sanitize("word " * 1_000).endswith("…[cut 3024]")
    assert sanitize(["a"] * 150)[-1] == "[cut 51 more]"
    assert sanitize({f"k{number}": 1 for number in range(150)})["[cut]"] == "51 more"


def test_keys_that_become_equal_stay_apart() -> None:
    assert sanitize({1: "a", "1": "b", None: "c"}) == {"1": "a", "1#2": "b", "null": "c"}


def test_never_a_repr() -> None:
    assert sanitize({"x": Anything()}) == {"x": "[object Anything]"}
    assert sanitize({"x": {1, 2}}) == {"x": "[object set]"}


def test_one_bad_entry_spares_its_neighbours() -> None:
    gone = memoryview(bytearray(b"x"))
    gone.release()
    assert sanitize([1, gone, 2]) == [1, "[unreadable]", 2]


def test_cycles_end() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    assert depth_of(sanitize(loop)) == DEFAULT.depth


def test_forged_descriptor_is_data() -> None:
    forged = {"$binary": {"kind": "bytes", "bytes": 1, "sha256": "password=tr0ub4dor"}}
    assert "tr0ub4dor" not in dumped(sanitize(forged))


def test_own_detectors_are_asked() -> None:
    def staff(text: str) -> Iterator[tuple[int, int]]:
        at = text.find("EMP-")
        return iter([(at, at + 8)] if at >= 0 else [])

    policy = Policy(detectors=(Detector("staff", ("emp-",), staff),))
    assert sanitize("by EMP-1234.", policy) == "by [masked:staff]."


def test_nul_and_lone_surrogates_become_visible() -> None:
    assert sanitize({"a\x00": "b\x00\ud800\x1b[31m"}) == {"a␀": "b␀\ufffd␛[31m"}
    assert storable({"a\x00": ["b\x00\ud800", 1, None]}) == {"a␀": ["b␀\ufffd", 1, None]}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("apiKey", ("api", "key")),
        ("X-Api-Key", ("x", "api", "key")),
        ("APIKey", ("api", "key")),
        ("max_tokens", ("max", "tokens")),
        ("file_base64", ("file", "base64")),
        ("a.b c", ("a", "b", "c")),
    ],
)
def test_names_are_split_into_words(name: str, expected: tuple[str, ...]) -> None:
    assert keys.words(name) == expected
