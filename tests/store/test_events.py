"""The log: dense, last in its transaction, sanitized, read strictly after a cursor."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tenure.canon import uuid7
from tenure.db.engine import Database
from tenure.db.schema import agent_events, session_contexts
from tenure.db.tx import Tx
from tenure.errors import NotFound, UnwrittenEvents
from tenure.records import EventPage, SessionKey
from tenure.store import events
from tenure.store.events import NewEvent
from tests import factory


def sequences(database: Database, session: SessionKey) -> list[int]:
    where = agent_events.c.session_id == session.session_id
    return [row["event_seq"] for row in factory.rows(database, agent_events, where)]


def append(database: Database, *sessions: SessionKey, **columns: Any) -> None:
    def body(tx: Tx) -> None:
        for session in sessions:
            events.record(tx, NewEvent(session, "progress", **columns))

    database.write(body)


def page(database: Database, session: SessionKey, after: int = 0, **wanted: Any) -> EventPage:
    return database.read(lambda tx: events.page(tx, session, after, **wanted))


def test_each_session_counts_from_one_without_holes(database: Database) -> None:
    one, two = (factory.session(database, name).key for name in ("one", "two"))
    append(database, one)
    append(database, two, one, one)
    append(database, one, two)
    assert (sequences(database, one), sequences(database, two)) == ([1, 2, 3, 4], [1, 2])
    assert [row["last_event_seq"] for row in factory.rows(database, session_contexts)] == [4, 2]


def test_events_of_one_transaction_keep_their_order(database: Database) -> None:
    session = factory.session(database).key

    def body(tx: Tx) -> None:
        for n in range(20):
            events.record(tx, NewEvent(session, f"type{n}"))

    database.write(body)
    assert [row["type"] for row in factory.rows(database, agent_events)] == [f"type{n}" for n in range(20)]


def test_every_id_is_kept_beside_the_payload(database: Database) -> None:
    session = factory.session(database).key
    ids = {name: uuid7() for name in ("turn_id", "item_id", "job_id", "approval_id", "grant_id")}
    append(database, session, fencing_token=2**40, payload={"b": 1.5, "a": ["é", None]}, **ids)
    [event] = page(database, session).events
    assert {name: getattr(event, name) for name in ids} == ids
    assert (event.fencing_token, event.payload) == (2**40, {"b": 1.5, "a": ["é", None]})
    assert (event.created_at - factory.session(database, "later").created_at).total_seconds() <= 0


def test_a_rolled_back_change_leaves_no_hole(database: Database) -> None:
    session = factory.session(database).key
    append(database, session)

    def fail_after_writing(tx: Tx) -> None:
        events.record(tx, NewEvent(session, "progress"))
        tx.finish()
        raise ValueError("after the events were written")

    with pytest.raises(ValueError, match="after the events"):
        database.write(fail_after_writing)
    append(database, session)
    assert sequences(database, session) == [1, 2]


def test_events_are_the_last_act(database: Database) -> None:
    """No statement of the transaction follows the insert, and none of the session's row precedes the body's own."""
    session = factory.session(database).key
    job = factory.job(database, status="running")
    seen: list[str] = []

    def note(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        seen.append(statement)

    def body(tx: Tx) -> None:
        events.record(tx, NewEvent(session, "progress"))
        tx.execute(sa.text("SELECT 1"))
        assert sequences_inside(tx) == []
        factory_update(tx, job.job_id)

    def sequences_inside(tx: Tx) -> list[Any]:
        return list(tx.rows(sa.select(agent_events.c.event_seq)))

    sa.event.listen(database.engine, "before_cursor_execute", note)
    database.write(body)
    sa.event.remove(database.engine, "before_cursor_execute", note)
    writes = [statement for statement in seen if "agent_events" in statement and "INSERT" in statement]
    assert writes == seen[-1:]
    cards = [n for n, statement in enumerate(seen) if "session_contexts" in statement]
    assert min(cards) > max(n for n, statement in enumerate(seen) if "background_jobs" in statement)


def factory_update(tx: Tx, job_id: str) -> None:
    from tenure.db.schema import background_jobs

    tx.execute(sa.update(background_jobs).where(background_jobs.c.job_id == job_id).values(progress_seq=1))


def test_unwritten_events_cannot_be_committed(database: Database) -> None:
    session = factory.session(database).key
    job = factory.job(database)

    def body(tx: Tx) -> None:
        factory_update(tx, job.job_id)
        events.record(tx, NewEvent(session, "progress"))
        tx.last_act = None

    with pytest.raises(UnwrittenEvents, match="1 recorded event"):
        database.write(body)
    assert sequences(database, session) == []
    assert factory.job_now(database, job.key) == job


def test_a_change_is_not_committed_without_its_event(database: Database) -> None:
    """Here the event cannot be written at all, because there is no such session."""
    job = factory.job(database)

    def body(tx: Tx) -> None:
        factory_update(tx, job.job_id)
        events.record(tx, NewEvent(SessionKey("default", "unknown"), "progress"))

    with pytest.raises(KeyError):
        database.write(body)
    assert factory.job_now(database, job.key) == job


def test_an_autocommit_connection_records_nothing(postgres: Database) -> None:
    session = factory.session(postgres).key
    with pytest.raises(RuntimeError, match="use a transaction"):
        postgres.single(lambda tx: events.record(tx, NewEvent(session, "progress")))
    assert sequences(postgres, session) == []


SECRETS = ["hunter2hunter2", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlc2lnbmF0dXJl", "p4ssw0rdp4ssw0rd"]


def test_a_secret_never_reaches_the_table(database: Database) -> None:
    session = factory.session(database).key
    payload = {
        "password": SECRETS[0],
        "header": f"Authorization: Bearer {SECRETS[1]}",
        "url": f"postgresql://user:{SECRETS[2]}@host/db",
        "max_tokens": 5,
        "job": "kept",
    }
    append(database, session, payload=payload)
    text = str(database.read(lambda tx: tx.execute(sa.text(_plain(database))).scalar_one()))
    assert not [secret for secret in SECRETS if secret in text]
    assert "[masked" in text
    stored = page(database, session).events[0].payload
    assert (stored["max_tokens"], stored["job"]) == (5, "kept")


def _plain(database: Database) -> str:
    table = "agent_events" if database.is_sqlite else "tenure.agent_events"
    return f"SELECT CAST(payload AS TEXT) FROM {table}"


def test_any_payload_is_stored_as_strict_json(database: Database) -> None:
    session = factory.session(database).key
    append(database, session, payload={"nan": float("nan"), "bytes": b"\x00\xff", "object": object(), "nul": "a\x00b"})
    assert set(page(database, session).events[0].payload) >= {"nan", "bytes", "object"}


# -- pages -------------------------------------------------------------------------------------------------------------


def test_a_page_is_strictly_after_the_cursor(database: Database) -> None:
    session = factory.session(database)
    factory.events(database, factory.session(database, "other").key, 9)
    factory.events(database, session.key, 7)
    for after in range(8):
        found = page(database, session.key, after)
        assert [event.event_seq for event in found.events] == list(range(after + 1, 8))
        assert (found.epoch, found.oldest, found.last, found.reset) == (session.epoch, 1, 7, False)
    assert [event.event_seq for event in page(database, session.key, 2, limit=3).events] == [3, 4, 5]


def test_a_page_can_be_narrowed(database: Database) -> None:
    session = factory.session(database).key
    turn = uuid7()
    for turn_id, type_ in ((turn, "x"), (None, "y"), (turn, "y"), (None, "x"), (turn, "x")):
        append_one(database, session, turn_id, type_)
    assert [event.event_seq for event in page(database, session, turn_id=turn).events] == [1, 3, 5]
    assert [event.event_seq for event in page(database, session, types=["x"]).events] == [1, 4, 5]
    assert [event.event_seq for event in page(database, session, 1, turn_id=turn, types=["x"]).events] == [5]


def append_one(database: Database, session: SessionKey, turn_id: str | None, type_: str) -> None:
    database.write(lambda tx: events.record(tx, NewEvent(session, type_, turn_id=turn_id)))


@pytest.mark.parametrize(("after", "reset"), [(-1, True), (2, True), (3, False), (6, False), (7, False), (8, True)])
def test_a_cursor_outside_the_log_gets_a_reset(database: Database, after: int, reset: bool) -> None:
    session = factory.session(database, oldest_event_seq=4).key
    factory.events(database, session, 7)
    found = page(database, session, after)
    assert found.reset is reset
    assert (found.oldest, found.last) == (4, 7)
    assert not (reset and found.events)


def test_a_cursor_of_another_epoch_gets_a_reset(database: Database) -> None:
    session = factory.session(database)
    factory.events(database, session.key, 2)
    assert page(database, session.key, 1, epoch=session.epoch).reset is False
    other = page(database, session.key, 1, epoch=uuid7())
    assert (other.reset, other.events, other.epoch) == (True, [], session.epoch)


def test_an_empty_log_and_no_log(database: Database) -> None:
    session = factory.session(database).key
    found = page(database, session)
    assert (found.events, found.last, found.reset) == ([], 0, False)
    assert page(database, session, 1).reset is True
    for unknown in (SessionKey("default", "unknown"), SessionKey("other", "s")):
        with pytest.raises(NotFound, match="no session"):
            page(database, unknown)
