"""Hints: one from anywhere wakes a waiter, a lost one costs a poll, and nothing depends on them."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest
import sqlalchemy as sa

from tenure.db.engine import Database
from tenure.db.tx import Tx
from tests import postgres as harness

LISTENING = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
LONG = 20.0


class Waiter:
    """Waits on a thread of its own; `woken` is set when it returns, `took` says after how many seconds."""

    def __init__(self, database: Database, timeout: float = LONG) -> None:
        self.woken = threading.Event()
        self.took = 0.0
        seen = database.wakeup.generation
        self._thread = threading.Thread(target=self._run, args=(database, seen, timeout), daemon=True)
        self._thread.start()

    def _run(self, database: Database, seen: int, timeout: float) -> None:
        began = time.monotonic()
        database.wakeup.wait(seen, timeout)
        self.took = time.monotonic() - began
        self.woken.set()


def until(found: Callable[[], object], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not found():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


# Other tests of this process may have left apps open, whose threads listen on this process's one database.
STRANGERS: set[object] = set()


@pytest.fixture(autouse=True)
def strangers(request: pytest.FixtureRequest) -> None:
    STRANGERS.clear()
    STRANGERS.update(threading.enumerate())
    for name in {"postgres", "database"} & set(request.fixturenames):
        database = request.getfixturevalue(name)
        STRANGERS.update([] if database.is_sqlite else listeners(database))


def listeners(database: Database) -> list[int]:
    found = [row[0] for row in database.read(lambda tx: tx.rows(sa.text(LISTENING)))]
    return [pid for pid in found if pid not in STRANGERS]


def wake(tx: Tx) -> None:
    tx.wake()


def test_a_hint_from_another_connection_wakes(postgres: Database, postgres_url: str) -> None:
    other = Database(postgres_url)
    waiter = Waiter(postgres)
    assert until(lambda: listeners(other))
    assert not waiter.woken.is_set()
    other.write(wake)
    assert waiter.woken.wait(5)
    other.dispose()


def test_a_hint_from_another_process_wakes(postgres: Database, postgres_url: str) -> None:
    waiter = Waiter(postgres)
    assert until(lambda: listeners(postgres))
    program = "import sys; from tenure.db.engine import Database; Database(sys.argv[1]).wakeup.hint()"
    subprocess.run([sys.executable, "-c", program, postgres_url], check=True, timeout=30, cwd=harness.ROOT)
    assert waiter.woken.wait(5)


@pytest.mark.parametrize("how", ["write", "hint", "single"])
def test_a_hint_within_a_process_wakes(database: Database, how: str) -> None:
    waiter = Waiter(database)
    if how == "hint":
        database.wakeup.hint()
    else:
        getattr(database, how)(wake)
    assert waiter.woken.wait(5)
    assert waiter.took < LONG / 2


def test_a_hint_before_the_wait_is_not_lost(database: Database) -> None:
    seen = database.wakeup.generation
    database.write(wake)
    began = time.monotonic()
    database.wakeup.wait(seen, LONG)
    assert time.monotonic() - began < LONG / 2


def test_what_is_rolled_back_wakes_nobody(database: Database) -> None:
    seen = database.wakeup.generation

    def fail(tx: Tx) -> None:
        tx.wake()
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        database.write(fail)
    assert database.wakeup.generation == seen


def test_a_wait_without_hints_ends_by_itself(database: Database) -> None:
    began = time.monotonic()
    database.wakeup.wait(database.wakeup.generation, 0.05)
    assert 0.04 < time.monotonic() - began < LONG / 2


def test_a_lost_listener_costs_polls_and_comes_back(
    postgres: Database, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.db.wakeup.RECONNECT_SECONDS", 0.05)
    other = Database(postgres_url)
    waiter = Waiter(postgres)
    assert until(lambda: listeners(other))
    [lost] = listeners(other)
    other.write(lambda tx: tx.execute(sa.select(sa.func.pg_terminate_backend(lost))))
    assert waiter.woken.wait(5), "a lost listener is itself a reason to look"
    began = time.monotonic()
    postgres.wakeup.wait(postgres.wakeup.generation, 0.05)
    assert time.monotonic() - began < LONG / 2
    assert until(lambda: [pid for pid in listeners(other) if pid != lost])
    waiter = Waiter(postgres)
    other.write(wake)
    assert waiter.woken.wait(5)
    other.dispose()


def test_without_notify_nothing_is_sent_or_listened_to(postgres: Database, postgres_url: str) -> None:
    other = Database(postgres_url)
    postgres.wakeup.notify = other.wakeup.notify = False
    waiter = Waiter(postgres, timeout=0.3)
    other.write(wake)
    assert waiter.woken.wait(5)
    assert waiter.took >= 0.29
    assert listeners(other) == []
    other.dispose()


def test_other_schemas_of_the_same_database_are_not_woken(postgres: Database, postgres_url: str) -> None:
    other = Database(postgres_url, schema="other")
    waiter = Waiter(postgres, timeout=0.5)
    assert until(lambda: listeners(postgres))
    other.write(wake)
    assert waiter.woken.wait(5)
    assert waiter.took >= 0.49
    other.dispose()


def test_stop_wakes_and_ends_the_listener(database: Database) -> None:
    waiter = Waiter(database)
    if not database.is_sqlite:
        assert until(lambda: listeners(database))
    database.wakeup.stop()
    assert waiter.woken.wait(5)
    database.wakeup.stop()
    threads = [thread for thread in threading.enumerate() if thread not in STRANGERS]
    assert not [thread for thread in threads if thread.name == "tenure-listen"]
