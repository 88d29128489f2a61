"""One attempt: resolve → perform → encode; any ending, whatever it is, becomes an Outcome."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tenure import canon
from tenure.context import AsyncToolContext, Attempt, Hold, Stop, ToolContext
from tenure.errors import InvalidInput, OwnershipLost, ResultNotSerializable
from tenure.flow import Completed, Failed, Outcome, Released, ask
from tenure.leases import retry_delay
from tenure.payload import classify, storable
from tenure.tools import ToolSpec


def perform(attempt: Attempt, spec: ToolSpec | None) -> Outcome:
    """Runs a plain tool, or asks a planner (`spec` None), in this thread."""
    try:
        if spec is None:
            planned = ask(attempt.program, attempt.lease)
            return _too_late(attempt.hold) or planned
        context = {} if spec.context is None else {spec.context: ToolContext(attempt)}
        value = spec.fn(**_arguments(spec, attempt.lease.input), **context)
        return _too_late(attempt.hold) or Completed(encoded(spec, value))
    except BaseException as error:  # noqa: BLE001  (every ending of a tool is an outcome, SystemExit among them)
        return of_error(attempt.hold, error)


async def perform_async(attempt: Attempt, spec: ToolSpec) -> Outcome:
    """Runs an `async def` tool on the loop that awaits this."""
    try:
        context = {} if spec.context is None else {spec.context: AsyncToolContext(attempt)}
        value = await spec.fn(**_arguments(spec, attempt.lease.input), **context)
        return _too_late(attempt.hold) or Completed(encoded(spec, value))
    except BaseException as error:  # noqa: BLE001  (as above)
        return of_error(attempt.hold, error)


def _too_late(hold: Hold) -> Outcome | None:
    """`timeout` bounds an attempt: what a thread returns after it is not its job's result."""
    return of_stop(hold, "timeout") if hold.stop == "timeout" else None


class _InputInvalid(Exception):
    pass


def _arguments(spec: ToolSpec, stored: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return spec.bound(stored)
    except InvalidInput as error:
        raise _InputInvalid(str(error)) from None


def encoded(spec: ToolSpec, value: Any) -> str:
    """The result as it is stored. Text that no database stores (NUL, lone surrogates) gets a visible marker, on both
    databases alike."""
    try:
        text = spec.encoded(storable(value) if isinstance(value, (str, list, dict)) else value)
    except RecursionError:
        raise ResultNotSerializable(f"{spec.name}: the result holds itself, or is too deep") from None
    # Only now are the texts within a model or a dataclass plain to see.
    return canon.encode(storable(json.loads(text))) if "\\u0000" in text else text


def bounded(outcome: Outcome, most: int) -> Outcome:
    """A result that is too large to be stored exactly ends the job for good, as such an input is refused."""
    if not isinstance(outcome, Completed) or len(outcome.output) <= most // 4:
        return outcome
    size = len(outcome.output.encode())
    if size <= most:
        return outcome
    text = f"the result has {size:,} bytes, at most {most:,} are stored: publish an artifact and return its id"
    return Failed("result_too_large", text, "terminal")


def of_error(hold: Hold, error: BaseException) -> Outcome:
    """What an exception amounts to, in the light of why the attempt was told to stop, if it was."""
    stopped = of_stop(hold, hold.stop)
    if stopped is not None:
        return stopped
    if isinstance(error, _InputInvalid):
        return Failed("input_invalid", classify(error).text, "terminal")
    if isinstance(error, OwnershipLost):
        return Failed(error.code, classify(error).text, "retryable")
    failure = classify(error)
    delay_s = failure.retry_after if failure.retry_after is not None else retry_delay(hold.lease.attempt)
    return Failed(failure.code, failure.text, failure.kind, delay_s, failure.charge, note=failure.note)


def of_stop(hold: Hold, stop: Stop | None) -> Outcome | None:
    """The outcome of an attempt that was stopped from outside and did not return."""
    match stop:
        case "timeout":
            text = "the attempt took longer than its tool allows"
            return Failed("timeout", text, "retryable", retry_delay(hold.lease.attempt), timed_out=True)
        case "shutdown":
            return Released("released")
        case "cancel":
            return Failed("cancelled", "cancelled while running", "terminal")
        case _:
            return None
