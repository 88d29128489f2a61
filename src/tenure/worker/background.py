"""What a worker does beside running tools: following commits, storing progress, maintenance, saying that it is here."""

from __future__ import annotations

import contextlib
import logging
import random
import threading
from collections.abc import Callable, Iterable, Iterator

from tenure import flow
from tenure.context import Hold, boottime
from tenure.errors import TenureError
from tenure.flow import Program, Settled
from tenure.leases import DEFAULT_LEASE, LeaseClass

log = logging.getLogger("tenure.worker")
TICK_S = 1.0
REPORT_S = 0.25


class Repeating:
    """A thread that calls `run_once` again and again, at most `every_s` apart, sooner when woken."""

    def __init__(self, name: str, every_s: float, run_once: Callable[[], None], program: Program) -> None:
        self._name = name
        self._every_s = every_s
        self._run_once = run_once
        self._program = program
        self._woken = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts the thread; again is fine."""
        if self._thread is None:
            self._stopping = False
            self._woken.set()  # the first pass is at once
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Ends the thread; again is fine."""
        self._stopping = True
        self._woken.set()
        if self._thread is not None:
            self._thread.join(timeout=10)
            self._thread = None

    def wake(self) -> None:
        self._woken.set()

    def _run(self) -> None:
        self._program.database.wakeup.coalesce()
        while not self._stopping:
            self._woken.wait(self._every_s * random.uniform(0.8, 1.2))
            self._woken.clear()
            try:
                self._run_once()
            except TenureError as error:
                log.warning("%s failed: %s", self._name, error, extra={"error": type(error).__name__})
            except Exception:  # the loop must outlive whatever one pass meets
                log.exception("%s failed", self._name)


class Follower:
    """Follows settlements to where nothing more is ready, and stores the latest progress of running tools.

    In a thread of its own, because approval functions are users' code and may take their time.
    """

    def __init__(self, program: Program, owner: str, holds: Callable[[], list[Hold]]) -> None:
        self._program = program
        self._owner = owner
        self._holds = holds
        self._guard = threading.Lock()
        self._todo = Settled()
        self.loop = Repeating("tenure-follow", REPORT_S, self.run_once, program)

    def add(self, settled: Settled) -> None:
        """What was settled is to be followed, soon."""
        if settled.turns or settled.keys:
            with self._guard:
                self._todo.add(settled)
            self.loop.wake()

    def run_once(self) -> None:
        """One pass: follow what there is, report what changed."""
        with self._guard:
            todo, self._todo = self._todo, Settled()
        if todo.turns or todo.keys:
            flow.follow(self._program, todo)
        self._report()

    def _report(self) -> None:
        news = {}
        for hold in self._holds():
            value, hold.progress = hold.progress, None
            if value is not None and hold.stop is None:
                news[hold] = value
        if not news:
            return
        stored = flow.report(
            self._program, self._owner, {hold.lease.held: (hold.lease, value) for hold, value in news.items()}
        )
        now = boottime()
        for hold in news:
            if hold.lease.held in stored:
                hold.progressed_at = now


class Maintenance:
    """Rescue, expiry and whatever a crash left undone: guarded, so that every worker may run it."""

    def __init__(self, program: Program, lease_classes: Iterable[LeaseClass]) -> None:
        self._program = program
        listed = list(lease_classes) or [DEFAULT_LEASE]
        self._gone_s = min(each.lease for each in listed)
        self._quiet_s = max(each.heartbeat for each in listed)
        self._here_at: float | None = None
        self._quiet_until = 0.0
        self.loop = Repeating("tenure-maintenance", TICK_S, self.run_once, program)

    def run_once(self) -> None:
        """One pass, if it is this worker's turn."""
        # Asked again just before it judges: the process may have been stopped in between.
        if self._is_quiet() or not flow.take_sweep(self._program) or self._is_quiet():
            return
        flow.follow(self._program, flow.rescue(self._program))
        flow.maintain(self._program)

    def _is_quiet(self) -> bool:
        """A process that was away waits one heartbeat before it judges: it must return its own leases first, and so
        must others on the same machine."""
        now = boottime()
        if self._here_at is not None and now - self._here_at > self._gone_s:
            self._quiet_until = now + self._quiet_s
        self._here_at = now
        return now < self._quiet_until


@contextlib.contextmanager
def tolerated(doing: str) -> Iterator[None]:
    """The way out of a stopping worker: what fails is logged, and the next step is taken."""
    try:
        yield
    except Exception:
        log.exception("failed while %s", doing)
