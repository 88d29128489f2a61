"""4. A person decides, or the time runs out: one answer wins, and its grants are made in the same transaction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tenure import canon
from tenure.db.tx import Tx
from tenure.errors import AlreadyDecided, ApprovalExpired, InvalidInput, NotFound, ResultNotSerializable, StateConflict
from tenure.flow import facts
from tenure.flow.program import Program
from tenure.flow.scope import covers
from tenure.flow.turns import fail_item, judge, restate, show_pending, skip_item
from tenure.payload import sanitize_text
from tenure.records import Approval, Grant, PlanItem, RowKey, SessionKey, Turn
from tenure.states import ApprovalStatus, ItemStatus, is_terminal
from tenure.store import approvals, plans, sessions, turns
from tenure.store.approvals import NewGrant

TEXT = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A person's answer. `scope`: approve not only once but for a range of arguments, for `scope_s` seconds or up
    to the instant `scope_until`, and for `uses` uses (None: without a limit)."""

    approval_id: str
    approve: bool
    by: str
    tenant_id: str = "default"
    source: str | None = None
    reason: str | None = None
    scope: dict[str, Any] | None = None
    scope_s: float | None = None
    scope_until: datetime | None = None
    uses: int | None = None


def decide(program: Program, decision: Decision) -> Approval:
    """Settles the request and returns it; its turn is to be assessed next.

    NotFound; AlreadyDecided with the status (the same person with the same answer gets the decision back);
    ApprovalExpired, and the request is then settled as expired.
    """
    decision = _checked(decision)
    key = RowKey(decision.tenant_id, decision.approval_id)
    approval, verdict = program.database.write(lambda tx: _decide(tx, program, key, decision), lookup=True)
    if verdict is not None:
        raise verdict
    return approval


def _checked(decision: Decision) -> Decision:
    """The decision with its texts as they will be stored. InvalidInput names what is wrong."""
    source = None if decision.source is None else canon.label(decision.source, "source")
    if decision.reason is not None and not isinstance(decision.reason, str):
        raise InvalidInput("reason: expected a text", field="reason")
    try:
        canon.encode(decision.scope)
    except (ResultNotSerializable, RecursionError) as error:
        raise InvalidInput(f"scope: {error}", field="scope") from None
    return replace(decision, by=canon.label(decision.by, "by"), source=source)


def revoke(program: Program, key: RowKey, by: str) -> Grant:
    """Ends a grant for every use that has not begun, and returns it. NotFound; StateConflict when it is revoked."""
    by = canon.label(by, "by")

    def body(tx: Tx) -> Grant:
        if not approvals.revoke(tx, key, by):
            raise _not_revoked(tx, key)
        found = approvals.lock_grant(tx, key)
        assert found is not None
        approval = approvals.get(tx, RowKey(key.tenant_id, found[0].approval_id))
        assert approval is not None
        facts.of_approval(tx, approval, "grant_revoked", by=by, grants=[key.id])
        return found[0]

    return program.database.write(body)


def _not_revoked(tx: Tx, key: RowKey) -> Exception:
    if approvals.lock_grant(tx, key) is None:
        return NotFound(f"no grant {key.id!r}")
    return StateConflict(f"grant {key.id} is revoked already", "revoked")


def expire(program: Program, key: RowKey) -> bool:
    """Settles a request whose time has passed. False: somebody else did, or its time has not come."""

    def body(tx: Tx) -> bool:
        found = _lock(tx, key)
        if found is None or not approvals.settle(tx, key, ApprovalStatus.EXPIRED, reason="expired"):
            return False
        _refuse(tx, program, *found, "approval_expired", "nobody answered in time")
        return True

    return program.database.write(body, lookup=True)


def _lock(tx: Tx, key: RowKey) -> tuple[Turn, Approval] | None:
    """Locks turn and session of a request, in that order, and reads the request behind the locks."""
    seen = approvals.get(tx, key)
    if seen is None:
        return None
    turn = turns.lock_one(tx, RowKey(seen.tenant_id, seen.turn_id))
    sessions.lock(tx, [seen.session])
    approval = approvals.get(tx, key)
    return None if turn is None or approval is None else (turn, approval)


def _decide(tx: Tx, program: Program, key: RowKey, decision: Decision) -> tuple[Approval, Exception | None]:
    found = _lock(tx, key)
    if found is None:
        raise NotFound(f"no approval {key.id!r}")
    turn, approval = found
    status = ApprovalStatus.APPROVED if decision.approve else ApprovalStatus.DENIED
    reason = None if decision.reason is None else sanitize_text(decision.reason, TEXT)
    settled = approvals.settle(
        tx, key, status, by=decision.by, source=decision.source, reason=reason, scope=decision.scope
    )
    if not settled:
        return approval, _verdict(tx, program, turn, approval, status, decision)
    if decision.approve:
        _grant(tx, turn, approval, decision)
    else:
        _refuse(tx, program, turn, approval, "approval_denied", f"denied by {decision.by}")
    now_settled = approvals.get(tx, key)
    assert now_settled is not None
    return now_settled, None


def _verdict(
    tx: Tx, program: Program, turn: Turn, approval: Approval, status: ApprovalStatus, decision: Decision
) -> Exception | None:
    """Why a decision moved nothing."""
    key = RowKey(approval.tenant_id, approval.approval_id)
    if approval.status == ApprovalStatus.PENDING:
        approvals.settle(tx, key, ApprovalStatus.EXPIRED, reason="expired")
        _refuse(tx, program, turn, approval, "approval_expired", "nobody answered in time")
        return ApprovalExpired(f"approval {approval.approval_id} expired at {approval.expires_at.isoformat()}")
    if approval.status == ApprovalStatus.EXPIRED:
        return ApprovalExpired(f"approval {approval.approval_id} expired at {approval.expires_at.isoformat()}")
    if approval.status == status and approval.decided_by == decision.by and approval.scope == decision.scope:
        return None
    return AlreadyDecided(f"approval {approval.approval_id} is {approval.status} already", approval.status)


def _grant(tx: Tx, turn: Turn, approval: Approval, decision: Decision) -> None:
    """Once: a grant for each item, bound to its digest. For a scope: one grant for all."""
    items = _asked(tx, turn, approval)
    if decision.scope is not None:
        _check_scope(decision.scope, items)
    if decision.scope is None:
        grants = [_once(turn, approval, item, decision.by) for item in items]
    else:
        grants = [_scoped(turn, approval, item, decision) for item in items[:1]]
    approvals.insert_grants(tx, grants)
    if not all(approvals.is_usable(tx, RowKey(grant.tenant_id, grant.grant_id)) for grant in grants):
        raise InvalidInput("expires: the instant has passed already", field="expires")
    for place, item in enumerate(items):
        grant = grants[min(place, len(grants) - 1)]
        plans.change(tx, item.key, ItemStatus.PENDING, grant_id=grant.grant_id)
    facts.of_approval(
        tx,
        approval,
        "approval_granted",
        by=decision.by,
        grants=[grant.grant_id for grant in grants],
        uses=grants[0].uses_left if grants else None,
    )
    show_pending(tx, approval.session)
    restate(tx, turn, plans.of_turn(tx, turn.key))


def _check_scope(scope: dict[str, Any], items: list[PlanItem]) -> None:
    """A scope that leaves out what was asked would only make the same question come again."""
    for item in items:
        if not covers(scope, item.final_arguments or {}):
            raise InvalidInput(f"the scope does not cover the arguments of step {item.name!r}", field="scope")


def _once(turn: Turn, approval: Approval, item: PlanItem, by: str) -> NewGrant:
    return NewGrant(
        tenant_id=turn.tenant_id,
        grant_id=canon.uuid7(),
        approval_id=approval.approval_id,
        item_id=item.item_id,
        session_id=turn.session_id,
        project_id=turn.project_id,
        tool=item.tool,
        mode=item.mode,
        granted_by=by,
        digest=item.digest,
        uses_left=1,
    )


def _scoped(turn: Turn, approval: Approval, item: PlanItem, decision: Decision) -> NewGrant:
    return NewGrant(
        tenant_id=turn.tenant_id,
        grant_id=canon.uuid7(),
        approval_id=approval.approval_id,
        session_id=turn.session_id,
        project_id=turn.project_id,
        tool=item.tool,
        mode=item.mode,
        granted_by=decision.by,
        scope=decision.scope,
        uses_left=decision.uses,
        expires_in_s=decision.scope_s,
        expires_at=decision.scope_until,
    )


def _asked(tx: Tx, turn: Turn, approval: Approval) -> list[PlanItem]:
    named = {entry["item_id"] for entry in approval.items}
    items = plans.of_turn(tx, turn.key)
    return [item for item in items if item.item_id in named and item.status == ItemStatus.AWAITING_APPROVAL]


def _refuse(tx: Tx, program: Program, turn: Turn, approval: Approval, kind: str, text: str) -> None:
    """Denied or expired: by the tool's policy the items are skipped or fail, and with them perhaps the turn."""
    facts.of_approval(tx, approval, kind)
    show_pending(tx, SessionKey(turn.tenant_id, turn.session_id))
    if is_terminal(turn.status):
        return
    for item in _asked(tx, turn, approval):
        if approval.on_expiry == "skip":
            skip_item(tx, turn, item, kind, text)
        else:
            fail_item(tx, turn, item, kind, text)
    judge(tx, program, turn)
