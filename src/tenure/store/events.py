"""The log: recorded by every state change, written as the last act of its transaction, read strictly after a cursor.

`event_seq` is counted on the session's row in the same transaction, so order is commit order and a rolled-back change
leaves no hole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from tenure.db.clock import now
from tenure.db.reading import columns_of, many
from tenure.db.rows import pack, table_of
from tenure.db.schema import agent_events, session_contexts
from tenure.db.tx import Tx
from tenure.db.types import Id, Json, Key, encode_json
from tenure.errors import NotFound
from tenure.payload import sanitize
from tenure.records import Event, EventPage, SessionKey

PAGE = 500


@dataclass(frozen=True, slots=True)
class NewEvent:
    """A fact to be recorded. The payload is sanitized when it is written; ids stand beside it, never in it."""

    session: SessionKey
    type: str
    turn_id: str | None = None
    item_id: str | None = None
    job_id: str | None = None
    approval_id: str | None = None
    grant_id: str | None = None
    fencing_token: int | None = None
    payload: dict[str, Any] = field(default_factory=dict)


def record(tx: Tx, event: NewEvent) -> None:
    """Records an event; the transaction writes it as its last act."""
    if tx.autocommit:
        raise RuntimeError("an autocommit connection cannot record events: use a transaction")
    tx.unwritten.append(event)
    tx.last_act = write_all


_counted = table_of("counted", {"tenant_id": Key(), "session_id": Key(), "n": sa.BigInteger()})
_matches = sa.and_(
    session_contexts.c.tenant_id == _counted.c.tenant_id,
    session_contexts.c.session_id == _counted.c.session_id,
)
_lock = (
    sa.select(session_contexts.c.session_id)
    .join(_counted, _matches)
    .order_by(session_contexts.c.tenant_id, session_contexts.c.session_id)
    .with_for_update(key_share=True, of=session_contexts)
)
_advance = (
    sa.update(session_contexts)
    .where(_matches)
    .values(
        last_event_seq=session_contexts.c.last_event_seq + _counted.c.n,
        updated_at=now(),
        last_agent_at=now(),
    )
    .returning(session_contexts.c.tenant_id, session_contexts.c.session_id, session_contexts.c.last_event_seq)
)
_written = table_of(
    "written",
    {
        "tenant_id": Key(),
        "session_id": Key(),
        "event_seq": sa.BigInteger(),
        "type": sa.Text(),
        "turn_id": Id(),
        "item_id": Id(),
        "job_id": Id(),
        "approval_id": Id(),
        "grant_id": Id(),
        "fencing_token": sa.BigInteger(),
        "payload": Json(),
    },
)
_insert = sa.insert(agent_events).from_select(
    [*_written.c.keys(), "created_at"], sa.select(*_written.c, now().label("created_at"))
)


def write_all(tx: Tx) -> None:
    """Numbers and inserts everything recorded: counters locked in order, one update, one insert of many rows."""
    events: list[NewEvent] = tx.unwritten
    counts = Counter(event.session for event in events)
    parameters = {"counted": pack([[*key, n] for key, n in sorted(counts.items())])}
    if len(counts) > 1:
        tx.execute(_lock, parameters)
    last = {SessionKey(row[0], row[1]): row[2] for row in tx.rows(_advance, parameters)}
    following = {key: last[key] - n for key, n in counts.items()}
    rows = []
    for event in events:
        following[event.session] += 1
        rows.append(_row(event, following[event.session]))
    tx.execute(_insert, {"written": pack(rows)})
    tx.unwritten.clear()


def _row(event: NewEvent, event_seq: int) -> list[Any]:
    ids = [event.turn_id, event.item_id, event.job_id, event.approval_id, event.grant_id, event.fencing_token]
    return [*event.session, event_seq, event.type, *ids, encode_json(sanitize(event.payload))]


_bounds = sa.select(
    session_contexts.c.epoch, session_contexts.c.oldest_event_seq, session_contexts.c.last_event_seq
).where(
    session_contexts.c.tenant_id == sa.bindparam("tenant"),
    session_contexts.c.session_id == sa.bindparam("session"),
)
_page = (
    sa.select(*columns_of(agent_events, Event))
    .where(
        agent_events.c.tenant_id == sa.bindparam("tenant"),
        agent_events.c.session_id == sa.bindparam("session"),
        agent_events.c.event_seq > sa.bindparam("after", type_=sa.BigInteger()),
        agent_events.c.event_seq <= sa.bindparam("last", type_=sa.BigInteger()),
    )
    .order_by(agent_events.c.event_seq)
    .limit(sa.bindparam("limit", type_=sa.Integer(), literal_execute=True))
)


def page(
    tx: Tx,
    session: SessionKey,
    after: int = 0,
    limit: int = PAGE,
    *,
    epoch: str | None = None,
    turn_id: str | None = None,
    types: Sequence[str] | None = None,
) -> EventPage:
    """At most `limit` events after the cursor, in order. NotFound for an unknown session.

    With `epoch`, or with a cursor outside the log, the answer may be a reset instead of events.
    """
    names = {"tenant": session.tenant_id, "session": session.session_id}
    bounds = tx.first(_bounds, names)
    if bounds is None:
        raise NotFound(f"no session {session.session_id!r}")
    known, oldest, last = bounds
    if (epoch is not None and epoch != known) or not oldest - 1 <= after <= last:
        return EventPage([], known, oldest, last, reset=True)
    statement = _page
    if turn_id is not None:
        statement = statement.where(agent_events.c.turn_id == turn_id)
    if types is not None:
        statement = statement.where(agent_events.c.type.in_(types))
    found = tx.rows(statement, {**names, "after": after, "last": last, "limit": limit})
    return EventPage(many(Event, found), known, oldest, last)
