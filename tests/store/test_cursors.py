"""Cursors: one for each consumer and turn or whole session, forward only within an epoch."""

from __future__ import annotations

from tenure.canon import uuid7
from tenure.db.engine import Database
from tenure.db.schema import event_cursors
from tenure.records import SessionKey
from tenure.store import cursors
from tests import factory


def put(database: Database, session: SessionKey, epoch: str, seq: int, consumer: str = "c", turn_id: str = "") -> int:
    return database.write(lambda tx: cursors.put(tx, session, consumer, epoch, seq, turn_id))


def get(database: Database, session: SessionKey, consumer: str = "c", turn_id: str = "") -> tuple[str, int] | None:
    return database.read(lambda tx: cursors.get(tx, session, consumer, turn_id))


def test_a_cursor_moves_forward_only(database: Database) -> None:
    session = factory.session(database)
    assert get(database, session.key) is None
    assert [put(database, session.key, session.epoch, seq) for seq in (3, 5, 4, 5, 0, 6)] == [3, 5, 5, 5, 5, 6]
    assert get(database, session.key) == (session.epoch, 6)


def test_a_new_epoch_may_move_it_back(database: Database) -> None:
    session = factory.session(database)
    put(database, session.key, session.epoch, 9)
    new = uuid7()
    assert put(database, session.key, new, 2) == 2
    assert get(database, session.key) == (new, 2)
    assert put(database, session.key, new, 1) == 2


def test_there_is_one_without_a_turn_too(database: Database) -> None:
    """A NULL in a unique key is not unique: the whole session is '' instead."""
    session = factory.session(database)
    for _ in range(3):
        put(database, session.key, session.epoch, 1)
    assert len(factory.rows(database, event_cursors)) == 1


def test_consumers_turns_and_sessions_do_not_share_one(database: Database) -> None:
    one, two = factory.session(database, "one"), factory.session(database, "two")
    other = factory.session(database, "one", tenant="other")
    turn = uuid7()
    places = [(one, "c", ""), (one, "d", ""), (one, "c", turn), (two, "c", ""), (other, "c", "")]
    for seq, (session, consumer, turn_id) in enumerate(places):
        put(database, session.key, session.epoch, seq, consumer, turn_id)
    found = [get(database, session.key, consumer, turn_id) for session, consumer, turn_id in places]
    assert [seq for _, seq in filter(None, found)] == [0, 1, 2, 3, 4]
