"""What callers write, checked and put into the requests of the flow."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Required, TypedDict

from tenure.canon import duration, encode, instant
from tenure.canon import name as checked_name
from tenure.errors import InvalidInput, NotFound, ResultNotSerializable
from tenure.flow import BareJob, Decision, Request
from tenure.planner import Step
from tenure.records import DEFAULT_TENANT, RowKey

MOST_USES = 1_000_000


class Options(TypedDict, total=False):
    """What `enqueue` takes beside tool and input. `delay` is a duration; `priority` is 0…10."""

    idempotency_key: str | None
    delay: str | None
    priority: int | None
    user_id: str | None
    project_id: str | None
    tenant_id: str
    connection: Any


class TurnOptions(TypedDict, total=False):
    """What `submit` takes beside the input."""

    session_id: Required[str]
    command: str | None
    steps: Sequence[Step | Mapping[str, Any]] | None
    profile: str | None
    project_id: str | None
    user_id: str | None
    tenant_id: str
    idempotency_key: str | None
    on_busy: Literal["reject", "queue"]


def row_key(tenant_id: str, id: str, kind: str) -> RowKey:
    """The key of a row by its id. NotFound for what is no id at all: nobody has such a row."""
    try:
        return RowKey(tenant_id, str(uuid.UUID(id)))
    except (ValueError, AttributeError, TypeError):
        raise NotFound(f"no {kind} {id!r}") from None


def bare_job(tool: str, arguments: Mapping[str, Any], options: Options) -> BareJob:
    """The request for one job. InvalidInput names the option that is wrong."""
    unknown = set(options) - set(Options.__annotations__)
    if unknown:
        raise TypeError(f"enqueue() has no argument {min(unknown)!r}")
    delay, priority = options.get("delay"), options.get("priority")
    if priority is not None and not (type(priority) is int and 0 <= priority <= 10):
        raise InvalidInput(f"priority: expected a whole number within 0…10, got {priority!r}", field="priority")
    return BareJob(
        tool=tool,
        arguments=arguments,
        tenant_id=checked_name(options.get("tenant_id", DEFAULT_TENANT), "tenant_id"),
        project_id=optional_name(options.get("project_id"), "project_id"),
        user_id=optional_name(options.get("user_id"), "user_id"),
        idempotency_key=idempotency_key(options.get("idempotency_key")),
        delay_s=None if delay is None else duration(delay, "delay"),
        priority=priority,
    )


def turn_request(
    input: Any,
    *,
    steps: Sequence[Step | Mapping[str, Any]] | None,
    command: str | None,
    commands: Mapping[str, Any],
    fields: Mapping[str, Any],
) -> Request:
    """The request for a turn: by a command among `commands`, or by given steps. InvalidInput."""
    if fields["on_busy"] not in ("reject", "queue"):
        raise InvalidInput(f"on_busy is 'reject' or 'queue', not {fields['on_busy']!r}", field="on_busy")
    if (command is None) == (steps is None):
        raise InvalidInput("a turn has either a command or steps", field="command")
    if command is not None and command not in commands:
        known = ", ".join(sorted(commands)) or "none"
        raise InvalidInput(f"no recipe for command {command!r}; known: {known}", field="command")
    _check_json(input)
    plan = None
    if steps is not None:
        plan = [step.stored() if isinstance(step, Step) else _as_object(step, at) for at, step in enumerate(steps)]
    checked = {
        "tenant_id": checked_name(fields["tenant_id"], "tenant_id"),
        "project_id": optional_name(fields["project_id"], "project_id"),
        "user_id": optional_name(fields["user_id"], "user_id"),
        "profile": optional_name(fields["profile"], "profile"),
        "idempotency_key": idempotency_key(fields["idempotency_key"]),
    }
    return Request(input=input, command=command, steps=plan, **{**fields, **checked})


def _check_json(input: Any) -> None:
    """An input is stored exactly, so it is JSON already."""
    try:
        encode(input)
    except ResultNotSerializable as error:
        raise InvalidInput(f"input: {error}", field="input") from None


def json_object(value: object, field: str) -> dict[str, Any]:
    """A JSON object as it will be stored. InvalidInput."""
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{field}: expected an object, got {type(value).__name__}", field=field)
    try:
        encode(dict(value))
    except (ResultNotSerializable, RecursionError) as error:
        raise InvalidInput(f"{field}: {error}", field=field) from None
    return dict(value)


def checked_cursor(after: object) -> None:
    """Refuses what is no cursor: the last `event_seq` that was read, from 0."""
    if not isinstance(after, int) or isinstance(after, bool) or after < 0:
        raise InvalidInput(f"after: expected an event_seq, 0 or more, got {after!r}", field="after")


def _as_object(step: object, at: int) -> dict[str, Any]:
    if not isinstance(step, Mapping):
        raise InvalidInput(f"steps[{at}]: expected a Step or an object, got {type(step).__name__}", field="steps")
    return dict(step)


def agreement(
    approval: RowKey,
    *,
    scope: Mapping[str, Any] | None,
    expires: str | datetime | None,
    uses: int | None,
    **fields: Any,
) -> Decision:
    """A person's yes. `expires` and `uses` bound a scope, so they need one. InvalidInput."""
    for field, value in (("expires", expires), ("uses", uses)):
        if value is not None and scope is None:
            raise InvalidInput(f"{field}: bounds a scope, and none was given: without one it is for once", field)
    if uses is not None and not (type(uses) is int and 1 <= uses <= MOST_USES):
        raise InvalidInput(f"uses: expected a whole number from 1 to {MOST_USES}, got {uses!r}", field="uses")
    lasts_s, until = _expiry(expires)
    return Decision(
        approval_id=approval.id,
        tenant_id=approval.tenant_id,
        approve=True,
        scope=None if scope is None else dict(scope),
        scope_s=lasts_s,
        scope_until=until,
        uses=uses,
        **fields,
    )


def _expiry(value: str | datetime | None) -> tuple[float | None, datetime | None]:
    """Seconds of a duration, or an instant with its offset."""
    if value is None:
        return None, None
    if isinstance(value, datetime) or "-" in str(value):
        return None, instant(value, "expires")
    return duration(value, "expires"), None


def idempotency_key(value: Any) -> str | None:
    """Any text of 1 to 200 characters. InvalidInput."""
    if value is None:
        return None
    if not (isinstance(value, str) and 1 <= len(value) <= 200 and value.isprintable()):
        raise InvalidInput("idempotency_key: expected 1-200 printable characters", field="idempotency_key")
    return value


def optional_name(value: str | None, field: str) -> str | None:
    return None if value is None else checked_name(value, field)
