import asyncio
import copy
import email.message
import pickle
import urllib.error
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure import errors
from tenure.payload import Failure, classify


@dataclass
class Response:
    status_code: int
    headers: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.status_code < 400  # as in requests


class HTTPStatusError(Exception):
    def __init__(self, status: int, headers: dict[str, str] | None = None) -> None:
        super().__init__(f"status {status} for https://h/x?api_key=tr0ub4dor")
        self.response = Response(status, headers or {})


class StatusOnItself(Exception):
    def __init__(self, status: int) -> None:
        self.status = status


class ValidationError(ValueError):
    pass


class ConnectTimeout(Exception):
    pass


class TransportError(Exception):
    pass


class ReadError(TransportError):
    pass


class Unprintable(Exception):
    def __init__(self, inner: BaseException) -> None:
        self.inner = inner

    def __str__(self) -> str:
        raise self.inner


class Treacherous(Exception):
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


class NotText(Exception):
    def __str__(self) -> str:
        return 7  # type: ignore[return-value]


def urllib_error(status: int, **headers: str) -> urllib.error.HTTPError:
    message = email.message.Message()
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    return urllib.error.HTTPError("https://h/x", status, "no", message, None)


CASES: list[tuple[BaseException, str, str]] = [
    (errors.RetryableError("again"), "retryable", "retryable"),
    (errors.TerminalError("no"), "terminal", "terminal"),
    (errors.TerminalError("no", code="card_declined"), "card_declined", "terminal"),
    (errors.TerminalError("no", code="password=tr0ub4dor\x00"), "terminal", "terminal"),
    (errors.ResultNotSerializable("$.a"), "result_not_serializable", "terminal"),
    (errors.InvalidInput("no", "x"), "invalid_input", "terminal"),
    (errors.NotFound("no"), "not_found", "terminal"),
    (errors.IdempotencyConflict("no"), "idempotency_conflict", "terminal"),
    (errors.SlotBusy("no"), "slot_busy", "retryable"),
    (errors.DatabaseUnavailable("gone"), "database_unavailable", "retryable"),
    (errors.OwnershipLost("lost"), "ownership_lost", "retryable"),
    (errors.CancelRequested("stop"), "cancel_requested", "terminal"),
    (errors.JobFailed("child"), "job_failed", "terminal"),
    (ValidationError("bad"), "validation", "terminal"),
    (ValueError("bad \x00 byte"), "exception", "retryable"),
    (RuntimeError("x"), "exception", "retryable"),
    (ConnectionResetError("x"), "connection", "retryable"),
    (ReadError("x"), "connection", "retryable"),
    (urllib.error.URLError("x"), "connection", "retryable"),
    (TimeoutError("x"), "timeout", "retryable"),
    (asyncio.TimeoutError("x"), "timeout", "retryable"),  # noqa: UP041
    (SystemExit(3), "system_exit", "retryable"),
    (KeyboardInterrupt(), "keyboard_interrupt", "retryable"),
    (asyncio.CancelledError(), "cancelled_error", "retryable"),
    (GeneratorExit(), "exception", "retryable"),
    (MemoryError(), "exception", "retryable"),
    (ExceptionGroup("g", [errors.TerminalError("no", code="declined")]), "declined", "terminal"),
    (ExceptionGroup("g", [RuntimeError(), HTTPStatusError(404)]), "http_404", "terminal"),
    (ExceptionGroup("g", [RuntimeError(), ValueError()]), "exception_group", "retryable"),
    (BaseExceptionGroup("g", [KeyboardInterrupt(), SystemExit()]), "exception_group", "retryable"),
    (urllib_error(404), "http_404", "terminal"),
    (urllib_error(503), "http_503", "retryable"),
    (StatusOnItself(422), "http_422", "terminal"),
    (StatusOnItself(302), "exception", "retryable"),
    (Treacherous(), "exception", "retryable"),
]


@pytest.mark.parametrize(("error", "code", "kind"), CASES, ids=range(len(CASES)))
def test_classification(error: BaseException, code: str, kind: str) -> None:
    failure = classify(error)
    assert (failure.code, failure.kind) == (code, kind)


@pytest.mark.parametrize("status", range(400, 600))
@pytest.mark.parametrize("retry_after", [None, "7"])
def test_statuses(status: int, retry_after: str | None) -> None:
    failure = classify(HTTPStatusError(status, {"retry-after": retry_after} if retry_after else {}))
    again = status >= 500 or status in (408, 425, 429) or (status == 409 and retry_after is not None)
    assert failure.code == f"http_{status}"
    assert failure.kind == ("retryable" if again else "terminal")
    assert failure.retry_after == (7.0 if again and retry_after else None)
    assert failure.charge == (status != 429 or retry_after is None)


@pytest.mark.parametrize(
    ("asked", "seconds", "noted"),
    [
        (None, None, False),
        (12, 12.0, False),
        (0.5, 0.5, False),
        ("90s", 90.0, False),
        (-5, 0.0, True),
        (1e12, 3600.0, True),
        (10**400, 3600.0, True),
        (float("nan"), 0.0, True),
        (float("inf"), 3600.0, True),
        ("soon", None, True),
        (object(), None, True),
    ],
)
def test_retry_after_of_a_tool(asked: Any, seconds: float | None, noted: bool) -> None:
    failure = classify(errors.RetryableError("again", retry_after=asked), cap=3600)
    assert failure.retry_after == seconds
    assert (failure.note is not None) == noted


@pytest.mark.parametrize(
    ("header", "seconds", "noted"),
    [
        ("120", 120.0, False),
        ("Sun, 01 Mar 2026 09:01:30 GMT", 90.0, False),
        ("Sun, 01 Mar 2026 08:00:00 GMT", 0.0, False),
        ("Sun, 01 Mar 2099 09:00:00 GMT", 3600.0, True),
        ("1e12", 3600.0, True),
        ("nan", 0.0, True),
        ("-1", 0.0, True),
        ("whenever", None, True),
        ("9" * 5000, 3600.0, True),
    ],
)
def test_retry_after_header(header: str, seconds: float | None, noted: bool) -> None:
    date = "Sun, 01 Mar 2026 09:00:00 GMT"
    for error in (
        HTTPStatusError(503, {"Retry-After": header, "Date": date}),
        urllib_error(503, Retry_After=header, Date=date),
    ):
        failure = classify(error)
        assert failure.retry_after == seconds
        assert (failure.note is not None) == noted


def test_a_date_without_the_senders_clock_is_taken_against_ours() -> None:
    assert classify(HTTPStatusError(503, {"Retry-After": "Sun, 01 Mar 2020 09:00:00 GMT"})).retry_after == 0.0


def test_uncharged_when_the_tool_says_so() -> None:
    assert classify(errors.RetryableError("x")).charge
    assert not classify(errors.RetryableError("x", charge=False)).charge


def test_text_is_sanitized() -> None:
    failure = classify(HTTPStatusError(500))
    assert failure.text == "status 500 for https://h/x?api_key=[masked:key]"
    assert failure.exception.endswith("HTTPStatusError")
    assert classify(ValueError("bad \x00 byte")).text == "bad ␀ byte"
    assert classify(RuntimeError("quotes ' \" %s {}")).text == "quotes ' \" %s {}"


@pytest.mark.parametrize("inner", [ValueError(), SystemExit(), KeyboardInterrupt(), RecursionError()])
def test_text_that_cannot_be_read(inner: BaseException) -> None:
    failure = classify(Unprintable(inner))
    assert failure.text.endswith("Unprintable (its text could not be read)")
    assert failure.kind == "retryable"
    assert classify(NotText()).text.endswith("NotText (its text could not be read)")


def test_an_error_without_text_is_named() -> None:
    assert classify(KeyError()).text == "KeyError"


def test_five_megabytes_are_cut_with_the_secret_in_them() -> None:
    secret = "tr0ub4dor"
    failure = classify(RuntimeError(f"{'x ' * 990}password={secret} {'y' * 5_000_000}"))
    assert len(failure.text) <= 2_000
    assert secret[:4] not in failure.text


def test_a_deep_group_ends() -> None:
    group: Exception = ValueError("leaf")
    for _ in range(300):
        group = ExceptionGroup("g", [group])
    assert classify(group).kind == "retryable"


@settings(deadline=None)
@given(
    st.sampled_from([ValueError, OSError, SystemExit, errors.RetryableError, errors.TerminalError]),
    st.lists(st.one_of(st.text(), st.binary(), st.none(), st.floats(), st.integers()), max_size=2),
)
def test_total(kind: type[BaseException], arguments: list[Any]) -> None:
    failure = classify(kind(*arguments))
    assert isinstance(failure, Failure)
    assert 0 < len(failure.text) <= 2_000
    assert "\x00" not in failure.text
    assert failure.retry_after is None or 0 <= failure.retry_after <= 3600


# -- the tree of exceptions --------------------------------------------------------------------------------------------


def tree(kind: type[errors.TenureError]) -> list[type[errors.TenureError]]:
    """The errors of the tree's own module: toolkits and tests may derive more."""
    own = [direct for direct in kind.__subclasses__() if direct.__module__ == errors.__name__]
    return [kind, *(child for direct in own for child in tree(direct))]


ALL = tree(errors.TenureError)


def test_codes_are_unique_and_drawn_in_the_docstring() -> None:
    assert len({kind.code for kind in ALL}) == len(ALL)
    drawn = str(errors.__doc__).splitlines()
    for kind in ALL:
        line = next(line for line in drawn if kind.__name__ in line.split())
        assert kind.code in line


@pytest.mark.parametrize("kind", ALL)
def test_errors_survive_pickle_and_copy(kind: type[errors.TenureError]) -> None:
    error: Any = kind("text", detail={"n": 1})
    error.field = "f"
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (type(twin), str(twin), twin.detail, twin.field) == (kind, "text", {"n": 1}, "f")
