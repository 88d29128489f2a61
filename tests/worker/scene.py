"""An app on a test database with short leases, and what became of its jobs: rows, journal, what tools wrote down."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil
import psycopg
import sqlalchemy as sa

from tenure import Tenure
from tenure.app import Job, Tool
from tenure.context import Hold, boottime
from tenure.db.clock import seconds_until
from tenure.db.engine import Database
from tenure.db.schema import background_jobs
from tenure.leases import LeaseClass
from tenure.records import Job as JobRow
from tenure.records import JobAttempt, Lease, Stage
from tenure.sqlite import sqlite3
from tenure.store import claims, journal, stages
from tenure.worker import Worker
from tenure.worker.keeper import Keeper
from tests import factory

T = TypeVar("T")
PATIENCE = 25.0
SHORT: dict[str, Any] = {"lease": "3s", "heartbeat": "500ms", "margin": "1s"}
SHORT_CLASS = LeaseClass(lease=3.0, heartbeat=0.5, missed=1, margin=1.0)


def until(look: Callable[[], T], what: str, seconds: float = PATIENCE) -> T:
    """Looks again and again until there is something; AssertionError says what never came."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, f"never came within {seconds:g} s: {what}"
        time.sleep(0.01)
    return found


def gone(pid: int) -> bool:
    """Whether the process has ended."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


@dataclass(frozen=True, slots=True)
class Notes:
    """A file to which tools append lines, from whatever thread or process."""

    path: Path

    def write(self, line: object) -> None:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, f"{line}\n".encode())
        os.close(descriptor)

    def lines(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []

    def wait(self, count: int = 1) -> list[str]:
        """At least so many lines."""
        return until(lambda: len(found := self.lines()) >= count and found, f"{count} lines, has {self.lines()}") or []


@dataclass(frozen=True, slots=True)
class Scene:
    """The app and its database. Everything here looks at rows, never at the worker."""

    app: Tenure
    url: str
    notes: Notes

    @property
    def database(self) -> Database:
        return self.app.program.database

    def row(self, job: Job[Any]) -> JobRow:
        return factory.job_now(self.database, job.row.key)

    def journal(self, job: Job[Any]) -> list[JobAttempt]:
        return self.database.read(lambda tx: journal.of_job(tx, job.row.key))

    def outcomes(self, job: Job[Any]) -> list[str]:
        """The journal's words, by token."""
        return [entry.outcome for entry in self.journal(job)]

    def stages(self, job: Job[Any]) -> list[Stage]:
        return self.database.read(lambda tx: stages.of_job(tx, job.row.key))

    def by_status(self, tool: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for row in factory.rows(self.database, background_jobs, background_jobs.c.tool == tool):
            found[row["status"]] = found.get(row["status"], 0) + 1
        return found

    def wait_running(self, job: Job[Any]) -> JobRow:
        return until(lambda: (row := self.row(job)).status == "running" and row, "a running job") or self.row(job)

    def wait_status(self, job: Job[Any], status: str) -> JobRow:
        until(lambda: self.row(job).status == status, f"{status}, is {self.row(job).status}")
        return self.row(job)

    def borrow(self, *tools: Tool[..., Any]) -> None:
        """Registers tools of a module, for processes find a tool by module and name."""
        for tool in tools:
            self.app.program.tools.add(tool.spec)


@contextmanager
def stepping(worker: Worker) -> Iterator[Worker]:
    """A started worker whose grace at the end is short."""
    worker.start()
    try:
        yield worker
    finally:
        worker.stop(0.5)


# -- the keeper alone --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Kept:
    """A keeper without its thread, and the leases that it keeps."""

    database: Database
    keeper: Keeper
    holds: list[Hold]
    stopped: list[tuple[str, str]]

    def hold_of(self, index: int = 0) -> Hold:
        return self.holds[index]

    def tick(self, *, due: bool = True) -> None:
        """One tick, at which every lease is due."""
        if due:
            for hold in self.holds:
                hold.next_due = boottime()
        self.keeper.run_once()

    def owned_again(self) -> None:
        """Ticks until the first lease is."""

        def owned() -> bool:
            self.keeper.run_once()
            return self.holds[0].state() == "owned"

        until(owned, "owned again", 10.0)


def keep(database: Database, count: int = 1, lease_class: LeaseClass = SHORT_CLASS, owner: str = "me:1") -> Kept:
    """Claims so many new jobs and gives their leases to a keeper."""
    for _ in range(count):
        factory.job(database, tool="a")
    sent_at = boottime()
    leases = database.single(lambda tx: claims.claim(tx, owner, {"a": lease_class.lease}, count))
    assert len(leases) == count
    stopped: list[tuple[str, str]] = []
    keeper = Keeper(database, owner, lambda hold, why: stopped.append((hold.lease.job_id, why)))
    holds = [Hold(lease, lease_class, sent_at, keeper.changed) for lease in leases]
    keeper.add(holds)
    return Kept(database, keeper, holds, stopped)


def lease_left(database: Database, lease: Lease) -> float:
    """Seconds that the row's lease has, by the database's clock."""
    c = background_jobs.c
    wanted = sa.select(seconds_until(c.lease_expires_at)).where(c.job_id == lease.job_id)
    return float(database.read(lambda tx: tx.execute(wanted).scalar_one()))


@contextmanager
def row_locked(database: Database, job_id: str) -> Iterator[None]:
    """Somebody else's transaction holds the row (on SQLite: the file) for the body."""
    if database.is_sqlite:
        lite = sqlite3.connect(str(database.url.database), isolation_level=None)
        lite.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            lite.execute("ROLLBACK")
            lite.close()
        return
    url = database.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url) as connection:
        connection.execute("SELECT 1 FROM tenure.background_jobs WHERE job_id = %s FOR NO KEY UPDATE", [job_id])
        yield
        connection.rollback()
