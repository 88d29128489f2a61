"""Handles: a job and a turn as their makers hold them. They read the database when asked and hold nothing open."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Generic, TypeVar

from tenure import flow
from tenure.canon import duration
from tenure.errors import JobCancelled, JobFailed, NotFound, TurnCancelled, TurnFailed, WaitTimeout
from tenure.flow import Program
from tenure.records import Approval, Artifact, Event
from tenure.records import Job as JobRow
from tenure.records import Turn as TurnRow
from tenure.states import JobStatus, TurnStatus, is_terminal
from tenure.store import approvals, artifacts, events, jobs, turns, workers
from tenure.tools import ToolSpec

R = TypeVar("R")
Row = TypeVar("Row")
POLL_S = 0.5


def wait_for(program: Program, look: Callable[[], Row | None], timeout: str | None, what: Callable[[], str]) -> Row:
    """Looks until there is something, woken by hints, at least twice a second. WaitTimeout says what it waited for."""
    wakeup = program.database.wakeup
    until = None if timeout is None else time.monotonic() + duration(timeout, "timeout")
    while True:
        seen = wakeup.generation
        found = look()
        if found is not None:
            return found
        left = POLL_S if until is None else min(POLL_S, until - time.monotonic())
        if left <= 0:
            raise WaitTimeout(what())
        wakeup.wait(seen, left)


class Job(Generic[R]):
    """A job. `row` is how it was when last read."""

    def __init__(self, program: Program, row: JobRow, spec: ToolSpec | None, *, replayed: bool = False) -> None:
        self._program = program
        self._spec = spec
        self.row = row
        self.replayed = replayed

    @property
    def id(self) -> str:
        return self.row.job_id

    @property
    def status(self) -> JobStatus:
        """The status now."""
        return self.refresh().row.status

    def refresh(self) -> Job[R]:
        """Reads the row again."""
        found = self._program.database.read(lambda tx: jobs.get(tx, self.row.key))
        if found is None:
            raise NotFound(f"no job {self.id!r}")
        self.row = found
        return self

    def wait(self, timeout: str | None = None) -> Job[R]:
        """Waits for the end and returns the refreshed job. WaitTimeout says in which state it is, and why."""

        def look() -> Job[R] | None:
            return self if is_terminal(self.refresh().row.status) else None

        return wait_for(self._program, look, timeout, self._why)

    def result(self, timeout: str | None = None) -> R:
        """The result as the tool's return hint types it. JobFailed, JobCancelled, WaitTimeout."""
        row = self.wait(timeout).row
        if row.status == JobStatus.FAILED:
            text = f"job {self.id} failed: {row.error_code}: {row.error_text}"
            raise JobFailed(text, self.id, row.error_code or "", row.error_text or "")
        if row.status == JobStatus.CANCELLED:
            raise JobCancelled(f"job {self.id} was cancelled: {row.error_code or 'cancelled'}", self.id)
        output: R = row.output if self._spec is None else self._spec.decoded(row.output)
        return output

    async def aresult(self, timeout: str | None = None) -> R:
        """As `result`, from async code."""
        return await asyncio.to_thread(self.result, timeout)

    def cancel(self, by: str = "user") -> None:
        """Ends it when queued, asks it to end when running. StateConflict when it has ended."""
        flow.follow(self._program, flow.cancel_job(self._program, self.row.key, by))

    def retry(self, by: str = "user") -> Job[R]:
        """Opens a failed or cancelled job again, under the same id. StateConflict otherwise."""
        flow.follow(self._program, flow.reopen(self._program, self.row.key, by))
        return self.refresh()

    def _why(self) -> str:
        return f"job {self.id} is {state_of(self._program, self.row)}"

    def __repr__(self) -> str:
        return f"<Job {self.row.tool} {self.id} {self.row.status}>"


def state_of(program: Program, row: JobRow) -> str:
    """A job's state in words, with the reason why nothing happens, if nothing can."""
    if row.status != JobStatus.QUEUED:
        return str(row.status)
    if row.blocked_by is not None:
        return f"queued: waits for {row.blocked_by}"
    offered = {tool for worker in program.database.read(workers.present) for tool in worker.tools}
    if row.tool not in offered:
        return f"queued: no worker offers {row.tool!r} (start: tenure worker {_where(program, row.tool)})"
    return "queued"


def _where(program: Program, tool: str) -> str:
    module = program.tools.get(tool).fn.__module__ if tool in program.tools else "module"
    return f"{module}:app"


class Turn:
    """A turn. `row` is how it was when last read."""

    def __init__(self, program: Program, row: TurnRow, *, replayed: bool = False) -> None:
        self._program = program
        self.row = row
        self.replayed = replayed

    @property
    def id(self) -> str:
        return self.row.turn_id

    @property
    def session_id(self) -> str:
        return self.row.session_id

    @property
    def status(self) -> TurnStatus:
        """The status now."""
        return self.refresh().row.status

    def refresh(self) -> Turn:
        """Reads the row again."""
        found = self._program.database.read(lambda tx: turns.get(tx, self.row.key))
        if found is None:
            raise NotFound(f"no turn {self.id!r}")
        self.row = found
        return self

    def wait(self, timeout: str | None = None, *, for_approval: bool = False) -> Turn:
        """Waits for the end, or with `for_approval` also for a question to a person. WaitTimeout says what holds it."""

        def look() -> Turn | None:
            status = self.refresh().row.status
            asked = for_approval and status == TurnStatus.AWAITING_APPROVAL
            return self if asked or is_terminal(status) else None

        return wait_for(self._program, look, timeout, self._why)

    def result(self, timeout: str | None = None) -> Any:
        """The final output. TurnFailed, TurnCancelled, WaitTimeout."""
        row = self.wait(timeout).row
        if row.status == TurnStatus.FAILED:
            text = f"turn {self.id} failed: {row.error_code}: {row.error_text}"
            raise TurnFailed(text, self.id, row.error_code or "", row.error_text or "")
        if row.status == TurnStatus.CANCELLED:
            raise TurnCancelled(f"turn {self.id} was cancelled", self.id)
        return row.output

    def pending(self) -> list[Approval]:
        """Its open questions to a person."""
        return self._program.database.read(lambda tx: approvals.pending_of_turn(tx, self.row.key))

    def jobs(self) -> list[JobRow]:
        """Its jobs by round and position."""
        return self._program.database.read(lambda tx: jobs.of_turn(tx, self.row.key))

    def artifacts(self) -> list[Artifact]:
        """What its jobs published."""
        return self._program.database.read(lambda tx: artifacts.of_turn(tx, self.row.key))

    def cancel(self, by: str = "user") -> None:
        """Ends it at once. StateConflict when it has ended."""
        flow.follow(self._program, flow.cancel_turn(self._program, self.row.key, by))

    def follow(self, after: int = 0, timeout: str | None = None) -> Iterator[Event]:
        """Its events as they come, up to its end."""
        for event in follow(self._program, self.row.session, after, timeout):
            if event.turn_id == self.id:
                yield event
                if event.type in ("turn_completed", "turn_failed", "turn_cancelled"):
                    return

    def _why(self) -> str:
        live = [job for job in self.jobs() if not is_terminal(job.status)]
        held = f"; {live[0].tool}: {state_of(self._program, live[0])}" if live else ""
        return f"turn {self.id} is {self.row.status}{held}"

    def __repr__(self) -> str:
        return f"<Turn {self.id} {self.row.status}>"


def follow(program: Program, session: Any, after: int, timeout: str | None) -> Iterator[Event]:
    """Events of a session strictly after a cursor, for ever, or until none has come for `timeout`.

    A cursor outside the log starts anew from the oldest event that is kept.
    """
    while True:
        try:
            page = wait_for(program, partial(_page, program, session, after), timeout, lambda: "no event came")
        except WaitTimeout:
            return
        if page.reset:
            after = page.oldest - 1
            continue
        yield from page.events
        after = page.events[-1].event_seq


def _page(program: Program, session: Any, after: int) -> Any:
    page = program.database.read(lambda tx: events.page(tx, session, after))
    return page if page.events or page.reset else None
