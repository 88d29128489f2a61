"""What leaves this process: the call that carries key and fence, and what an answer, or none, amounts to."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tenure import canon
from tenure.errors import RetryableError, TerminalError
from tenure.flow.effects import EffectEnd, EffectRequest
from tenure.payload import classify, sanitize_text, storable

TEXT = 2_000
Reconcile = Callable[["EffectCall"], Any]
Repeat = Literal["never", "safe"] | Reconcile

# A request that never reached anybody, by the names that HTTP clients give to a failed connect.
_UNCONNECTED = frozenset({"ConnectError", "ConnectTimeout", "ClientConnectorError", "NewConnectionError", "gaierror"})
_UNCONNECTED_ERRNO = frozenset({errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH})


class NotDone(Exception):
    """Raised by `call.not_done(reason)`: the other side is known not to have done it."""


@dataclass(slots=True)
class EffectCall:
    """What `send` gets: the key and the fence, as headers and as fields of a JSON body."""

    key: str
    fence: int
    resource: str
    operation: str
    external: str | None = field(default=None, init=False)

    @property
    def headers(self) -> dict[str, str]:
        """Request headers of the wire contract."""
        return {
            "Idempotency-Key": f'"{self.key}"',
            "Execution-Fence": str(self.fence),
            "X-Execution-Fence": str(self.fence),
            "Execution-Fence-Resource": self.resource,
        }

    @property
    def fields(self) -> dict[str, Any]:
        """The same as fields of a body."""
        return {
            "idempotency_key": self.key,
            "execution_fence": self.fence,
            "execution_fence_resource": self.resource,
            "operation": self.operation,
        }

    def external_id(self, value: str) -> None:
        """Notes the other side's id of the request."""
        self.external = sanitize_text(str(value), 200)

    def not_done(self, reason: str) -> NotDone:
        """To be raised by `send` (or returned by a reconcile function) when the other side did nothing."""
        return NotDone(reason)


@dataclass(frozen=True, slots=True)
class Ended:
    """What to record, and what to raise in the tool, if anything."""

    end: EffectEnd
    error: BaseException | None = None


def of_answer(request: EffectRequest, call: EffectCall, answer: Any) -> Ended:
    """A JSON value or a 2xx is `done`; a 4xx that says no is `not_done`; anything else nobody knows."""
    if isinstance(answer, NotDone):
        return of_error(request, call, answer)
    status = getattr(answer, "status_code", None)
    if not isinstance(status, int):
        return _done(call, answer)
    if 200 <= status < 300:
        return _done(call, _body(answer))
    refused = 400 <= status < 500 and status != 408 and _code(answer) != "outcome_unknown"
    error = _status_error(status, getattr(answer, "headers", {}))
    return _not_done(call, error) if refused else _unknown(request, call, f"HTTP {status}")


def of_error(request: EffectRequest, call: EffectCall, error: BaseException) -> Ended:
    """What an exception of `send` amounts to."""
    if isinstance(error, NotDone):
        return _not_done(call, RetryableError(f"not done: {error}"))
    if _unconnected(error):
        return _not_done(call, RetryableError(f"could not connect: {sanitize_text(str(error), TEXT)}"))
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int) and 400 <= status < 500 and status != 408:
        return _not_done(call, error)
    return _unknown(request, call, f"{type(error).__name__}: {error}")


def _done(call: EffectCall, value: Any) -> Ended:
    return Ended(EffectEnd("done", canon.encode(value), call.external))


def _not_done(call: EffectCall, error: BaseException) -> Ended:
    failure = classify(error)
    return Ended(EffectEnd("not_done", None, call.external, failure.code, failure.text), error)


def _unknown(request: EffectRequest, call: EffectCall, text: str) -> Ended:
    shown = sanitize_text(text, TEXT)
    end = EffectEnd("unknown", None, call.external, "outcome_unknown", shown)
    if request.repeat == "never":
        return Ended(end, TerminalError(f"effect {request.place}: {shown}", code="outcome_unknown"))
    return Ended(end, RetryableError(f"effect {request.place}: outcome unknown: {shown}"))


def _unconnected(error: BaseException) -> bool:
    names = {kind.__name__ for kind in type(error).__mro__}
    reason = getattr(error, "reason", None)
    if isinstance(reason, BaseException) and reason is not error:
        return _unconnected(reason)
    return bool(names & _UNCONNECTED) or getattr(error, "errno", None) in _UNCONNECTED_ERRNO


def _body(answer: Any) -> Any:
    """The JSON of an answer; of one that says yes in plain text, the text."""
    if not getattr(answer, "content", b"{}"):
        return None
    try:
        return answer.json()
    except ValueError:
        return storable(answer.text)


def _code(answer: Any) -> str | None:
    try:
        body = answer.json()
    except Exception:  # noqa: BLE001  (whatever a client raises for a body that is not JSON)
        return None
    return body.get("code") if isinstance(body, Mapping) else None


class _StatusError(Exception):
    """An answer's status and headers, for the classification that exceptions get."""

    def __init__(self, status: int, headers: Any) -> None:
        super().__init__(f"HTTP {status}")
        self.status_code = status
        self.headers = headers


def _status_error(status: int, headers: Any) -> BaseException:
    failure = classify(_StatusError(status, headers))
    if failure.kind == "terminal":
        return TerminalError(failure.text, code=failure.code)
    return RetryableError(failure.text, retry_after=failure.retry_after, charge=failure.charge)
