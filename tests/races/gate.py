"""Forced order: a winner that keeps its transaction open, and a loser that is proved to wait for it, or not to wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import sqlalchemy as sa

from tenure.db.engine import Database
from tenure.db.tx import Tx

T = TypeVar("T")
PATIENCE = 10.0
PID = sa.text("SELECT pg_backend_pid()")
BLOCKED = sa.text("SELECT pg_blocking_pids(:loser) && CAST(:winners AS int[])")


class Rollback(Exception):
    """Ends a winner's transaction without a commit."""


class Running(Generic[T]):
    """A write transaction on a thread and connection of its own. `runs` counts how often the engine ran it."""

    def __init__(self, database: Database, body: Callable[[Tx], T], go: threading.Event | None = None) -> None:
        self._database = database
        self._body = body
        self._go = go
        self._error: BaseException | None = None
        self._result: T | None = None
        self.pid = 0
        self.runs = 0
        self.rolls_back = False
        self.acted = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._result = self._database.write(self._in_transaction)
        except BaseException as error:  # noqa: BLE001  (given to whoever asks for the result)
            self._error = error
        self.acted.set()

    def _in_transaction(self, tx: Tx) -> T:
        self.runs += 1
        self.pid = tx.execute(PID).scalar_one()
        result = self._body(tx)
        tx.finish()
        self.acted.set()
        if self._go is not None and not self._go.wait(PATIENCE):
            raise AssertionError("nobody let the winner go on")
        if self.rolls_back:
            raise Rollback
        return result

    def waits_for(self, *winners: Running[Any]) -> bool:
        """Whether the server says so of one of them, within the patience; False as soon as this one has ended."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and not self.acted.is_set():
            if self.pid and self._database.read(lambda tx: self._is_blocked(tx, winners)):
                return True
            time.sleep(0.005)
        return False

    def _is_blocked(self, tx: Tx, winners: tuple[Running[Any], ...]) -> bool:
        pids = {"winners": [winner.pid for winner in winners], "loser": self.pid}
        return bool(tx.execute(BLOCKED, pids).scalar_one())

    def result(self) -> T:
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive(), "still waiting"
        if self._error is not None and not isinstance(self._error, Rollback):
            raise self._error
        return self._result  # type: ignore[return-value]  # None only after a rollback


class Winner(Running[T]):
    """Has done its work and holds its locks until `commit` or `roll_back`."""

    def __init__(self, database: Database, body: Callable[[Tx], T]) -> None:
        self._let_go = threading.Event()
        super().__init__(database, body, self._let_go)
        assert self.acted.wait(PATIENCE), "the winner itself waits"

    def commit(self) -> T:
        self._let_go.set()
        return self.result()

    def roll_back(self) -> None:
        self.rolls_back = True
        self.commit()


@contextmanager
def winning(database: Database, body: Callable[[Tx], T]) -> Iterator[Winner[T]]:
    """The body's transaction, done but open; committed at the end unless it has ended before."""
    winner = Winner(database, body)
    try:
        yield winner
    finally:
        winner.commit()


def at_once(database: Database, body: Callable[[Tx], T]) -> T:
    """The body's result, which must come although another transaction is open."""
    running = Running(database, body)
    return running.result()
