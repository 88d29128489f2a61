"""3. and 5. A ready item is assessed: its arguments are final now; a person must agree, or it becomes a job.

A step of its own after the commit that completed the last dependency. User code (validators, approval functions) runs
outside the transaction; the result is written only if the item is as it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tenure import canon
from tenure.db.tx import Tx
from tenure.errors import InvalidInput, NotFound
from tenure.flow import facts
from tenure.flow.enqueue import key_places
from tenure.flow.program import Program
from tenure.flow.scope import covers
from tenure.flow.turns import area_of, fail_item, judge, restate, show_pending
from tenure.payload import sanitize, sanitize_text
from tenure.planner.steps import resolved
from tenure.records import Grant, Job, NewJob, PlanItem, RowKey, SessionKey, Turn
from tenure.states import ItemStatus, is_terminal
from tenure.store import approvals, jobs, keys, plans, sessions, turns
from tenure.store.approvals import NewApproval
from tenure.tools import Call, ToolSpec

TEXT = 2_000


@dataclass(frozen=True, slots=True)
class Assessment:
    """What assessing an item came to, computed outside any transaction."""

    item: PlanItem
    spec: ToolSpec | None = None
    arguments: dict[str, Any] | None = None
    digest: str | None = None
    asks: bool = False
    error_code: str | None = None
    error_text: str | None = None


def assess_turn(program: Program, turn_key: RowKey) -> set[RowKey]:
    """Assesses every ready item of a turn; returns the keys at which new jobs wait."""
    turn, items = program.database.read(lambda tx: (turns.get(tx, turn_key), plans.of_turn(tx, turn_key)))
    if turn is None or is_terminal(turn.status):
        return set()
    waiting: set[RowKey] = set()
    for item in ready(items):
        if item.tool not in program.tools:
            continue  # another program on this database has the tool, and its maintenance will come by
        waiting |= _write(program, turn, _assessed(program, turn, item, items))
    return waiting


def ready(items: Iterable[PlanItem]) -> list[PlanItem]:
    """Pending items whose dependencies are all completed."""
    listed = list(items)
    done = {item.name for item in listed if item.status == ItemStatus.COMPLETED}
    return [item for item in listed if item.status == ItemStatus.PENDING and done.issuperset(item.depends_on)]


def _assessed(program: Program, turn: Turn, item: PlanItem, items: list[PlanItem]) -> Assessment:
    try:
        spec = program.tools.get(item.tool)
        outputs = {each.name: each.output for each in items if each.status == ItemStatus.COMPLETED}
        arguments = spec.validated(resolved(item.arguments, outputs))
        asks = item.grant_id is None and _asks(spec, turn, arguments)
    except (InvalidInput, NotFound) as error:
        return Assessment(item, error_code="input_invalid", error_text=sanitize_text(str(error), TEXT))
    except Exception as error:  # noqa: BLE001  (an approval function or a validator of the user's)
        text = sanitize_text(f"{type(error).__name__}: {error}", TEXT)
        return Assessment(item, error_code="assessment_failed", error_text=text)
    return Assessment(item, spec, arguments, canon.digest(arguments), asks)


def _asks(spec: ToolSpec, turn: Turn, arguments: dict[str, Any]) -> bool:
    """Whether the policy wants a person to agree to this call."""
    if isinstance(spec.approval, str):
        return spec.approval == "required"
    call = Call(spec.name, spec.mode, arguments, turn.tenant_id, turn.session_id, turn.project_id, turn.user_id)
    answer = spec.approval(call)
    if answer not in (True, False, "never", "required"):
        raise TypeError(f"approval of tool {spec.name!r} returned {answer!r}; right are 'never', 'required', a bool")
    return answer in (True, "required")


def _write(program: Program, turn: Turn, found: Assessment) -> set[RowKey]:
    spec = found.spec
    if spec is not None:
        places = key_places(spec, _new_job(spec, turn, found, None))
        if places:
            program.database.write(lambda tx: keys.ensure(tx, places), lookup=True)
    job_id = canon.uuid7()
    return program.database.write(lambda tx: _apply(tx, program, turn, found, job_id), lookup=True)


def _apply(tx: Tx, program: Program, seen: Turn, found: Assessment, job_id: str) -> set[RowKey]:
    if found.item.job_id is not None:
        jobs.lock(tx, RowKey(seen.tenant_id, found.item.job_id))  # jobs before turns: it may be opened again
    turn = turns.lock_one(tx, seen.key)
    item = plans.get(tx, found.item.key)
    if turn is None or is_terminal(turn.status) or item is None or item != found.item:
        return set()
    if found.spec is None or found.arguments is None:
        fail_item(tx, turn, item, found.error_code or "assessment_failed", found.error_text)
        judge(tx, program, turn)
        return set()
    if item.grant_id is not None:
        return _use_grant(tx, program, turn, found, item.grant_id, job_id)
    if not found.asks:
        return release(tx, program, turn, found, None, job_id)
    grant = _standing_grant(tx, turn, found)
    if grant is not None:
        return release(tx, program, turn, found, grant, job_id)
    ask(tx, program, turn, item, found.spec, found.arguments, found.digest or "")
    restate(tx, turn, plans.of_turn(tx, turn.key))
    return set()


def _standing_grant(tx: Tx, turn: Turn, found: Assessment) -> Grant | None:
    """A grant for a scope that covers the call, found by machine."""
    spec, arguments = found.spec, found.arguments
    assert spec is not None
    assert arguments is not None
    for grant in approvals.lock_usable(tx, turn.tenant_id, turn.session_id, spec.name, spec.mode):
        if grant.project_id in (None, turn.project_id) and grant.scope is not None and covers(grant.scope, arguments):
            return grant
    return None


def _use_grant(tx: Tx, program: Program, turn: Turn, found: Assessment, grant_id: str, job_id: str) -> set[RowKey]:
    """The item was approved: its grant must still stand and be for exactly these arguments, else a person is asked
    anew and the grant keeps its use."""
    locked = approvals.lock_grant(tx, RowKey(turn.tenant_id, grant_id))
    assert found.spec is not None
    assert found.arguments is not None
    if locked is not None:
        grant, usable = locked
        if usable and fits(grant, found.digest, found.arguments) and grant.uses_left != 0:
            return release(tx, program, turn, found, grant, job_id)
    ask(tx, program, turn, found.item, found.spec, found.arguments, found.digest or "")
    restate(tx, turn, plans.of_turn(tx, turn.key))
    return set()


def fits(grant: Grant, digest: str | None, arguments: dict[str, Any]) -> bool:
    """Whether the grant is for these arguments."""
    if grant.digest is not None:
        return grant.digest == digest
    return grant.scope is not None and covers(grant.scope, arguments)


def ask(
    tx: Tx, program: Program, turn: Turn, item: PlanItem, spec: ToolSpec, arguments: dict[str, Any], digest: str
) -> None:
    """Creates the question to a person; nothing waits meanwhile, no thread, connection, lease or slot."""
    session = SessionKey(turn.tenant_id, turn.session_id)
    sessions.lock(tx, [session])
    shown = {
        "item_id": item.item_id,
        "name": item.name,
        "tool": spec.name,
        "mode": spec.mode,
        "writes": spec.writes,
        "arguments": sanitize(arguments),
        "digest": digest,
    }
    new = NewApproval(
        tenant_id=turn.tenant_id,
        approval_id=canon.uuid7(),
        session_id=turn.session_id,
        turn_id=turn.turn_id,
        items=[shown],
        tools=[spec.name],
        expires_in_s=program.settings.approval_s,
        on_expiry=spec.on_refusal,
        project_id=turn.project_id,
    )
    approvals.insert(tx, new)
    plans.change(
        tx,
        item.key,
        ItemStatus.AWAITING_APPROVAL,
        approval_id=new.approval_id,
        grant_id=None,
        final_arguments=arguments,
        digest=digest,
    )
    approval = approvals.get(tx, RowKey(new.tenant_id, new.approval_id))
    assert approval is not None
    facts.of_approval(
        tx, approval, "approval_requested", items=approval.items, expires_at=approval.expires_at.isoformat()
    )
    show_pending(tx, session)


def release(tx: Tx, program: Program, turn: Turn, found: Assessment, grant: Grant | None, job_id: str) -> set[RowKey]:
    """The item becomes a job, or its earlier job is reopened; the grant's use is taken here, under its lock."""
    spec, item = found.spec, found.item
    assert spec is not None
    new = _new_job(spec, turn, found, grant, job_id)
    if spec.on_conflict == "reject" and new.slot_key is not None and _slot_taken(tx, turn, new.slot_key):
        fail_item(tx, turn, item, "slot_busy", f"slot {spec.writes!r} is taken")
        judge(tx, program, turn)
        return set()
    if grant is not None:
        approvals.spend(tx, RowKey(grant.tenant_id, grant.grant_id))
    job = _made(tx, turn, item, new)
    plans.change(
        tx,
        item.key,
        ItemStatus.QUEUED,
        job_id=job.job_id,
        grant_id=new.grant_id,
        final_arguments=found.arguments,
        digest=found.digest,
    )
    facts.of_item(tx, turn, item, "tool_started", digest=found.digest)
    facts.of_job(tx, job, "job_queued", attempt=job.attempt, blocked_by=job.blocked_by)
    restate(tx, turn, plans.of_turn(tx, turn.key))
    tx.wake()
    return {keys.place(new.tenant_id, key) for key in new.keys}


def _made(tx: Tx, turn: Turn, item: PlanItem, new: NewJob) -> Job:
    if item.job_id is not None:
        key = RowKey(turn.tenant_id, item.job_id)
        blocked_by = next(iter(new.keys), None)
        if jobs.reopen(tx, key, grant_id=new.grant_id, blocked_by=blocked_by, final=(new.input, new.digest)):
            reopened = jobs.get(tx, key)
            assert reopened is not None
            facts.of_job(tx, reopened, "job_reopened")
            return reopened
    jobs.insert(tx, [new])
    job = jobs.get(tx, RowKey(new.tenant_id, new.job_id))
    assert job is not None, "the lock of the turn keeps others from this place"
    return job


def _slot_taken(tx: Tx, turn: Turn, slot: str) -> bool:
    key = keys.place(turn.tenant_id, slot)
    locked = keys.lock(tx, [key])
    return key not in locked or keys.room(tx, locked[key]) < 1


def _new_job(spec: ToolSpec, turn: Turn, found: Assessment, grant: Grant | None, job_id: str = "") -> NewJob:
    user_limit = None
    if spec.limit_per_user is not None and turn.user_id is not None:
        user_limit = keys.user_limit_key(spec.name, turn.user_id)
    return NewJob(
        tenant_id=turn.tenant_id,
        job_id=job_id,
        tool=spec.name,
        input=found.arguments or {},
        max_attempts=spec.max_attempts,
        max_runtime_s=spec.max_runtime_s,
        session_id=turn.session_id,
        turn_id=turn.turn_id,
        item_id=found.item.item_id,
        round=found.item.round,
        position=found.item.position,
        project_id=turn.project_id,
        user_id=turn.user_id,
        grant_id=None if grant is None else grant.grant_id,
        digest=found.digest,
        priority=spec.priority,
        limit_key=keys.limit_key(spec.name) if spec.limit is not None else None,
        user_limit_key=user_limit,
        slot_key=None if spec.writes is None else keys.slot_key(area_of(turn), spec.writes),
        traceparent=turn.traceparent,
    )
