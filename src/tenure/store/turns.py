"""Turns: one user request each, one running at a time on a session."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tenure.db.clock import now
from tenure.db.inserting import insert_if_absent
from tenure.db.reading import columns_of, many, one
from tenure.db.rows import pack, table_of
from tenure.db.schema import agent_plan_items, agent_turns, background_jobs, session_contexts
from tenure.db.tx import Tx
from tenure.db.types import Id, Key
from tenure.records import RowKey, SessionKey, Turn
from tenure.states import TurnStatus

_t = agent_turns.c
_all = columns_of(agent_turns, Turn)
_this = sa.and_(_t.tenant_id == sa.bindparam("tenant"), _t.turn_id == sa.bindparam("turn", type_=Id()))
_get = sa.select(*_all).where(_this)
_named = table_of("named", {"tenant_id": Key(), "turn_id": Id()})
_lock = (
    sa.select(*_all)
    .join(_named, sa.and_(_t.tenant_id == _named.c.tenant_id, _t.turn_id == _named.c.turn_id))
    .order_by(_t.tenant_id, _t.turn_id)
    .with_for_update(key_share=True, of=agent_turns)
)


@dataclass(frozen=True, slots=True)
class NewTurn:
    """What a turn is made from. `steps`: a plan given with the request, encoded as JSON values."""

    tenant_id: str
    turn_id: str
    session_id: str
    input: Any
    command: str | None = None
    profile: str | None = None
    steps: list[dict[str, Any]] | None = None
    project_id: str | None = None
    user_id: str | None = None
    idempotency_key: str | None = None
    request_digest: str | None = None
    traceparent: str | None = None

    @property
    def key(self) -> RowKey:
        return RowKey(self.tenant_id, self.turn_id)

    @property
    def session(self) -> SessionKey:
        return SessionKey(self.tenant_id, self.session_id)


def _names(key: RowKey) -> dict[str, str]:
    return {"tenant": key.tenant_id, "turn": key.id}


def insert(tx: Tx, new: NewTurn) -> bool:
    """Inserts the turn as `created`. False: one with this id or idempotency key is there already."""
    statement = insert_if_absent(agent_turns).values(
        tenant_id=new.tenant_id,
        turn_id=new.turn_id,
        session_id=new.session_id,
        status=TurnStatus.CREATED,
        input=new.input,
        command=new.command,
        profile=new.profile,
        steps=new.steps,
        project_id=new.project_id,
        user_id=new.user_id,
        idempotency_key=new.idempotency_key,
        request_digest=new.request_digest,
        traceparent=new.traceparent,
        created_at=now(),
    )
    return tx.count(statement) == 1


def get(tx: Tx, key: RowKey) -> Turn | None:
    """The turn as it is, without a lock."""
    return one(Turn, tx.first(_get, _names(key)))


def by_idempotency_key(tx: Tx, session: SessionKey, idempotency_key: str) -> Turn | None:
    """The turn that was submitted with this key on this session."""
    statement = sa.select(*_all).where(
        _t.tenant_id == session.tenant_id,
        _t.session_id == session.session_id,
        _t.idempotency_key == idempotency_key,
    )
    return one(Turn, tx.first(statement))


def lock(tx: Tx, keys: Iterable[RowKey]) -> dict[RowKey, Turn]:
    """Locks the turns in lock order to the end of the transaction and returns them as they are now."""
    wanted = sorted(set(keys))
    if not wanted:
        return {}
    return {turn.key: turn for turn in many(Turn, tx.rows(_lock, {"named": pack(wanted)}))}


def lock_one(tx: Tx, key: RowKey) -> Turn | None:
    """Locks one turn."""
    return lock(tx, [key]).get(key)


def lock_oldest_created(tx: Tx, session: SessionKey) -> Turn | None:
    """Locks the oldest `created` turn of a session, skipping those that somebody else is at."""
    statement = (
        sa.select(*_all)
        .where(_t.tenant_id == session.tenant_id, _t.session_id == session.session_id, _t.status == TurnStatus.CREATED)
        .order_by(_t.turn_id)
        .limit(1)
        .with_for_update(key_share=True, skip_locked=True)
    )
    return one(Turn, tx.first(statement))


def change(tx: Tx, key: RowKey, **values: Any) -> None:
    """Sets columns of a turn that this transaction has locked."""
    tx.execute(sa.update(agent_turns).where(_this).values(**values), _names(key))


def start(tx: Tx, key: RowKey) -> None:
    """`created → planning`, with its stamp."""
    change(tx, key, status=TurnStatus.PLANNING, started_at=now())


def end(
    tx: Tx,
    key: RowKey,
    status: TurnStatus,
    *,
    output: Any = None,
    error_code: str | None = None,
    error_text: str | None = None,
) -> None:
    """Gives a locked turn its terminal status."""
    values = {"output": output, "error_code": error_code, "error_text": error_text}
    change(tx, key, status=status, finished_at=now(), **values)


def listed(
    tx: Tx, tenant_id: str, *, session_id: str | None = None, status: str | None = None, limit: int = 50
) -> list[Turn]:
    """Turns newest first."""
    statement = sa.select(*_all).where(_t.tenant_id == tenant_id)
    if session_id is not None:
        statement = statement.where(_t.session_id == session_id)
    if status is not None:
        statement = statement.where(_t.status == status)
    return many(Turn, tx.rows(statement.order_by(_t.turn_id.desc()).limit(limit)))


# -- what maintenance looks for ----------------------------------------------------------------------------------------


def _open_work() -> sa.ColumnElement[bool]:
    items, jobs = agent_plan_items.c, background_jobs.c
    open_item = sa.exists().where(
        items.tenant_id == _t.tenant_id, items.turn_id == _t.turn_id, items.finished_at.is_(None)
    )
    live_job = sa.exists().where(
        jobs.tenant_id == _t.tenant_id,
        jobs.turn_id == _t.turn_id,
        jobs.turn_id.is_not(None),
        jobs.finished_at.is_(None),
    )
    return sa.or_(open_item, live_job)


def has_open_work(tx: Tx, key: RowKey) -> bool:
    """Whether a turn has an open item or a live job."""
    return tx.first(sa.select(_t.turn_id).where(_this, _open_work()), _names(key)) is not None


def stalled(tx: Tx, limit: int) -> list[RowKey]:
    """Started, unfinished turns that have neither an open item nor a live job."""
    statement = (
        sa.select(_t.tenant_id, _t.turn_id)
        .where(_t.finished_at.is_(None), _t.status != TurnStatus.CREATED, sa.not_(_open_work()))
        .limit(limit)
    )
    return [RowKey(*row) for row in tx.rows(statement)]


def with_live_jobs_after_end(tx: Tx, limit: int) -> list[RowKey]:
    """Terminal turns that still have queued or running jobs not yet asked to end."""
    jobs = background_jobs.c
    statement = (
        sa.select(_t.tenant_id, _t.turn_id)
        .distinct()
        .select_from(background_jobs)
        .join(agent_turns, sa.and_(_t.tenant_id == jobs.tenant_id, _t.turn_id == jobs.turn_id))
        .where(
            jobs.turn_id.is_not(None),
            jobs.finished_at.is_(None),
            jobs.cancel_requested_at.is_(None),
            _t.finished_at.is_not(None),
        )
        .limit(limit)
    )
    return [RowKey(*row) for row in tx.rows(statement)]


def sessions_waiting_to_start(tx: Tx, limit: int) -> list[SessionKey]:
    """Sessions without an active turn that have a `created` one."""
    statement = (
        sa.select(_t.tenant_id, _t.session_id)
        .distinct()
        .join(
            session_contexts,
            sa.and_(session_contexts.c.tenant_id == _t.tenant_id, session_contexts.c.session_id == _t.session_id),
        )
        .where(_t.finished_at.is_(None), _t.status == TurnStatus.CREATED, session_contexts.c.active_turn_id.is_(None))
        .limit(limit)
    )
    return [SessionKey(*row) for row in tx.rows(statement)]
