"""The story of the demo: a request, a kill, a takeover, a question, a result."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING, Any

from tenure.canon import uuid7
from tenure.cli.demo_check import SAMPLE, Wanted
from tenure.cli.demo_facts import Killed, Result, State, result_of, state_of
from tenure.cli.demo_guard import Guard
from tenure.cli.demo_workers import Process, Workers
from tenure.cli.faults import Code
from tenure.cli.jobs import user
from tenure.cli.loading import explaining, on_database
from tenure.errors import TenureError, WaitTimeout
from tenure.records import Job
from tenure.states import JobStatus, TurnStatus, is_terminal
from tenure.toolkit.demo_app import HOLD, app, middle_of, pieces_of
from tenure.toolkit.outputs import written_whole

if TYPE_CHECKING:
    from tenure import Tenure, Turn
    from tenure.cli.demo_view import View

POLL_S = 0.1
STALLED_S = 180.0
PROJECT = "demo"


def run(wanted: Wanted, view: View) -> int:
    """Runs the demo; whatever happens, its workers are ended and an unfinished turn is cancelled."""
    with ExitStack() as ends:
        ends.callback(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, _interrupt))
        if wanted.makes_folder:
            wanted.out.mkdir(parents=True, exist_ok=True)
        demo = on_database(app, wanted.database_url, str(wanted.out / "artifacts"))
        ends.callback(demo.close)
        guard = Guard(demo.program)
        with explaining(_name(wanted)):
            guard.enter()
        ends.callback(guard.leave)
        wanted.out.mkdir(parents=True, exist_ok=True)
        environment = {
            "TENURE_DATABASE_URL": wanted.database_url,
            "TENURE_ARTIFACTS": str(wanted.out / "artifacts"),
        }
        workers = ends.enter_context(Workers(wanted.out, environment))
        ends.enter_context(view)
        result = Story(demo, wanted, guard, workers, view).tell()
    view.end(result)
    return Code.OK if result.turn.status == TurnStatus.COMPLETED else Code.FAILED


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def _name(wanted: Wanted) -> str:
    from tenure.cli.loading import database_of

    return database_of(wanted.database_url).name


class Story:
    """One run: what it waits for, and what it does then."""

    def __init__(self, demo: Tenure, wanted: Wanted, guard: Guard, workers: Workers, view: View) -> None:
        self._demo = demo
        self._wanted = wanted
        self._guard = guard
        self._workers = workers
        self._view = view
        self._session = f"demo-{uuid7()[-12:]}"
        self._alive: list[Process] = []
        self._turn: Turn | None = None
        self._read = 0

    def tell(self) -> Result:
        """From the file to the result."""
        view = self._view
        view.begin(self._demo, self._session)
        source = self._source()
        try:
            turn = self._submitted(source)
            killed = self._kill_in_the_middle()
            self._decide(self._wait(lambda state: is_over(state) or bool(state.pending)))
            self._wait(is_over)
            return result_of(self._demo.program, turn.row.key, killed, self._wanted.out)
        except BaseException:
            self._give_up()
            raise

    def _source(self) -> Path:
        if self._wanted.source is not None:
            return self._wanted.source
        from tenure.toolkit.sample import make_sample

        place = self._wanted.out / SAMPLE
        self._view.note(f"making a messy sample: {place}")
        make_sample(place)
        return place

    def _submitted(self, source: Path) -> Turn:
        demo = self._demo
        stored = demo.put_artifact(self._wanted.name, source, project_id=PROJECT)
        demo.set_project(PROJECT, self._wanted.settings)
        self._guard.settle()
        request = {"file_id": stored.artifact_id, "name": stored.name}
        self._turn = demo.submit(request, session_id=self._session, command="clean", project_id=PROJECT)
        self._view.note(f"turn {self._turn.id}: clean {stored.name} by the project's settings and report")
        return self._turn

    # -- the unpleasant part -------------------------------------------------------------------------------------------

    def _kill_in_the_middle(self) -> Killed | None:
        """Kills worker 1 inside a piece of normalise, when all before it are saved. None: the turn ended first."""
        view = self._view
        first = self._start("worker-1", **{HOLD: self._session})
        view.note(f"worker-1 started, pid {first.pid}")
        state = self._wait(lambda state: is_over(state) or _claimed(state, first.name))
        if is_over(state):
            return None
        second = self._start("worker-2")
        pieces, _ = pieces_of(state.jobs["parse"].output["rows"])
        middle = middle_of(pieces)
        ready = partial(_is_in, piece=middle, other=second.name)
        state = self._wait(lambda state: is_over(state) or ready(state))
        if is_over(state):
            return None
        view.note(f"worker-2 started, pid {second.pid}; worker-1 waits inside piece {middle} of {pieces} to be killed")
        return self._kill(first, state.jobs["normalise"], f"rows#{middle}")

    def _kill(self, process: Process, job: Job, stage: str) -> Killed:
        self._alive.remove(process)
        returncode = process.kill()
        state = self._look()
        killed = Killed(process.pid, returncode, stage, job.lease_owner or "", job.fencing_token or 0, state.now)
        self._view.killed(killed, state.jobs[job.tool])
        return killed

    def _start(self, name: str, **environment: str) -> Process:
        process = self._workers.start(name, **environment)
        self._alive.append(process)
        return process

    # -- the question --------------------------------------------------------------------------------------------------

    def _decide(self, state: State) -> None:
        for approval in state.pending:
            if self._view.agrees(approval, self._draft(state)):
                self._demo.approve(approval.approval_id, by=user(), source="demo")
            else:
                self._demo.deny(approval.approval_id, by=user(), source="demo")

    def _draft(self, state: State) -> Path:
        """The drafted report, beside the results to come, so that a person can read it before agreeing."""
        report_id = state.jobs["draft"].output["report_id"]
        assert self._turn is not None
        drafted = next(each for each in self._turn.artifacts() if each.artifact_id == report_id)
        place = self._wanted.out / drafted.name
        with written_whole(place) as partial_file:
            copyfile(self._demo.artifact_path(drafted), partial_file)
        return place

    # -- waiting -------------------------------------------------------------------------------------------------------

    def _look(self) -> State:
        """The turn now; what is new is shown."""
        assert self._turn is not None
        state = state_of(self._demo.program, self._turn.row.key, self._read)
        self._read = state.events[-1].event_seq if state.events else self._read
        self._view.show(state)
        return state

    def _wait(self, until: Callable[[State], bool]) -> State:
        """Looks until it is so. WorkerDied; WaitTimeout when nothing has moved for three minutes."""
        moved_at, mark = time.monotonic(), None
        while True:
            state = self._look()
            if until(state):
                return state
            for process in self._alive:
                process.require_alive()
            if state.mark != mark:
                moved_at, mark = time.monotonic(), state.mark
            if time.monotonic() - moved_at > STALLED_S:
                raise WaitTimeout(f"nothing has moved for {STALLED_S:g} s; the workers' logs are in {self._wanted.out}")
            time.sleep(POLL_S)

    def _give_up(self) -> None:
        """Nothing of an interrupted demo is left to be worked at."""
        if self._turn is not None:
            with suppress(TenureError):
                self._turn.cancel(by="demo")


def is_over(state: State) -> bool:
    return is_terminal(state.turn.status)


def _claimed(state: State, worker: str) -> bool:
    """Whether this worker runs normalise."""
    job = state.jobs.get("normalise")
    return job is not None and job.status == JobStatus.RUNNING and (job.lease_owner or "").startswith(f"{worker}:")


def _is_in(state: State, *, piece: int, other: str) -> bool:
    """Whether every piece before this one is saved, and the other worker is there."""
    saved = {stage.part for stage in state.saved if stage.name == "rows"}
    return len(saved) == piece - 1 and any(owner.startswith(f"{other}:") for owner in state.owners)
