"""A worker without threads and without a clock of its own: each step happens when a test says so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tenure import flow
from tenure.flow import PLAN, Completed, Failed, Outcome, Planned, Program, Settled, Settlement
from tenure.leases import retry_delay
from tenure.payload import classify
from tenure.records import Lease
from tenure.store import claims
from tenure.testing.killing import KillPoints


@dataclass(frozen=True, slots=True)
class _Vanish:
    """The attempt never returns: its process died, and its lease runs out."""


VANISH = _Vanish()
Ending = Outcome | BaseException | _Vanish
Scripted = Ending | Callable[[Lease], Ending]


@dataclass(slots=True)
class Driver:
    """Claims, begins, runs, settles and follows in this thread; tools run inline, a planner is asked inline.

    `script` replaces what a tool (by name; `flow.PLAN` is the planner) ends with: its attempts take the scripted
    endings one by one, then the tool runs again. Back-off is the whole of what full jitter may choose, so that it is
    the same in every run.
    """

    program: Program
    owner: str = "w1"
    batch: int = 10
    lease_s: float = 90.0
    points: KillPoints | None = None
    tools: Iterable[str] | None = None
    script: dict[str, list[Scripted]] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)

    def on(self, tool: str, *endings: Scripted) -> Driver:
        """The next attempts of the tool end so."""
        self.script.setdefault(tool, []).extend(endings)
        return self

    # -- a whole worker ------------------------------------------------------------------------------------------------

    def drain(self, most: int = 200) -> int:
        """Steps until nothing is claimable; returns how many attempts ran. AssertionError when it never ends."""
        total, leases = 0, self._found()
        for _ in range(most):
            if not leases:
                return total
            self.work(leases)
            total += len(leases)
            leases = self.claim() or self._found()
        raise AssertionError(f"still busy after {most} steps: {self.ran[-10:]}")

    def _found(self) -> list[Lease]:
        self.maintain()
        return self.claim()

    def step(self) -> int:
        """Maintenance, then one batch; returns how many jobs were claimed."""
        leases = self._found()
        self.work(leases)
        return len(leases)

    def maintain(self) -> None:
        """Rescues what nobody renewed and goes on with whatever a crash left undone."""
        self.follow(flow.rescue(self.program))
        flow.maintain(self.program)

    def work(self, leases: Iterable[Lease]) -> Settled:
        """Begins claimed jobs, runs them, settles them together and follows the settlement."""
        ended = [ended for lease in self.begin(leases) if (ended := self.run(lease)) is not None]
        settled = self.settle(ended)
        self.follow(settled)
        return settled

    # -- its steps -----------------------------------------------------------------------------------------------------

    def claim(self, count: int | None = None) -> list[Lease]:
        """Claims what is due, oldest first."""
        names = [*self.program.tools.names(), PLAN] if self.tools is None else self.tools
        offered: Mapping[str, float] = dict.fromkeys(names, self.lease_s)
        database = self.program.database
        return database.single(lambda tx: claims.claim(tx, self.owner, offered, count or self.batch))

    def begin(self, leases: Iterable[Lease]) -> list[Lease]:
        """The leases that may run: all bare ones, and those of turns that began."""
        listed = list(leases)
        of_turns = [lease for lease in listed if not lease.is_bare]
        begun = flow.begin(self.program, self.owner, of_turns).begun if of_turns else frozenset()
        return [lease for lease in listed if lease.is_bare or lease.held in begun]

    def run(self, lease: Lease) -> Settlement | None:
        """One attempt; None when it vanished."""
        self._reach("before", lease.tool)
        self.ran.append(lease.tool)
        outcome = self._scripted(lease)
        self._reach("after", lease.tool)
        return None if isinstance(outcome, _Vanish) else Settlement(lease, outcome)

    def settle(self, ended: Iterable[Settlement]) -> Settled:
        """Ends leases together, each judged on its own."""
        listed = list(ended)
        return flow.settle(self.program, self.owner, listed) if listed else Settled()

    def follow(self, settled: Settled) -> None:
        """What comes after a commit."""
        flow.follow(self.program, settled)

    # -- one attempt ---------------------------------------------------------------------------------------------------

    def _scripted(self, lease: Lease) -> Outcome | _Vanish:
        queue = self.script.get(lease.tool)
        ending: Any = queue.pop(0) if queue else self.perform
        if callable(ending):
            ending = ending(lease)
        return failed(ending, lease.attempt) if isinstance(ending, BaseException) else ending

    def perform(self, lease: Lease) -> Outcome | BaseException:
        """Runs the tool, or asks the planner, and returns how that ended."""
        try:
            return self._planned(lease) if lease.tool == PLAN else self._completed(lease)
        except Exception as error:  # noqa: BLE001  (whatever a user's tool raises is an ending)
            return error

    def _planned(self, lease: Lease) -> Planned:
        return flow.ask(self.program, lease)

    def _completed(self, lease: Lease) -> Completed:
        spec = self.program.tools.get(lease.tool)
        return Completed(spec.encoded(spec.fn(**spec.bound(lease.input))))

    def _reach(self, when: str, tool: str) -> None:
        if self.points is not None:
            self.points.reach(when, f"tool {tool}")


def failed(error: BaseException, attempt: int) -> Failed:
    """The outcome that an exception amounts to, with the longest back-off that jitter may choose."""
    found = classify(error)
    delay_s = retry_delay(attempt, random=lambda: 1.0) if found.retry_after is None else found.retry_after
    return Failed(found.code, found.text, found.kind, delay_s, found.charge, note=found.note)
