"""What an ending of a tool means: again or not, when, and the text that may be stored."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from tenure import canon, errors
from tenure.payload.policy import DEFAULT
from tenure.payload.sanitizer import sanitize_text

Kind = Literal["retryable", "terminal"]

RETRY_AFTER_CAP = 3600.0
_LEAVES = 20
_CODE_LENGTH = 64

# Of Tenure's own errors these may pass by themselves; the rest say that the same attempt would end in the same way.
_PASSING = (
    errors.RetryableError,
    errors.OwnershipLost,
    errors.DatabaseUnavailable,
    errors.WaitTimeout,
    errors.SessionBusy,
    errors.SlotBusy,
)
_VALIDATION = frozenset({"ValidationError", "RequestValidationError", "ResponseValidationError"})
_TIMEOUTS = frozenset({"Timeout", "TimeoutException", "APITimeoutError", "ServerTimeoutError"})
_CONNECTIONS = frozenset(
    {"TransportError", "ConnectionError", "APIConnectionError", "ClientConnectionError", "URLError", "gaierror"}
)
_RETRYABLE_STATUSES = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True)
class Failure:
    """The classification of one ending, as it is stored.

    ``code``: stable, snake_case. ``text``: bounded, sanitized. ``retry_after``: seconds within [0, cap] that somebody
    asked for, or None. ``charge``: whether the attempt counts. ``note``: what was clamped. ``exception``: its type.
    """

    code: str
    kind: Kind
    text: str
    retry_after: float | None = None
    charge: bool = True
    note: str | None = None
    exception: str = ""


@dataclass(frozen=True, slots=True)
class _Verdict:
    code: str
    kind: Kind
    retry_after: object = None
    charge: bool = True


def classify(error: BaseException, cap: float = RETRY_AFTER_CAP) -> Failure:
    """The Failure that an exception of a tool amounts to; total over every BaseException, ``cap`` in seconds."""
    try:
        verdict = _verdict(error)
    except Exception:  # noqa: BLE001 - total: an exception whose own attributes raise is of unknown kind
        verdict = _Verdict("exception", "retryable")
    seconds, note = _retry_after(verdict.retry_after, cap)
    name = _type_name(error)
    return Failure(verdict.code, verdict.kind, _text(error, name), seconds, verdict.charge, note, name)


def _verdict(error: BaseException) -> _Verdict:
    if isinstance(error, errors.TenureError):
        return _own(error)
    if isinstance(error, BaseExceptionGroup):
        return _group(error)
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & _VALIDATION:
        return _Verdict("validation", "terminal")
    status, headers = _http(error, names)
    return _Verdict(_plain_code(error, names), "retryable") if status is None else _of_status(status, headers)


def _own(error: errors.TenureError) -> _Verdict:
    kind: Kind = "retryable" if isinstance(error, _PASSING) else "terminal"
    code = _code(error.code)
    if isinstance(error, errors.RetryableError):
        return _Verdict(code, kind, error.retry_after, error.charge is not False)
    return _Verdict(code, kind)


def _code(code: object) -> str:
    text = code if type(code) is str else "terminal"
    fits = text.isascii() and text.replace("_", "").replace(".", "").isalnum() and len(text) <= _CODE_LENGTH
    return text if fits else "terminal"


def _group(group: BaseExceptionGroup[BaseException]) -> _Verdict:
    """One leaf speaks for the group; among several, one that cannot pass decides, for it would come again."""
    verdicts = [_verdict(leaf) for leaf in _leaves(group)]
    if len(verdicts) == 1:
        return verdicts[0]
    terminal = next((verdict for verdict in verdicts if verdict.kind == "terminal"), None)
    return terminal or _Verdict("exception_group", "retryable")


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    open_groups: list[BaseException] = [group]
    for _ in range(_LEAVES):
        if not open_groups:
            return
        error = open_groups.pop()
        if isinstance(error, BaseExceptionGroup):
            open_groups.extend(error.exceptions[:_LEAVES])
        else:
            yield error


def _plain_code(error: BaseException, names: set[str]) -> str:
    if isinstance(error, TimeoutError) or names & _TIMEOUTS:
        return "timeout"
    if isinstance(error, ConnectionError) or names & _CONNECTIONS:
        return "connection"
    if isinstance(error, asyncio.CancelledError):
        return "cancelled_error"
    if isinstance(error, SystemExit):
        return "system_exit"
    return "keyboard_interrupt" if isinstance(error, KeyboardInterrupt) else "exception"


# -- HTTP, by what the error has and not by whose it is ----------------------------------------------------------------


def _http(error: BaseException, names: set[str]) -> tuple[int | None, Any]:
    response = getattr(error, "response", None)
    for holder, field in ((response, "status_code"), (response, "status"), (error, "status_code"), (error, "status")):
        status = _status(getattr(holder, field, None))
        if status is not None:
            return status, getattr(holder, "headers", None) or getattr(error, "headers", None)
    if "HTTPError" in names:
        return _status(getattr(error, "code", None)), getattr(error, "headers", None)
    return None, None


def _status(value: object) -> int | None:
    # Below 400 nothing failed in HTTP's sense; the exception is then judged as any other.
    return int(value) if isinstance(value, int) and 400 <= value <= 599 else None


def _of_status(status: int, headers: Any) -> _Verdict:
    asked = _header(headers, "Retry-After")
    retryable = status >= 500 or status in _RETRYABLE_STATUSES or (status == 409 and asked is not None)
    if not retryable:
        return _Verdict(f"http_{status}", "terminal")
    delay = None if asked is None else _HeaderDelay(asked, _header(headers, "Date"))
    # The limit that says when to come back asked for the wait: the attempt is not the tool's fault.
    return _Verdict(f"http_{status}", "retryable", delay, charge=not (status == 429 and asked is not None))


def _header(headers: Any, name: str) -> str | None:
    get = getattr(headers, "get", None)
    if get is None:
        return None
    value = get(name)
    value = get(name.lower()) if value is None else value
    return value if isinstance(value, str) else None


# -- when --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _HeaderDelay:
    value: str
    date: str | None


def _retry_after(asked: object, cap: float) -> tuple[float | None, str | None]:
    if asked is None:
        return None, None
    try:
        return canon.clamp_seconds(_seconds(asked), cap, "retry_after")
    except (ValueError, TypeError, OverflowError, errors.InvalidInput):
        return None, "retry_after could not be read"


def _seconds(asked: object) -> float:
    if isinstance(asked, _HeaderDelay):
        return _header_seconds(asked)
    if isinstance(asked, (int, float)):
        return _float(asked)
    return canon.duration(asked, "retry_after")


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _header_seconds(asked: _HeaderDelay) -> float:
    try:
        return float(asked.value[:100])
    except ValueError:
        # The sender's own Date is the clock that its Retry-After was read from.
        now = _stamp(asked.date) if asked.date else canon.epoch_ms() / 1000
        return max(_stamp(asked.value) - now, 0.0)


def _stamp(text: str) -> float:
    moment = parsedate_to_datetime(text[:100])
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


# -- text --------------------------------------------------------------------------------------------------------------


def _type_name(error: BaseException) -> str:
    kind = type(error)
    module = getattr(kind, "__module__", "")
    prefix = "" if module in ("builtins", "__main__") or not isinstance(module, str) else f"{module}."
    return sanitize_text(f"{prefix}{kind.__qualname__}", 200)


def _text(error: BaseException, name: str) -> str:
    try:
        # Cut before it is scanned: five megabytes of text must not cost five megabytes of patterns.
        text = str.__str__(str(error))
    except BaseException:  # noqa: BLE001 - whatever __str__ raises, SystemExit too, must not replace the ending itself
        return f"{name} (its text could not be read)"
    return sanitize_text(text, DEFAULT.string) or name
