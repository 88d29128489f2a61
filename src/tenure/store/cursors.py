"""Cursors: how far each consumer has read a session's log; forward only within an epoch."""

from __future__ import annotations

import sqlalchemy as sa

from tenure.db.clock import now
from tenure.db.inserting import insert_if_absent
from tenure.db.schema import event_cursors
from tenure.db.tx import Tx
from tenure.records import SessionKey

_c = event_cursors.c


def get(tx: Tx, session: SessionKey, consumer: str, turn_id: str = "") -> tuple[str, int] | None:
    """The consumer's (epoch, event_seq); `turn_id` "" means the whole session."""
    row = tx.first(sa.select(_c.epoch, _c.event_seq).where(_this(session, consumer, turn_id)))
    return None if row is None else (row[0], row[1])


def put(tx: Tx, session: SessionKey, consumer: str, epoch: str, event_seq: int, turn_id: str = "") -> int:
    """Stores a cursor and returns the one that now stands: within an epoch it never moves back."""
    values = {"epoch": epoch, "event_seq": event_seq, "updated_at": now()}
    key = {**session._asdict(), "consumer": consumer, "turn": turn_id}
    if tx.count(insert_if_absent(event_cursors).values(**key, **values)) == 0:
        forward = sa.or_(_c.epoch != epoch, _c.event_seq < event_seq)
        tx.execute(sa.update(event_cursors).where(_this(session, consumer, turn_id), forward).values(**values))
    stored = get(tx, session, consumer, turn_id)
    assert stored is not None
    return stored[1]


def _this(session: SessionKey, consumer: str, turn_id: str) -> sa.ColumnElement[bool]:
    return sa.and_(
        _c.tenant_id == session.tenant_id,
        _c.session_id == session.session_id,
        _c.turn == turn_id,
        _c.consumer == consumer,
    )
