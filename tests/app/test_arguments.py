"""What runs is what was given: arguments and results through the database, typed both ways, or refused at the door."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import uuid
from typing import Any

import pydantic
import pytest

from tenure import Job, Tenure
from tenure.errors import InputTooLarge, InvalidInput, JobFailed
from tests.app.conftest import Colour, Line
from tests.app.running import Made, jobs_of


def test_typed_arguments_and_results_come_back_typed(made: Made) -> None:
    at = dt.datetime(2026, 3, 1, 9, 30, 15, 123456, tzinfo=dt.UTC)
    job = made.tools.typed.enqueue(day=dt.date(2026, 2, 28), colour=Colour.BLUE, lines=[Line(sku="a", count=3)], at=at)
    assert job.row.input == {
        "day": "2026-02-28",
        "colour": "blue",
        "lines": [{"sku": "a", "count": 3}],
        "at": "2026-03-01T09:30:15.123456Z",
        "rate": 1.5,
    }
    made.worker.drain()
    result = job.result("5s")
    assert result == Line(sku=f"2026-02-28 blue {at} 1.5", count=3)
    assert made.app.job(job.id).result("5s") == result, "a handle made from the id alone types it too"


def test_what_json_gives_is_as_good_as_what_python_gives(made: Made) -> None:
    given = {"day": "2026-02-28", "colour": "red", "lines": [{"sku": "a"}]}
    job = made.app.enqueue("typed", given)
    assert job.row.input == given | {"lines": [{"sku": "a", "count": 1}], "at": None, "rate": 1.5}


def test_defaults_are_stored_with_the_job(made: Made) -> None:
    """A release that changes a default does not change what was asked for."""
    assert made.tools.add.enqueue(a=1).row.input == {"a": 1, "b": 2}


EXACT = [
    {"page_token": "pt_9", "connection": "postgres://svc:Pa55@db/x", "max_tokens": 512},
    [1, 1.0, -0.0, 1e300, 12345678901234567890123, "", None, True, [], {}, {"": ""}],
    "é\u0301 ␀ \u2028 \t\n 🙂 'quotes' \"double\" %s {} \\ \x00 \x1b",
    {"b": 1, "a": 2},
    0.1,
    2**64,
]


@pytest.mark.parametrize("value", EXACT, ids=repr)
def test_json_values_arrive_exactly(made: Made, value: Any) -> None:
    made.tools.anything.enqueue(value=value)
    made.worker.drain()
    (arrived,) = made.calls
    assert arrived == value
    assert repr(arrived) == repr(value), "numbers keep their type, keys their order"


class Secret(pydantic.BaseModel):
    token: pydantic.SecretStr


def test_a_mask_never_reaches_a_tool(app: Tenure) -> None:
    """pydantic writes asterisks into the JSON of a secret: stored, they would run in its place."""

    @app.tool()
    def call(token: pydantic.SecretStr | None = None, secret: Secret | None = None) -> None: ...

    token = pydantic.SecretStr("hunter2")
    for arguments in ({"token": token}, {"secret": Secret(token=token)}, {"secret": {"token": "hunter2"}}):
        with pytest.raises(InvalidInput, match="does not come back from JSON as it was given") as caught:
            app.enqueue(call, arguments)
        assert "hunter2" not in str(caught.value)
    assert jobs_of(app) == 0


DOOR: list[tuple[dict[str, Any], str, str]] = [
    ({"a": "x"}, "a", "add: a: Input should be a valid integer"),
    ({"a": None}, "a", "add: a: Input should be a valid integer"),
    ({"a": 1.5}, "a", "add: a: Input should be a valid integer, got a number with a fractional part"),
    ({}, "a", "add: a: Field required"),
    ({"a": 1, "c": 2}, "c", "add: c: no such parameter"),
    ({"a": 1, "ctx": 2}, "ctx", "add: ctx: no such parameter"),
]


@pytest.mark.parametrize(("arguments", "field", "text"), DOOR, ids=lambda value: str(value))
def test_arguments_that_do_not_fit(made: Made, arguments: dict[str, Any], field: str, text: str) -> None:
    for enqueue in (lambda: made.tools.add.enqueue(**arguments), lambda: made.app.enqueue("add", arguments)):
        with pytest.raises(InvalidInput) as caught:
            enqueue()
        assert caught.value.field == field
        assert str(caught.value).startswith(text)
    assert jobs_of(made.app) == 0


class Opaque:
    pass


UNSTORABLE: list[tuple[Any, str]] = [
    (math.nan, "value: nan is not JSON"),
    (-math.inf, "value: -inf is not JSON"),
    ({"deep": [math.nan]}, r"value\.deep\[0\]: nan is not JSON"),
    (b"abc", "bytes are not JSON: store them as an artifact and pass its id"),
    (bytearray(b"\xff"), "bytes are not JSON"),
    ({"deep": [b"\xff\x00"]}, "bytes are not JSON"),
    (dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "this datetime does not come back"),
    (decimal.Decimal("1.10"), "this Decimal does not come back"),
    (uuid.UUID(int=7), "this UUID does not come back"),
    ({1: 2}, "this dict does not come back"),
    ({1, 2}, "this set does not come back"),
    ((1, 2), "this tuple does not come back"),
    (Opaque(), "Unable to serialize unknown type"),
    (print, "Unable to serialize unknown type"),
    ("\ud800", "lone surrogate"),
    ({"\udfff": 1}, "surrogates not allowed"),
]


@pytest.mark.parametrize(("value", "text"), UNSTORABLE, ids=lambda value: ascii(value)[:40])
def test_what_no_hint_describes_and_json_does_not_have_is_refused(made: Made, value: Any, text: str) -> None:
    with pytest.raises(InvalidInput, match=text) as caught:
        made.tools.anything.enqueue(value=value)
    assert "\n" not in str(caught.value)
    assert jobs_of(made.app) == 0


def test_hints_say_how_such_values_are_stored(app: Tenure) -> None:
    @app.tool()
    def take(price: decimal.Decimal, ref: uuid.UUID, pair: tuple[int, int], tags: set[str]) -> None: ...

    given = {"price": decimal.Decimal("1.10"), "ref": uuid.UUID(int=7), "pair": (1, 2), "tags": {"x"}}
    job = app.enqueue(take, given)
    assert job.row.input == {"price": "1.10", "ref": str(uuid.UUID(int=7)), "pair": [1, 2], "tags": ["x"]}
    assert take.spec.bound(job.row.input) == given


def test_a_float_that_is_no_number_names_its_field(app: Tenure) -> None:
    @app.tool()
    def weigh(kilos: float, boxes: list[float]) -> None: ...

    for arguments, field in (({"kilos": math.nan, "boxes": []}, "kilos"), ({"kilos": 1, "boxes": [math.inf]}, "boxes")):
        with pytest.raises(InvalidInput, match="is not JSON") as caught:
            app.enqueue(weigh, arguments)
        assert str(caught.value.field).startswith(field)


def test_bytes_are_refused_whether_they_are_text_or_not(app: Tenure) -> None:
    @app.tool()
    def read(body: bytes, parts: list[bytes] | None = None) -> None: ...

    for arguments in ({"body": b"text"}, {"body": b"\xff"}, {"body": "text"}):
        with pytest.raises(
            InvalidInput, match="read: body: bytes are not JSON: store them as an artifact and pass its"
        ):
            app.enqueue(read, arguments)


def test_an_input_that_is_too_large_is_refused_in_bytes_not_in_characters(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENURE_MAX_INPUT_BYTES", "1000")
    app = Tenure(database_url)

    @app.tool()
    def read(text: str) -> None: ...

    most = 1000 - len('{"text":""}')
    assert app.enqueue(read, {"text": "x" * most}).row.input == {"text": "x" * most}
    for text in ("x" * (most + 1), "é" * (most // 2 + 1)):
        with pytest.raises(
            InputTooLarge, match=r"input has 1,00\d bytes, at most 1,000 are stored: store it as an art"
        ):
            app.enqueue(read, {"text": text})
    with pytest.raises(InputTooLarge):
        app.submit("x" * 1001, session_id="s", steps=[{"name": "a", "tool": "read", "arguments": {"text": "x"}}])
    assert jobs_of(app) == 1
    app.close()


def test_positional_arguments_are_refused(made: Made) -> None:
    with pytest.raises(TypeError, match=r"add\.enqueue takes named arguments only: they are stored by name"):
        made.tools.add.enqueue(1)


@pytest.mark.parametrize("given", [[("a", 1)], "a=1", None, 3])
def test_an_input_is_an_object(made: Made, given: Any) -> None:
    with pytest.raises(InvalidInput, match="add: expected arguments by name, got"):
        made.app.enqueue("add", given)


def test_a_result_that_does_not_fit_its_hint_fails_the_job(app: Tenure, made: Made) -> None:
    @app.tool(max_attempts=1)
    def lies() -> int:
        return "many"  # type: ignore[return-value]  # wrong on purpose

    @app.tool(max_attempts=1)
    def no_number() -> float:
        return math.nan

    jobs: list[Job[Any]] = [lies.enqueue(), no_number.enqueue()]
    made.worker.drain()
    for job in jobs:
        with pytest.raises(JobFailed) as caught:
            job.result("5s")
        assert caught.value.error_code == "result_not_serializable"
        assert caught.value.job_id == job.id


def test_an_old_input_that_no_longer_fits_is_not_bound(made: Made) -> None:
    with pytest.raises(InvalidInput, match="typed: colour: Input should be 'red' or 'blue'"):
        made.tools.typed.spec.bound({"day": "2026-02-28", "colour": "green", "lines": []})
