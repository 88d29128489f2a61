"""Verbs of the flow in a forced order: the first stops just before its commit, the second is shown to wait or not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import pytest
import sqlalchemy as sa

from tenure.db.engine import Database
from tenure.flow import Program
from tenure.runtime import Runtime
from tenure.settings import Settings
from tenure.testing import attach_clock
from tests.flow.world import World, make

T = TypeVar("T")
Verb = Callable[[Program], T]
PATIENCE = 20.0
WAITING = sa.text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


class Running(Generic[T]):
    """A verb on a thread and with connections of its own; `before` names the commit at which it stops."""

    def __init__(self, world: World, verb: Verb[T], before: str | None = None) -> None:
        self.program = another(world)
        self.stopped = threading.Event()
        self._go = threading.Event()
        self._verb, self._before = verb, before
        self._result: Any = None
        self._error: BaseException | None = None
        self.program.database.checkpoint = self._reach
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._verb(self.program)
        except BaseException as error:  # noqa: BLE001  (given to whoever asks for the result)
            self._error = error
        self.stopped.set()

    def _reach(self, when: str, what: str) -> None:
        if when == "before" and what == self._before and not self._go.is_set():
            self.stopped.set()
            assert self._go.wait(PATIENCE), "nobody let it go on"

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def go_on(self) -> None:
        self._go.set()

    def outcome(self) -> T | BaseException:
        """What it returned, or what it raised."""
        self.go_on()
        self._thread.join(PATIENCE)
        assert self.ended, "still waiting"
        self.program.database.dispose()
        return self._result if self._error is None else self._error

    def result(self) -> T:
        found = self.outcome()
        if isinstance(found, BaseException):
            raise found
        return found


def another(world: World) -> Program:
    """The same program as another process has it: with connections of its own."""
    url = world.database.url.render_as_string(hide_password=False)
    database = Database(url)
    attach_clock(database)
    return Program(Runtime(Settings(), database), world.program.tools, world.planners)


def in_order(world: World, first: Verb[Any], before: str, second: Verb[Any], *, waits: bool) -> tuple[Any, Any]:
    """The outcomes of both: `second` begins when `first` has done everything but its commit `before`."""
    winner = Running(world, first, before)
    assert winner.stopped.wait(PATIENCE)
    assert not winner.ended, f"it never came to {before}: {winner.outcome()!r}"
    loser = Running(world, second)
    if waits:
        assert until(lambda: someone_waits(world) or loser.ended), "neither waits nor ends"
        assert not loser.ended, f"it did not wait: {loser.outcome()!r}"
    else:
        assert until(lambda: loser.ended), "it waits"
    winner.go_on()
    return winner.outcome(), loser.outcome()


def someone_waits(world: World) -> bool:
    found: int = world.database.read(lambda tx: tx.execute(WAITING).scalar_one())
    return found > 0


def until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.005)
    return False


@pytest.fixture
def racing(postgres_url: str) -> Iterator[World]:
    """A world on PostgreSQL."""
    database = Database(postgres_url)
    made = make(database)
    yield made
    made.check()
    database.dispose()
