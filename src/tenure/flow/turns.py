"""Turns begin and end: what starts one, what its items make of its status, and everything that its end takes along.

Whoever calls these holds the lock of the turn. The session is locked after it and before anything here writes to it.
"""

from __future__ import annotations

from typing import Any

from tenure import canon
from tenure.db.tx import Tx
from tenure.flow import facts
from tenure.flow.program import PLAN, Program
from tenure.records import NewJob, PlanItem, RowKey, SessionKey, Turn
from tenure.states import ApprovalStatus, ItemStatus, TurnStatus, is_terminal
from tenure.store import approvals, jobs, plans, sessions, turns

LIVE = (ItemStatus.QUEUED, ItemStatus.RUNNING)
PLAN_ATTEMPTS = 3
PLAN_RUNTIME_S = 3600.0
ENDED = {
    TurnStatus.COMPLETED: "turn_completed",
    TurnStatus.FAILED: "turn_failed",
    TurnStatus.CANCELLED: "turn_cancelled",
}


def start(tx: Tx, program: Program, turn: Turn) -> None:
    """Makes a `created` turn the session's active one and queues its first planning round."""
    sessions.change(tx, turn.session, active_turn_id=turn.turn_id)
    turns.start(tx, turn.key)
    facts.of_turn(tx, turn, "turn_running")
    plan_round(tx, program, turn, 1)


def plan_round(tx: Tx, program: Program, turn: Turn, number: int) -> None:
    """Queues the planning of a round, once: planning jobs are unique by turn and round."""
    new = NewJob(
        tenant_id=turn.tenant_id,
        job_id=canon.uuid7(),
        tool=PLAN,
        input={"round": number},
        max_attempts=PLAN_ATTEMPTS,
        max_runtime_s=PLAN_RUNTIME_S,
        session_id=turn.session_id,
        turn_id=turn.turn_id,
        round=number,
        position=0,
        project_id=turn.project_id,
        user_id=turn.user_id,
        traceparent=turn.traceparent,
    )
    if not jobs.insert(tx, [new]):
        return
    facts.of_turn(tx, turn, "round_started", round=number)
    job = jobs.get(tx, RowKey(new.tenant_id, new.job_id))
    assert job is not None
    facts.of_job(tx, job, "job_queued", round=number, attempt=0)
    tx.wake()


def judge(tx: Tx, program: Program, turn: Turn) -> None:
    """What the turn's items now make of it: it fails, goes on waiting, or is planned further.

    Reads the items in a statement after the one that locked the turn: two last items that end at once would otherwise
    each see the other running, and nobody would go on.
    """
    items = plans.of_turn(tx, turn.key)
    failed = next((item for item in items if item.status == ItemStatus.FAILED), None)
    if failed is not None:
        text = f"step {failed.name!r} ({failed.tool}): {failed.error_text or failed.error_code}"
        end(tx, program, turn, TurnStatus.FAILED, error_code=failed.error_code, error_text=text)
        return
    if any(not is_terminal(item.status) for item in items):
        restate(tx, turn, items)
    elif turn.round + 1 > program.settings.max_rounds:
        text = f"{program.settings.max_rounds} rounds without a final answer"
        end(tx, program, turn, TurnStatus.FAILED, error_code="too_many_rounds", error_text=text)
    else:
        restate(tx, turn, items)
        plan_round(tx, program, turn, turn.round + 1)


def restate(tx: Tx, turn: Turn, items: list[PlanItem]) -> None:
    """`awaiting_approval` only when a question is open and nothing of the turn is queued or running."""
    waits = any(item.status == ItemStatus.AWAITING_APPROVAL for item in items)
    moves = any(item.status in LIVE for item in items)
    status = TurnStatus.AWAITING_APPROVAL if waits and not moves else TurnStatus.RUNNING
    if turn.round > 0 and turn.status != status:
        turns.change(tx, turn.key, status=status)


def fail_item(tx: Tx, turn: Turn, item: PlanItem, code: str, text: str | None, **columns: Any) -> None:
    """An item that will not succeed. An optional one is skipped with what depends on it; another fails the turn,
    which `judge` sees."""
    if item.optional:
        skip_item(tx, turn, item, code, text, **columns)
        return
    plans.change(tx, item.key, ItemStatus.FAILED, error_code=code, error_text=text, **columns)
    facts.of_item(tx, turn, item, "item_failed", code=code, text=text)


def skip_item(tx: Tx, turn: Turn, item: PlanItem, code: str, text: str | None, **columns: Any) -> None:
    """Skips an item and, in turn, the pending ones that depend on it."""
    items = plans.of_turn(tx, turn.key)
    plans.change(tx, item.key, ItemStatus.SKIPPED, error_code=code, error_text=text, **columns)
    facts.of_item(tx, turn, item, "item_skipped", code=code, text=text)
    gone = {item.name}
    for later in items:
        if later.status == ItemStatus.PENDING and gone & set(later.depends_on):
            gone.add(later.name)
            plans.change(tx, later.key, ItemStatus.SKIPPED, error_code="dependency_skipped")
            facts.of_item(tx, turn, later, "item_skipped", code="dependency_skipped")


def end(
    tx: Tx,
    program: Program,
    turn: Turn,
    status: TurnStatus,
    *,
    output: Any = None,
    error_code: str | None = None,
    error_text: str | None = None,
) -> None:
    """Ends the turn at once: voids its approvals, cancels what has not started, frees the session, starts the next.

    Its live jobs are cancelled afterwards, one transaction each, by `flow.cancel.end_live_jobs`.
    """
    session = sessions.lock(tx, [turn.session])[turn.session]
    turns.end(tx, turn.key, status, output=output, error_code=error_code, error_text=error_text)
    void_approvals(tx, turn)
    for item in plans.of_turn(tx, turn.key):
        if item.status in (ItemStatus.PENDING, ItemStatus.AWAITING_APPROVAL):
            plans.change(tx, item.key, ItemStatus.CANCELLED, error_code="turn_ended")
            facts.of_item(tx, turn, item, "item_cancelled", code="turn_ended")
    payload = {"code": error_code, "text": error_text} if error_code else {}
    if status == TurnStatus.COMPLETED:
        payload = {"output": output}
    facts.of_turn(tx, turn, ENDED[status], **payload)
    show_pending(tx, turn.session)
    if session.active_turn_id == turn.turn_id:
        sessions.change(tx, turn.session, active_turn_id=None)
        start_next(tx, program, turn.session)


def start_next(tx: Tx, program: Program, session: SessionKey) -> bool:
    """Starts the oldest waiting turn of a session that this transaction has locked and found without an active one."""
    following = turns.lock_oldest_created(tx, session)
    if following is not None:
        start(tx, program, following)
    return following is not None


def void_approvals(tx: Tx, turn: Turn) -> None:
    """Withdraws every open question of the turn."""
    for approval in approvals.pending_of_turn(tx, turn.key):
        key = RowKey(approval.tenant_id, approval.approval_id)
        if approvals.settle(tx, key, ApprovalStatus.VOIDED, reason="turn ended"):
            facts.of_approval(tx, approval, "approval_voided")


def show_pending(tx: Tx, session: SessionKey) -> None:
    """Rewrites the session card's list of open questions; the session is locked."""
    pending = [
        {
            "approval_id": approval.approval_id,
            "turn_id": approval.turn_id,
            "project_id": approval.project_id,
            "expires_at": approval.expires_at.isoformat(),
            "items": approval.items,
        }
        for approval in approvals.pending_of_session(tx, session)
    ]
    sessions.change(tx, session, pending_approval=pending)


def area_of(turn: Turn) -> str:
    """Where a slot is: the project, or the session when there is none."""
    return turn.project_id if turn.project_id is not None else f"session/{turn.session_id}"
