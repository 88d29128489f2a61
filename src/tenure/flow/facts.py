"""Recording what happened, one function a noun, so that every event carries the ids of the rows that it moves."""

from __future__ import annotations

import hashlib
from typing import Any

from tenure.db.tx import Tx
from tenure.records import Approval, Job, Lease, PlanItem, SessionKey, Turn
from tenure.store import events
from tenure.store.events import NewEvent


def of_turn(tx: Tx, turn: Turn, kind: str, **payload: Any) -> None:
    """Records an event of a turn."""
    events.record(tx, NewEvent(turn.session, kind, turn_id=turn.turn_id, payload=payload))


def of_item(tx: Tx, turn: Turn, item: PlanItem, kind: str, **payload: Any) -> None:
    """Records an event of a plan item."""
    fields = {"name": item.name, "tool": item.tool, **payload}
    events.record(
        tx,
        NewEvent(turn.session, kind, turn_id=turn.turn_id, item_id=item.item_id, job_id=item.job_id, payload=fields),
    )


def of_job(tx: Tx, job: Job, kind: str, **payload: Any) -> None:
    """Records an event of a job; a bare job has none: its history is its row and the journal."""
    session = job.session
    if session is not None:
        fields = {"tool": job.tool, **{name: value for name, value in payload.items() if value is not None}}
        events.record(
            tx,
            NewEvent(
                session,
                kind,
                turn_id=job.turn_id,
                item_id=job.item_id,
                job_id=job.job_id,
                grant_id=job.grant_id,
                fencing_token=job.fencing_token,
                payload=fields,
            ),
        )


def of_approval(tx: Tx, approval: Approval, kind: str, **payload: Any) -> None:
    """Records an event of an approval request."""
    item_id = approval.items[0]["item_id"] if len(approval.items) == 1 else None
    events.record(
        tx,
        NewEvent(
            SessionKey(approval.tenant_id, approval.session_id),
            kind,
            turn_id=approval.turn_id,
            item_id=item_id,
            approval_id=approval.approval_id,
            payload={"tools": approval.tools, **payload},
        ),
    )


def sha256(encoded: str) -> str:
    """The hash by which an event refers to an output."""
    return hashlib.sha256(encoded.encode()).hexdigest()


def of_attempt(tx: Tx, lease: Lease, kind: str, **payload: Any) -> None:
    """Records an event of a running attempt whose job the transaction holds."""
    if lease.session_id is None:
        return
    events.record(
        tx,
        NewEvent(
            SessionKey(lease.tenant_id, lease.session_id),
            kind,
            turn_id=lease.turn_id,
            item_id=lease.item_id,
            job_id=lease.job_id,
            fencing_token=lease.fencing_token,
            payload={"tool": lease.tool, **payload},
        ),
    )


def of_rejected(tx: Tx, lease: Lease, owner: str, result_sha256: str | None) -> None:
    """Records that a late result was turned away; it moves nothing."""
    of_attempt(tx, lease, "result_rejected", owner=owner, attempt=lease.attempt, result_sha256=result_sha256)
