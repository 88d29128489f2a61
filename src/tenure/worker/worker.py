"""The worker: claim → begin → run → settle, in batches; and a shutdown that loses nothing."""

from __future__ import annotations

import contextlib
import logging
import math
import random
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tenure import flow
from tenure.canon import name as checked_name
from tenure.context import Attempt, Hold, Stop, boottime
from tenure.errors import CommitUnknown, DatabaseError
from tenure.flow import PLAN, Outcome, Program
from tenure.leases import DEFAULT_LEASE, LeaseClass
from tenure.records import Held, Lease
from tenure.store import claims
from tenure.tools import ToolSpec
from tenure.worker.background import Follower, Maintenance, tolerated
from tenure.worker.executor import bounded, of_stop, perform, perform_async
from tenure.worker.isolation import Lifetime, Loop, Threads
from tenure.worker.keeper import Keeper
from tenure.worker.presence import Presence
from tenure.worker.process import Processes, importable
from tenure.worker.settling import settle

log = logging.getLogger("tenure.worker")
PLAN_TIMEOUT_S = 600.0
MOST_CLAIMED = 200
RECOVERY_S = 2.0
UNWIND_S = 3.0
AWAY_DELAY_S = 1.0  # what was told to stop here should have ended before this worker claims it again
Lifespan = Callable[[], contextlib.AbstractAsyncContextManager[Any]]


class Worker:
    """Runs the program's tools. `slots`: attempts at a time; `only` and `without` narrow the tools that it offers."""

    def __init__(
        self,
        program: Program,
        *,
        name: str = "worker",
        slots: int = 10,
        only: Iterable[str] | None = None,
        without: Iterable[str] = (),
        lifespan: Lifespan | None = None,
    ) -> None:
        self.program = program
        self.name = checked_name(name, "worker name")
        self.owner = f"{self.name}:{secrets.token_hex(6)}"
        self.slots = slots
        self._leases = _lease_classes(program, only, without)
        self._state: Any = None
        self._claiming = program.database.keep()
        self._keeper = Keeper(program.database, self.owner, self._stopped)
        self._follower = Follower(program, self.owner, self._keeper.holds)
        self._maintenance = Maintenance(program, self._leases.values())
        self._presence = Presence(program, self)
        self._loop, self._threads, self._processes = Loop(), Threads(), Processes()
        self._lifetime = None if lifespan is None else Lifetime(self._loop, lifespan)
        self._running: dict[Held, Hold] = {}
        self._on_loop: dict[Held, Any] = {}
        self._finished: deque[tuple[Hold, Outcome]] = deque()
        self._woken = threading.Event()
        self._draining = self._ended = False
        self._passing = threading.Lock()  # held from the claim until what was claimed is known here
        self._suspect_ghosts = False
        self._ghosts_seen_at = 0.0
        self._away: list[Held] = []
        self._thread: threading.Thread | None = None

    # -- the faces of a background thing -------------------------------------------------------------------------------

    @property
    def tools(self) -> list[str]:
        """The names under which it claims."""
        return sorted(self._leases)

    @property
    def busy(self) -> int:
        return len(self._running)

    @property
    def stuck_threads(self) -> int:
        """Threads whose attempt is over and which have not returned."""
        holds = [hold for held, hold in list(self._running.items()) if held not in self._on_loop]
        return sum(hold.stop in ("timeout", "lost", "away") for hold in holds if hold.started_at < math.inf)

    @property
    def status(self) -> str:
        if self._ended:
            return "stopped"
        return "draining" if self._draining else "running"

    def start(self) -> None:
        """Starts to claim and run; again is fine."""
        if self._thread is not None:
            return
        if self._lifetime is not None:
            self._state = self._lifetime.open()
        flow.declare_limits(self.program)
        self._keeper.start()
        self._presence.loop.start()
        self._follower.loop.start()
        self._maintenance.loop.start()
        self.program.database.wakeup.subscribe(self._woken.set)
        self._thread = threading.Thread(target=self._run, name="tenure-worker", daemon=True)
        self._thread.start()

    def drain(self) -> None:
        """Stops claiming; what runs goes on, and is renewed, until `stop`."""
        self._draining = True
        self._presence.loop.wake()

    def stop(self, grace_s: float = 30.0) -> None:
        """Stops claiming, lets running tools end within the grace, gives back the rest; again is fine.

        Leases are renewed until the last settlement is answered. A thread that still runs then has lost its job: its
        late result is fenced out.
        """
        if self._ended or self._thread is None:
            return
        self.drain()
        if self._passing.acquire(timeout=max(grace_s, UNWIND_S)):  # what is being claimed now is ours to give back
            self._passing.release()
        self._wait_idle(grace_s)
        for hold in list(self._running.values()):
            if hold.end("shutdown"):
                self._stopped(hold, "shutdown")
        self._wait_idle(UNWIND_S if self._running else 0.0)
        self._give_back_running()
        self._ended = True
        self._woken.set()
        self._thread.join(timeout=10)
        self._close()

    def _wait_idle(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (self._running or self._finished) and time.monotonic() < until:
            time.sleep(0.02)

    def _give_back_running(self) -> None:
        """The last act for threads that do not return: their jobs are free at once, the attempt refunded."""
        rest = [hold for hold in list(self._running.values()) if not hold.released]
        for hold in rest:
            hold.released = True
        if rest:
            with tolerated("giving back"):
                pairs = [hold.lease.held for hold in rest]
                flow.follow(self.program, flow.give_back(self.program, self.owner, pairs, "released"))

    def _close(self) -> None:
        self.program.database.wakeup.unsubscribe(self._woken.set)
        self._maintenance.loop.stop()
        self._follower.loop.stop()
        with tolerated("following"):
            self._follower.run_once()
        self._presence.loop.stop()
        with tolerated("saying goodbye"):
            self._presence.run_once()
        self._keeper.stop()
        if self._lifetime is not None:
            with tolerated("closing the lifespan"):
                self._lifetime.close(10)
        self._loop.stop()
        self._threads.stop()
        self._processes.stop()
        self._claiming.close()
        self._thread = None

    # -- the control thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        self.program.database.wakeup.coalesce()
        poll_s = self.program.settings.poll_s
        while not self._ended:
            self._woken.clear()
            try:
                more = self.run_once()
            except DatabaseError as error:
                log.warning("database: %s", error, extra={"error": type(error).__name__})
                self._suspect_ghosts = True
                time.sleep(random.uniform(0.2, RECOVERY_S))
                continue
            except Exception:  # a fault of ours must not end the only loop that settles
                log.exception("worker loop failed")
                time.sleep(RECOVERY_S)
                continue
            if not more:
                self._woken.wait(poll_s * random.uniform(0.75, 1.25))

    def run_once(self) -> bool:
        """Settles what has ended, claims what there is room for; whether there may be more to claim at once."""
        self._settle()
        self._stop_overdue()
        self._return_away()
        self._look_for_ghosts()
        if self._draining:
            return False
        room = min(self.slots - len(self._running), MOST_CLAIMED)
        if room < 1:
            self._hint_others()
            return False
        with self._passing:
            if self.status != "running":
                return False
            sent_at = boottime()
            claimed = self._claim(room)
            if claimed:
                self._start(claimed, sent_at)
        self._hint_others()
        return len(claimed) == room

    def _hint_others(self) -> None:
        """What it made claimable and will not claim itself, it tells the others about."""
        wakeup = self.program.database.wakeup
        full = len(self._running) >= self.slots
        if (full or len(self._leases) < len(self.program.tools.names()) + 1) and wakeup.take_owed():
            wakeup.hint()

    # -- claiming ------------------------------------------------------------------------------------------------------

    def _claim(self, room: int) -> list[Lease]:
        seconds = {tool: lease_class.lease for tool, lease_class in self._leases.items()}
        try:
            return self._claiming.single(lambda tx: claims.claim(tx, self.owner, seconds, room))
        except CommitUnknown:
            self._suspect_ghosts = True
            raise

    def _start(self, leases: Sequence[Lease], sent_at: float) -> None:
        here = {held[:2] for held in self._running}
        twins = [lease for lease in leases if (lease.tenant_id, lease.job_id) in here]
        # A claim that came back expired is not started: rescue ends it.
        startable = [lease for lease in leases if lease.remaining_s > 0 and lease not in twins]
        holds = [self._hold(lease, sent_at) for lease in startable]
        self._keeper.add(holds)
        for hold in holds:
            self._running[hold.lease.held] = hold
        ready = self._begun(holds)
        on_loop = []
        for hold in ready:
            spec = None if hold.lease.tool == PLAN else self.program.tools.get(hold.lease.tool)
            attempt = Attempt(self.program, self.owner, hold, self._state)
            if spec is not None and spec.isolation == "async":
                hold.await_start()
                on_loop.append((attempt, spec))
            else:
                self._threads.run(lambda attempt=attempt, spec=spec: self._run_here(attempt, spec))  # type: ignore[misc]
        if on_loop:
            self._loop.call(self._start_on_loop, on_loop)
        if twins:
            self._refuse(twins)

    def _refuse(self, twins: Sequence[Lease]) -> None:
        """Jobs whose lost attempt still runs here: given back, due again when another worker has had time to claim."""
        for lease in twins:
            log.error("claimed a job that still runs here", extra={"job_id": lease.job_id})
        delay_s = min(self._leases[lease.tool].heartbeat for lease in twins)
        pairs = [lease.held for lease in twins]
        self._follower.add(flow.give_back(self.program, self.owner, pairs, "ghost", delay_s))

    def _hold(self, lease: Lease, sent_at: float) -> Hold:
        return Hold(lease, self._leases[lease.tool], sent_at, self._keeper.changed)

    def _begun(self, holds: Sequence[Hold]) -> list[Hold]:
        """The holds whose attempt may run now. Jobs of turns begin with a guarded write of their own."""
        of_turns = [hold.lease for hold in holds if not hold.lease.is_bare]
        if not of_turns:
            return list(holds)
        try:
            begun = flow.begin(self.program, self.owner, of_turns).begun
        except BaseException:
            self._forget([hold.lease.held for hold in holds])  # all of the batch come back as ghost claims
            self._suspect_ghosts = True
            raise
        self._forget([lease.held for lease in of_turns if lease.held not in begun])
        return [hold for hold in holds if hold.lease.is_bare or hold.lease.held in begun]

    def _look_for_ghosts(self) -> None:
        """Running rows of this owner that it never received: after a claim without an answer, and once a lease term."""
        now = boottime()
        term = min((lease_class.lease for lease_class in self._leases.values()), default=DEFAULT_LEASE.lease)
        if not self._suspect_ghosts and now - self._ghosts_seen_at < term:
            return
        held = self.program.database.read(lambda tx: claims.held_by(tx, self.owner))
        ghosts = [pair for pair in held if not self._keeper.knows(pair)]
        if ghosts:
            log.warning("%d claims were never received; giving them back", len(ghosts))
            self._follower.add(flow.give_back(self.program, self.owner, ghosts, "ghost"))
        self._suspect_ghosts, self._ghosts_seen_at = False, now

    # -- running -------------------------------------------------------------------------------------------------------

    def _start_on_loop(self, attempts: Sequence[tuple[Attempt, ToolSpec]]) -> None:
        for attempt, spec in attempts:
            held = attempt.lease.held
            self._on_loop[held] = self._loop.loop.create_task(self._run_on_loop(attempt, spec))

    async def _run_on_loop(self, attempt: Attempt, spec: ToolSpec) -> None:
        # The loop may have been blocked for so long that the attempt was over before it began.
        attempt.hold.start()
        stopped = of_stop(attempt.hold, attempt.hold.stop) if attempt.hold.stop is not None else None
        self._finish(attempt.hold, stopped or await perform_async(attempt, spec))

    def _run_here(self, attempt: Attempt, spec: ToolSpec | None) -> None:
        if spec is not None and spec.isolation == "process":
            outcome = self._processes.perform(attempt, spec)
        else:
            outcome = perform(attempt, spec)
        self._finish(attempt.hold, outcome)

    def _finish(self, hold: Hold, outcome: Outcome) -> None:
        self._finished.append((hold, bounded(outcome, self.program.settings.max_input_bytes)))
        self._woken.set()

    def _stopped(self, hold: Hold, why: Stop) -> None:
        """The attempt must end: an async tool is cancelled, a process is killed by its thread, a thread is told."""
        if why == "away":
            self._away.append(hold.lease.held)
        started = self._on_loop.get(hold.lease.held)
        if started is not None:
            self._loop.call(started.cancel)
        self._woken.set()

    def _stop_overdue(self) -> None:
        now = boottime()
        for hold in list(self._running.values()):
            if hold.stop is None and self._is_overdue(hold, now) and hold.end("timeout"):
                self._stopped(hold, "timeout")

    def _is_overdue(self, hold: Hold, now: float) -> bool:
        if hold.lease.tool == PLAN:
            return now - hold.started_at > PLAN_TIMEOUT_S
        spec = self.program.tools.get(hold.lease.tool)
        idle = spec.idle_timeout_s is not None and now - hold.progressed_at > spec.idle_timeout_s
        return idle or now - hold.started_at > spec.timeout_s

    def _return_away(self) -> None:
        """What still runs under our tokens after the process was away is given back, expired or not."""
        pairs = list(self._away)
        if not pairs:
            return
        try:
            self._follower.add(flow.give_back(self.program, self.owner, pairs, "away", AWAY_DELAY_S))
        except DatabaseError:
            raise  # tried again: a database that is still away keeps nobody from its refund
        except Exception:  # rescue ends what cannot be returned
            log.exception("what was away could not be given back")
        del self._away[: len(pairs)]

    # -- settling ------------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        ended = [self._finished.popleft() for _ in range(min(len(self._finished), MOST_CLAIMED))]
        if not ended:
            return
        try:
            settled = settle(self.program, self.owner, ended, self._claiming)
        except DatabaseError:
            self._finished.extendleft(reversed(ended))  # still renewed; tried again when the database is back
            raise
        self._forget([hold.lease.held for hold, _ in ended])
        self._follower.add(settled)
        self.program.database.wakeup.changed()
        for held in settled.rejected:
            log.warning("result_rejected", extra={"job_id": held.job_id, "fencing_token": held.fencing_token})

    def _forget(self, pairs: Iterable[Held]) -> None:
        listed = list(pairs)
        self._keeper.remove(listed)
        for pair in listed:
            self._running.pop(pair, None)
            self._on_loop.pop(pair, None)


def _lease_classes(program: Program, only: Iterable[str] | None, without: Iterable[str]) -> dict[str, LeaseClass]:
    """The lease class of every name that the worker claims under. SettingsError, NotFound."""
    offered = {name: program.tools.get(name).lease for name in program.tools.names()}
    chosen = set(offered) if only is None else {program.tools.get(name).name for name in only}
    left_out = {program.tools.get(name).name for name in without}
    classes = {
        name: lease_class
        for name, lease_class in offered.items()
        if (spec := program.tools.get(name).name) in chosen and spec not in left_out
    }
    if only is None:
        classes[PLAN] = DEFAULT_LEASE
    for name, lease_class in classes.items():
        lease_class.check(f"tool {name!r}")
        if name != PLAN and program.tools.get(name).isolation == "process":
            importable(program.tools.get(name))
    return classes
