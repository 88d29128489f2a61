"""Keys: whoever waits at a limit or a slot, in any order of arrivals, ends, losses and holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tenure import flow
from tenure.canon import uuid7
from tenure.db.clock import now
from tenure.db.schema import background_jobs
from tenure.errors import StateConflict
from tenure.flow import Completed, Failed, Released, Settled, Settlement
from tenure.records import Lease, NewJob, RowKey
from tenure.states import JobStatus
from tenure.store import jobs, keys
from tests.flow.opened import flow_database as flow_database
from tests.flow.opened import kept_databases as kept_databases
from tests.flow.opened import world as world
from tests.flow.world import TENANT, World
from tests.machine.worlds import empty, outcome, run

PLACES = {
    "limit/limited": 2,
    "limit/fair": 3,
    "limit/fair/user/a": 1,
    "limit/fair/user/b": 1,
    "slot/p/output": 1,
    "slot/q/output": 1,
}
NEEDS = {
    "limited": ["limit/limited"],
    "fair a": ["limit/fair", "limit/fair/user/a"],
    "fair b": ["limit/fair", "limit/fair/user/b"],
    "writer p": ["slot/p/output"],
    "writer q": ["slot/q/output"],
    "both": ["limit/limited", "slot/p/output"],
}
ENDINGS: dict[str, Any] = {
    "completed": Completed("1"),
    "failed": Failed("x", "x", "terminal"),
    "retry": Failed("x", "x", "retryable", 5.0),
    "released": Released("released"),
}
PICK = st.integers(0, 99)


@dataclass
class Seen:
    """A job as it was after the last step."""

    needs: list[str]
    status: str = "queued"
    blocked_by: str | None = None
    has_slot: bool = False
    is_due: bool = True


class KeyMachine(RuleBasedStateMachine):
    world: World

    def __init__(self) -> None:
        super().__init__()
        empty(self.world.database)
        self.needs: dict[str, list[str]] = {}
        self.order: list[str] = []
        self.expected: dict[str, str] = {}
        self.leases: list[Lease] = []
        self.held: set[str] = set()
        self.before: dict[str, Seen] = {}

    @initialize()
    def make_keys(self) -> None:
        places = {keys.place(TENANT, key): number for key, number in PLACES.items()}
        self.world.database.write(lambda tx: keys.ensure(tx, places))

    # -- steps ---------------------------------------------------------------------------------------------------------

    @rule(kind=st.sampled_from(sorted(NEEDS)), number=st.integers(1, 3))
    def arrive(self, kind: str, number: int) -> None:
        needs = NEEDS[kind]
        new = [_new(kind.split()[0], needs) for _ in range(number)]
        self.world.database.write(lambda tx: jobs.insert(tx, new))
        for job in new:
            self.needs[job.job_id], self.expected[job.job_id] = needs, "queued"
        self._follow(set(needs))

    @rule(number=st.integers(1, 4))
    def claim(self, number: int) -> None:
        for lease in self.world.worker.claim(number):
            assert self.before[lease.job_id].blocked_by is None, "a job was handed out that waits at a key"
            self.expected[lease.job_id] = "running"
            self.leases.append(lease)

    @precondition(lambda self: self.leases)
    @rule(pick=PICK, how=st.sampled_from(sorted(ENDINGS)))
    def settle(self, pick: int, how: str) -> None:
        lease = self.leases.pop(pick % len(self.leases))
        settled = flow.settle(self.world.program, "w1", [Settlement(lease, ENDINGS[how])])
        assert settled.accepted == {lease.held}
        cancelled = self.expected[lease.job_id] == "cancelling"
        again = "queued" if how in ("retry", "released") else how
        self.expected[lease.job_id] = "cancelled" if cancelled else again
        self._follow(set(self.needs[lease.job_id]))

    @precondition(lambda self: self.leases)
    @rule()
    def lose_all(self) -> None:
        self.world.clock.advance("91s")
        flow.rescue(self.world.program)
        for lease in self.leases:
            cancelled = self.expected[lease.job_id] == "cancelling"
            self.expected[lease.job_id] = "cancelled" if cancelled else "queued"
        self.leases.clear()
        self._follow(set())

    @precondition(lambda self: self.needs)
    @rule(pick=PICK)
    def cancel(self, pick: int) -> None:
        job_id = sorted(self.needs)[pick % len(self.needs)]
        key = RowKey(TENANT, job_id)
        settled = outcome(lambda: flow.cancel_job(self.world.program, key, "anna"), StateConflict)
        if isinstance(settled, StateConflict):
            assert settled.state == self.expected[job_id]
            return
        self.expected[job_id] = "cancelled" if self.expected[job_id] == "queued" else "cancelling"
        self._follow({key.id for key in settled.keys})

    @rule(key=st.sampled_from(sorted(PLACES)))
    def hold_or_resume(self, key: str) -> None:
        row = keys.place(TENANT, key)
        if key in self.held:
            self.held.remove(key)
            assert self.world.database.write(lambda tx: keys.resume(tx, row))
            self._follow({key})
        else:
            assert self.world.database.write(lambda tx: keys.hold(tx, row, "operator", "because"))
            self.held.add(key)

    @rule()
    def become_due(self) -> None:
        self.world.clock.advance("6s")
        self._follow(set())

    def _follow(self, freed: set[str]) -> None:
        """At once at the keys that came free, and then as maintenance does, until nothing moves."""
        flow.follow(self.world.program, Settled(keys={keys.place(TENANT, key) for key in freed}))
        while True:
            waiting = self.world.database.read(lambda tx: keys.blocking(tx, 100))
            if not flow.admit(self.world.program, waiting):
                return

    # -- what must hold ------------------------------------------------------------------------------------------------

    @invariant()
    def keys_are_kept(self) -> None:
        seen = self._seen()
        holders = {key: {job for job, row in seen.items() if _holds(row, key)} for key in PLACES}
        for key, places in PLACES.items():
            assert len(holders[key]) <= places, f"{key} has {len(holders[key])} holders"
            if key in self.held:
                grown = holders[key] - {job for job, row in self.before.items() if _holds(row, key)}
                assert not grown, f"{key} was held by a person and admitted {grown}"
        for job, row in seen.items():
            self._check_waiter(job, row, holders)
            earlier = self.before.get(job)
            if earlier is not None and earlier.has_slot and row.status in ("queued", "running"):
                assert row.has_slot, f"{job} lost its slot while it lived"
        self._check_order(seen)
        assert {job: row.status for job, row in seen.items()} == {
            job: "running" if status == "cancelling" else status for job, status in self.expected.items()
        }
        self.before = seen

    def _check_waiter(self, job: str, row: Seen, holders: dict[str, set[str]]) -> None:
        if row.blocked_by is None:
            return
        assert row.status == "queued"
        assert row.blocked_by in row.needs
        missing = [key for key in row.needs if not (row.has_slot and key.startswith("slot/"))]
        if row.is_due:
            taken = [key for key in missing if key in self.held or len(holders[key]) >= PLACES[key]]
            assert taken, f"{job} waits although every key has room"

    def _check_order(self, seen: dict[str, Seen]) -> None:
        """Among those that were waiting for the same keys and due before, the older is never passed."""
        groups: dict[tuple[str, ...], list[str]] = {}
        for job in self.order:
            row, earlier = seen[job], self.before.get(job)
            if earlier is not None and earlier.blocked_by is not None and earlier.is_due and row.status == "queued":
                groups.setdefault((*row.needs, str(row.has_slot)), []).append(job)
        for group in groups.values():
            waits = [seen[job].blocked_by is not None for job in group]
            assert waits == sorted(waits), f"a younger job passed an older one: {group}"

    def _seen(self) -> dict[str, Seen]:
        rows = self.world.database.read(lambda tx: tx.rows(_ROWS))
        self.order = [row.job_id for row in rows]
        return {
            row.job_id: Seen(
                self.needs[row.job_id], str(row.status), row.blocked_by, row.slot_held_at is not None, bool(row.due)
            )
            for row in rows
        }


_j = background_jobs.c
_ROWS = sa.select(_j.job_id, _j.status, _j.blocked_by, _j.slot_held_at, (_j.claim_at <= now()).label("due")).order_by(
    _j.claim_at, _j.job_id
)


def _holds(row: Seen, key: str) -> bool:
    if key not in row.needs:
        return False
    if key.startswith("slot/"):
        return row.has_slot
    return row.blocked_by is None and row.status in (JobStatus.QUEUED, JobStatus.RUNNING)


def _new(tool: str, needs: list[str]) -> NewJob:
    named: dict[str, Any] = {}
    for key in needs:
        column = "slot_key" if key.startswith("slot/") else "user_limit_key" if "/user/" in key else "limit_key"
        named[column] = key
    return NewJob(TENANT, uuid7(), tool, {}, max_attempts=1000, max_runtime_s=1e8, **named)


@pytest.mark.timeout(300)
def test_keys(world: World) -> None:
    for tool in ("limited", "fair", "writer", "both"):
        world.tool(tool)
    world.worker.lease_s = 90.0
    run(KeyMachine, world)
    empty(world.database)
