"""The pytest plugin: `tenure_run`, a factory of `Run`s, each a program under a settable clock and a worker by hand.

def test_it(tenure_run):
    run = tenure_run(app)
    app.submit("…", session_id="s")
    run.clock.advance("90s")
    run.drain()
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import pytest

from tenure.db.tx import Tx
from tenure.flow import Program
from tenure.records import DEFAULT_TENANT, Lease
from tenure.store import events, sessions
from tenure.testing.clock import Clock
from tenure.testing.drive import VANISH, Driver, Ending
from tenure.testing.killing import Killed, KillPoints


class App(Protocol):
    """Whatever holds a `Program`."""

    @property
    def program(self) -> Program: ...


@dataclass(slots=True)
class Run:
    """A program, its clock, and its worker."""

    program: Program
    clock: Clock
    worker: Driver
    points: KillPoints

    def drain(self) -> int:
        """Works until nothing is claimable; returns how many attempts ran. A killed worker is followed by a new one."""
        return self.worker.drain()

    def kill_worker(self, after: str) -> None:
        """Works until an event of this type is in a log (or a commit of that name is done), and dies there.

        What the worker held stays held until the lease ends: `clock.advance("90s")`, then `drain()`.
        """
        deadly = _Deadly(self, after, self._count(after))
        self.program.database.checkpoint = deadly.reach
        try:
            self.worker.drain()
        except Killed:
            self._replace_worker()
        else:
            raise AssertionError(f"nothing came to {after!r}; reached: {self.points.reached[-10:]}")
        finally:
            self.points.watch(self.program.database)

    def lose_answer(self, tool: str) -> None:
        """The next attempt of the tool runs, but what it returns never arrives: its lease runs out."""
        worker = self.worker

        def lost(lease: Lease) -> Ending:
            worker.perform(lease)
            return VANISH

        worker.on(tool, lost)

    def _replace_worker(self) -> None:
        number = int(self.worker.owner.removeprefix("w")) + 1
        self.worker = Driver(self.program, f"w{number}", points=self.points, script=self.worker.script)

    def _count(self, kind: str) -> int:
        """How many events of a type are in the logs of the default tenant."""

        def body(tx: Tx) -> int:
            keys = [session.key for session in sessions.listed(tx, DEFAULT_TENANT, 1000)]
            return sum(len(events.page(tx, key, limit=10_000, types=[kind]).events) for key in keys)

        return self.program.database.read(body)


@dataclass(slots=True)
class _Deadly:
    run: Run
    after: str
    seen: int

    def reach(self, when: str, what: str) -> None:
        self.run.points.reach(when, what)
        if when == "after" and (what == self.after or self.run._count(self.after) > self.seen):
            raise Killed(f"{when} {what}")


@pytest.fixture
def tenure_run() -> Callable[[App], Run]:
    """A function from an app to its `Run`. The app's database must be one of tests: its clock becomes settable."""

    def make(app: App) -> Run:
        program = app.program
        clock = Clock(program.database)
        points = KillPoints().watch(program.database)
        return Run(program, clock, Driver(program, points=points), points)

    return make
