"""Two that append to a log, decide or spend at the same time, on PostgreSQL, each order forced."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pytest

from tenure.canon import uuid7
from tenure.db.engine import Database
from tenure.db.schema import agent_events
from tenure.db.tx import Tx
from tenure.records import RowKey, SessionKey
from tenure.states import ApprovalStatus
from tenure.store import approvals, events, sessions, turns
from tenure.store.events import NewEvent
from tests import factory
from tests.races.gate import Running, at_once, winning


def append(*keys: SessionKey) -> Callable[[Tx], None]:
    def body(tx: Tx) -> None:
        for key in keys:
            events.record(tx, NewEvent(key, "progress"))

    return body


def sequences(database: Database, key: SessionKey) -> list[int]:
    where = agent_events.c.session_id == key.session_id
    return [row["event_seq"] for row in factory.rows(database, agent_events, where)]


@pytest.mark.parametrize("commits", [True, False])
def test_the_second_append_to_a_session_waits(postgres: Database, commits: bool) -> None:
    """A reader never sees number 2 before number 1, and a rolled-back append leaves no hole."""
    key = factory.session(postgres).key
    with winning(postgres, append(key)) as winner:
        loser = Running(postgres, append(key))
        assert loser.waits_for(winner)
        page = postgres.read(lambda tx: events.page(tx, key))
        assert (page.events, page.last) == ([], 0)
        winner.commit() if commits else winner.roll_back()
        loser.result()
    assert sequences(postgres, key) == ([1, 2] if commits else [1])


def test_appends_to_different_sessions_do_not_wait(postgres: Database) -> None:
    one, two = (factory.session(postgres, name).key for name in ("one", "two"))
    with winning(postgres, append(one)):
        at_once(postgres, append(two, two))
        assert sequences(postgres, two) == [1, 2]


@pytest.mark.parametrize("order", [1, -1])
def test_two_settlements_over_two_sessions_do_not_deadlock(postgres: Database, order: int) -> None:
    """A third transaction holds the first session until both wait: with locks out of order, each would hold one."""
    one, two = (factory.session(postgres, name).key for name in ("one", "two"))
    with winning(postgres, lambda tx: sessions.lock(tx, [one])) as gate:
        first = Running(postgres, append(*(one, two)[::order]))
        assert first.waits_for(gate)
        second = Running(postgres, append(*(one, two)[::-order]))
        assert second.waits_for(gate, first)
        gate.commit()
        first.result()
        second.result()
    assert (first.runs, second.runs) == (1, 1)
    assert (sequences(postgres, one), sequences(postgres, two)) == ([1, 2], [1, 2])


def test_many_writers_and_a_reader_see_a_dense_log(database: Database) -> None:
    """Some of the appends are rolled back; the reader sees each committed event once and in order."""
    key = factory.session(database).key
    committed, done = [0] * 4, threading.Event()

    def write(n: int) -> None:
        dice = random.Random(n)
        for _ in range(25):
            try:
                database.write(lambda tx: _append_or_fail(tx, key, fails=dice.random() < 0.3))
            except ZeroDivisionError:
                continue
            committed[n] += 1

    def read() -> None:
        while not done.is_set() or len(seen) < sum(committed):
            page = database.read(lambda tx: events.page(tx, key, len(seen), 7))
            seen.extend(event.event_seq for event in page.events)

    seen: list[int] = []
    threads = [threading.Thread(target=write, args=(n,), daemon=True) for n in range(4)]
    reader = threading.Thread(target=read, daemon=True)
    for thread in (*threads, reader):
        thread.start()
    for thread in threads:
        thread.join(30)
    done.set()
    reader.join(30)
    assert sum(committed) < 100
    assert seen == list(range(1, sum(committed) + 1)) == sequences(database, key)


def _append_or_fail(tx: Tx, key: SessionKey, *, fails: bool) -> None:
    append(key)(tx)
    if fails:
        tx.finish()
        raise ZeroDivisionError


def test_submits_on_one_session_do_not_deadlock(postgres: Database) -> None:
    """Each inserts a child of the session's row and then locks that row."""
    key = factory.session(postgres).key

    def submit(tx: Tx) -> bool:
        made = turns.insert(tx, turns.NewTurn("default", uuid7(), "s", {}))
        return made and bool(sessions.lock(tx, [key]))

    with winning(postgres, lambda tx: sessions.lock(tx, [key])) as gate:
        both = [Running(postgres, submit) for _ in range(2)]
        assert all(each.waits_for(gate, *both) for each in both)
        gate.commit()
        assert [each.result() for each in both] == [True, True]
    assert [each.runs for each in both] == [1, 1]


# -- decisions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "second"), [("approved", "denied"), ("denied", "approved"), ("voided", "approved")])
def test_one_decision_of_two_wins(postgres: Database, first: str, second: str) -> None:
    approval = factory.approval(postgres, factory.turn(postgres, factory.session(postgres).key))
    key = RowKey("default", approval.approval_id)

    def decide(status: str) -> Callable[[Tx], bool]:
        return lambda tx: approvals.settle(tx, key, ApprovalStatus(status), by=status)

    with winning(postgres, decide(first)) as winner:
        loser = Running(postgres, decide(second))
        assert loser.waits_for(winner)
        assert winner.commit() is True
        assert loser.result() is False
    found = postgres.read(lambda tx: approvals.get(tx, key))
    assert found is not None
    assert (found.status, found.decided_by) == (first, first)


def test_the_last_use_is_taken_once(postgres: Database) -> None:
    approval = factory.approval(postgres, factory.turn(postgres, factory.session(postgres).key), status="approved")
    key = RowKey("default", factory.grant(postgres, approval).grant_id)
    with winning(postgres, lambda tx: approvals.spend(tx, key)) as winner:
        loser = Running(postgres, lambda tx: approvals.spend(tx, key))
        assert loser.waits_for(winner)
        assert winner.commit() is True
        assert loser.result() is False
