"""Approval requests and the grants that answers to them make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from tenure.db.clock import now, now_plus
from tenure.db.reading import columns_of, many, one
from tenure.db.schema import approval_grants, approval_requests
from tenure.db.tx import Tx
from tenure.db.types import Id
from tenure.records import Approval, Grant, RowKey, SessionKey
from tenure.states import ApprovalStatus

_a = approval_requests.c
_g = approval_grants.c
_this = sa.and_(_a.tenant_id == sa.bindparam("tenant"), _a.approval_id == sa.bindparam("approval", type_=Id()))
_pending = _a.status == sa.literal_column("'pending'")
_live = _a.expires_at > now()
_get = sa.select(*columns_of(approval_requests, Approval)).where(_this)


@dataclass(frozen=True, slots=True)
class NewApproval:
    """A question to a person. `items`: `{item_id, name, tool, mode, arguments (masked), digest}` each."""

    tenant_id: str
    approval_id: str
    session_id: str
    turn_id: str
    items: list[dict[str, Any]]
    tools: list[str]
    expires_in_s: float
    on_expiry: str = "fail"
    project_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class NewGrant:
    """A permission. `digest` for exactly these arguments, or `scope` for a machine-checked range of them.

    `expires_at` is an instant that a person named; `expires_in_s` counts from the database's now.
    """

    tenant_id: str
    grant_id: str
    approval_id: str
    tool: str
    mode: str
    granted_by: str
    item_id: str | None = None
    session_id: str | None = None
    project_id: str | None = None
    digest: str | None = None
    scope: dict[str, Any] | None = None
    uses_left: int | None = 1
    expires_in_s: float | None = None
    expires_at: datetime | None = None


def _names(key: RowKey) -> dict[str, str]:
    return {"tenant": key.tenant_id, "approval": key.id}


def insert(tx: Tx, new: NewApproval) -> None:
    """Inserts a pending request."""
    values = {
        "tenant_id": new.tenant_id,
        "approval_id": new.approval_id,
        "session_id": new.session_id,
        "turn_id": new.turn_id,
        "project_id": new.project_id,
        "items": new.items,
        "tools": new.tools,
        "status": ApprovalStatus.PENDING,
        "reason": new.reason,
        "on_expiry": new.on_expiry,
        "expires_at": now_plus(new.expires_in_s),
        "created_at": now(),
    }
    tx.execute(sa.insert(approval_requests).values(values))


def get(tx: Tx, key: RowKey) -> Approval | None:
    """The request as it is, without a lock."""
    return one(Approval, tx.first(_get, _names(key)))


def settle(
    tx: Tx,
    key: RowKey,
    status: ApprovalStatus,
    *,
    by: str | None = None,
    source: str | None = None,
    reason: str | None = None,
    scope: dict[str, Any] | None = None,
) -> bool:
    """`pending → status` in one statement that also tests the expiry; a decision after it moves nothing.

    `expired` tests the reverse, `voided` tests neither.
    """
    due = {ApprovalStatus.EXPIRED: sa.not_(_live), ApprovalStatus.VOIDED: sa.true()}.get(status, _live)
    statement = (
        sa.update(approval_requests)
        .where(_this, _pending, due)
        .values(status=status, decided_by=by, decided_from=source, decided_reason=reason, scope=scope, decided_at=now())
    )
    return tx.count(statement, _names(key)) == 1


def pending_of_session(tx: Tx, session: SessionKey) -> list[Approval]:
    """What a session waits for, oldest first."""
    statement = (
        sa.select(*columns_of(approval_requests, Approval))
        .where(_a.tenant_id == session.tenant_id, _a.session_id == session.session_id, _pending)
        .order_by(_a.approval_id)
    )
    return many(Approval, tx.rows(statement))


def pending_of_turn(tx: Tx, turn: RowKey) -> list[Approval]:
    """The open questions of a turn, oldest first."""
    statement = (
        sa.select(*columns_of(approval_requests, Approval))
        .where(_a.tenant_id == turn.tenant_id, _a.turn_id == turn.id, _pending)
        .order_by(_a.approval_id)
    )
    return many(Approval, tx.rows(statement))


def listed(tx: Tx, tenant_id: str, *, status: str | None = "pending", limit: int = 50) -> list[Approval]:
    """Requests, newest first."""
    statement = sa.select(*columns_of(approval_requests, Approval)).where(_a.tenant_id == tenant_id)
    if status is not None:
        statement = statement.where(_a.status == sa.literal_column(f"'{ApprovalStatus(status)}'"))
    return many(Approval, tx.rows(statement.order_by(_a.approval_id.desc()).limit(limit)))


def expired(tx: Tx, limit: int) -> list[RowKey]:
    """Pending requests whose time has passed."""
    statement = sa.select(_a.tenant_id, _a.approval_id).where(_pending, sa.not_(_live)).limit(limit)
    return [RowKey(*row) for row in tx.rows(statement)]


# -- grants ------------------------------------------------------------------------------------------------------------


def insert_grants(tx: Tx, new: Sequence[NewGrant]) -> None:
    """Inserts the grants of one decision."""
    for grant in new:
        tx.execute(
            sa.insert(approval_grants).values(
                tenant_id=grant.tenant_id,
                grant_id=grant.grant_id,
                approval_id=grant.approval_id,
                item_id=grant.item_id,
                session_id=grant.session_id,
                project_id=grant.project_id,
                tool=grant.tool,
                mode=grant.mode,
                digest=grant.digest,
                scope=grant.scope,
                uses_left=grant.uses_left,
                expires_at=grant.expires_at if grant.expires_in_s is None else now_plus(grant.expires_in_s),
                granted_by=grant.granted_by,
                created_at=now(),
            )
        )


_unexpired = sa.or_(_g.expires_at.is_(None), _g.expires_at > now())
_usable = sa.and_(_g.revoked_at.is_(None), _unexpired)


def lock_grant(tx: Tx, key: RowKey) -> tuple[Grant, bool] | None:
    """Locks a grant; the second value says whether it is neither revoked nor expired now."""
    statement = (
        sa.select(*columns_of(approval_grants, Grant), _usable)
        .where(_g.tenant_id == key.tenant_id, _g.grant_id == key.id)
        .with_for_update(key_share=True)
    )
    row = tx.first(statement)
    return None if row is None else (Grant(*row[:-1]), bool(row[-1]))


def is_usable(tx: Tx, key: RowKey) -> bool:
    """Whether a grant is neither revoked nor expired now."""
    statement = sa.select(_g.grant_id).where(_g.tenant_id == key.tenant_id, _g.grant_id == key.id, _usable)
    return tx.first(statement) is not None


def lock_usable(tx: Tx, tenant_id: str, session_id: str, tool: str, mode: str) -> list[Grant]:
    """Locks the live grants for this tool and mode on this session, oldest first."""
    statement = (
        sa.select(*columns_of(approval_grants, Grant))
        .where(_g.tenant_id == tenant_id, _g.tool == tool, _g.mode == mode, _usable)
        .where(sa.or_(_g.session_id.is_(None), _g.session_id == session_id))
        .where(sa.or_(_g.uses_left.is_(None), _g.uses_left > 0))
        .order_by(_g.grant_id)
        .with_for_update(key_share=True)
    )
    return many(Grant, tx.rows(statement))


def spend(tx: Tx, key: RowKey, uses: int = 1) -> bool:
    """Takes a use (or gives one back with −1); False when none is left."""
    statement = (
        sa.update(approval_grants)
        .where(_g.tenant_id == key.tenant_id, _g.grant_id == key.id)
        .where(sa.or_(_g.uses_left.is_(None), _g.uses_left >= uses))
        .values(uses_left=_g.uses_left - uses)
    )
    return tx.count(statement) == 1


def revoke(tx: Tx, key: RowKey, by: str) -> bool:
    """Ends a grant for every use that has not begun. False: it is revoked already, or unknown."""
    statement = (
        sa.update(approval_grants)
        .where(_g.tenant_id == key.tenant_id, _g.grant_id == key.id, _g.revoked_at.is_(None))
        .values(revoked_at=now(), revoked_by=by)
    )
    return tx.count(statement) == 1


def grants(tx: Tx, tenant_id: str, limit: int = 50) -> list[Grant]:
    """Grants, newest first."""
    statement = (
        sa.select(*columns_of(approval_grants, Grant))
        .where(_g.tenant_id == tenant_id)
        .order_by(_g.grant_id.desc())
        .limit(limit)
    )
    return many(Grant, tx.rows(statement))
