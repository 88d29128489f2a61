"""Sessions: the small, boring, recoverable card of a dialogue, and the lock under which one turn follows another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from tenure.canon import uuid7
from tenure.db.clock import now
from tenure.db.inserting import insert_if_absent
from tenure.db.reading import columns_of, many, one
from tenure.db.rows import pack, table_of
from tenure.db.schema import session_contexts
from tenure.db.tx import Tx
from tenure.db.types import Key
from tenure.records import Session, SessionKey

_s = session_contexts.c
_this = sa.and_(_s.tenant_id == sa.bindparam("tenant"), _s.session_id == sa.bindparam("session"))
_get = sa.select(*columns_of(session_contexts, Session)).where(_this)
_named = table_of("named", {"tenant_id": Key(), "session_id": Key()})
_lock = (
    sa.select(*columns_of(session_contexts, Session))
    .join(_named, sa.and_(_s.tenant_id == _named.c.tenant_id, _s.session_id == _named.c.session_id))
    .order_by(_s.tenant_id, _s.session_id)
    .with_for_update(key_share=True, of=session_contexts)
)


def _names(key: SessionKey) -> dict[str, str]:
    return {"tenant": key.tenant_id, "session": key.session_id}


def ensure(
    tx: Tx, key: SessionKey, *, project_id: str | None = None, user_id: str | None = None, profile: str | None = None
) -> None:
    """Creates the session unless it is there; takes no lock on one that is."""
    values = {
        **key._asdict(),
        "project_id": project_id,
        "user_id": user_id,
        "agent_profile": profile,
        "epoch": uuid7(),
        "created_at": now(),
        "updated_at": now(),
    }
    tx.execute(insert_if_absent(session_contexts).values(values))


def get(tx: Tx, key: SessionKey) -> Session | None:
    """The session's card, without a lock."""
    return one(Session, tx.first(_get, _names(key)))


def lock(tx: Tx, keys: Iterable[SessionKey]) -> dict[SessionKey, Session]:
    """Locks the sessions in lock order to the end of the transaction and returns them as they are now."""
    wanted = sorted(set(keys))
    if not wanted:
        return {}
    found = many(Session, tx.rows(_lock, {"named": pack(wanted)}))
    return {session.key: session for session in found}


def change(tx: Tx, key: SessionKey, **values: Any) -> None:
    """Sets columns of a session that this transaction has locked; every change is a new context version."""
    statement = sa.update(session_contexts).where(_this)
    tx.execute(statement.values(context_version=_s.context_version + 1, updated_at=now(), **values), _names(key))


def listed(tx: Tx, tenant_id: str, limit: int) -> list[Session]:
    """The sessions that changed last, newest first."""
    statement = (
        sa.select(*columns_of(session_contexts, Session))
        .where(_s.tenant_id == tenant_id)
        .order_by(_s.updated_at.desc(), _s.session_id)
        .limit(limit)
    )
    return many(Session, tx.rows(statement))
