"""Bare jobs: work without session, turn or events; the row and the journal are its history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tenure import canon
from tenure.db.tx import Tx
from tenure.errors import IdempotencyConflict, InputTooLarge, InvalidInput, NeedsTurn
from tenure.flow.admit import admit
from tenure.flow.program import Program
from tenure.records import DEFAULT_TENANT, Job, NewJob, RowKey
from tenure.store import jobs, keys
from tenure.tools import ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class BareJob:
    """A request for one job. `delay_s`: seconds until it is due; `priority` 0…10 only moves one that is due at once."""

    tool: str
    arguments: Mapping[str, Any]
    tenant_id: str = DEFAULT_TENANT
    project_id: str | None = None
    user_id: str | None = None
    idempotency_key: str | None = None
    delay_s: float | None = None
    priority: int | None = None
    traceparent: str | None = None


def enqueue(program: Program, request: BareJob) -> tuple[Job, bool]:
    """Makes the job and returns it with False, or the one that the same key made before with True.

    InvalidInput, NeedsTurn, IdempotencyConflict; nothing is written then.
    """
    spec, new = prepared(program, request)
    places = key_places(spec, new)
    if places:
        program.database.write(lambda tx: keys.ensure(tx, places), lookup=True)

    def body(tx: Tx) -> tuple[Job, bool]:
        tx.wake()
        return insert(tx, new)

    made = program.database.write(body, lookup=True)
    admit(program, places)
    return made


def enqueue_on(program: Program, tx: Tx, request: BareJob) -> tuple[Job, bool]:
    """The same in a caller's transaction: the job exists if and only if the caller commits."""
    spec, new = prepared(program, request)
    places = key_places(spec, new)
    if places:
        keys.ensure(tx, places)
    return insert(tx, new)


def prepared(program: Program, request: BareJob) -> tuple[ToolSpec, NewJob]:
    """The row to insert, from validated arguments."""
    spec = program.tools.get(request.tool)
    if spec.approval != "never" or spec.writes is not None:
        why = "asks for approval" if spec.approval != "never" else f"writes the slot {spec.writes!r}"
        raise NeedsTurn(f"tool {spec.name!r} {why}: submit(…, steps=[…]) runs it in a turn")
    arguments = spec.validated(request.arguments)
    check_size(program, arguments)
    project_id = None if request.project_id is None else canon.name(request.project_id, "project_id")
    if request.priority is not None and not 0 <= request.priority <= 10:
        raise InvalidInput(f"priority {request.priority} is not within 0…10", field="priority")
    user_limit = None
    if spec.limit_per_user is not None and request.user_id is not None:
        user_limit = keys.user_limit_key(spec.name, request.user_id)
    new = NewJob(
        tenant_id=request.tenant_id,
        job_id=canon.uuid7(),
        tool=spec.name,
        input=arguments,
        max_attempts=spec.max_attempts,
        max_runtime_s=spec.max_runtime_s,
        project_id=project_id,
        user_id=request.user_id,
        due_in_s=request.delay_s,
        priority=spec.priority if request.priority is None else request.priority,
        limit_key=keys.limit_key(spec.name) if spec.limit is not None else None,
        user_limit_key=user_limit,
        idempotency_key=request.idempotency_key,
        request_digest=_request_digest(request, spec, project_id, arguments),
        traceparent=request.traceparent,
    )
    return spec, new


def _request_digest(request: BareJob, spec: ToolSpec, project_id: str | None, arguments: dict[str, Any]) -> str | None:
    if request.idempotency_key is None:
        return None
    return canon.digest({"tool": spec.name, "project": project_id, "input": arguments})


def check_size(program: Program, arguments: Any) -> None:
    """Refuses an input that is too large to be stored exactly."""
    size, most = len(canon.encode(arguments).encode()), program.settings.max_input_bytes
    if size > most:
        raise InputTooLarge(
            f"input has {size:,} bytes, at most {most:,} are stored: store it as an artifact and pass its id",
            field="input",
        )


def key_places(spec: ToolSpec, new: NewJob) -> dict[RowKey, int]:
    """The places of the keys that a job needs, as its tool declares them."""
    wanted = {new.limit_key: spec.limit, new.user_limit_key: spec.limit_per_user, new.slot_key: 1}
    return {keys.place(new.tenant_id, key): places for key, places in wanted.items() if key and places}


def insert(tx: Tx, new: NewJob) -> tuple[Job, bool]:
    """Inserts the job, or finds the one that is there by its id or its idempotency key."""
    key = RowKey(new.tenant_id, new.job_id)
    replayed = not jobs.insert(tx, [new])
    found = jobs.get(tx, key)
    if found is None and new.idempotency_key is not None:
        found = jobs.by_idempotency_key(tx, new.tenant_id, new.idempotency_key)
    assert found is not None, "an insert that moved nothing has a row to show for it"
    if found.request_digest != new.request_digest:
        raise IdempotencyConflict(f"idempotency key {new.idempotency_key!r} was used with another request")
    return found, replayed and found.job_id != new.job_id
