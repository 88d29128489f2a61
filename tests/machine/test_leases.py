"""Leases: the store against a model of the protocol, in any order of claims, losses, settlements and rescues.

The clock stands still between steps, so that the model knows every instant exactly. After each step every row of the
table must be what the model says, to the second.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tenure.canon import uuid7
from tenure.db.schema import background_jobs, job_attempts
from tenure.leases import refund_granted
from tenure.records import Held, Job, Lease, NewJob, RowKey
from tenure.states import JobStatus
from tenure.store import claims, endings, holding, jobs, journal
from tenure.store.endings import Ending
from tenure.store.journal import Entry
from tests.opened import FROZEN_AT, Clock

LEASES = {"a": 30.0, "b": 50.0}
MAX_RUNTIME_S = 100.0
WORKERS = ("w1", "w2")
PICK = st.integers(0, 99)
CODES = {"retry": "failed", "released": "released", "failed": "failed", "away": "away", "ghost": "ghost"}


@dataclass
class Modelled:
    """A job as the protocol says that it must be; instants in seconds since the start."""

    tool: str
    max_attempts: int
    claim_at: float
    status: str = "queued"
    attempt: int = 0
    refunds: int = 0
    owner: str | None = None
    token: int | None = None
    expires: float | None = None
    first_claim: float | None = None
    cancel: bool = False
    progress_seq: int = 0

    def holds(self, owner: str, token: int, now: float) -> bool:
        return self.runs_under(owner, token) and self.expires is not None and self.expires > now

    def runs_under(self, owner: str, token: int) -> bool:
        return (self.status, self.owner, self.token) == ("running", owner, token)

    def lease_from(self, now: float) -> float:
        assert self.first_claim is not None
        return min(now + LEASES[self.tool], self.first_claim + MAX_RUNTIME_S)


@dataclass
class Worker:
    """What a worker believes that it holds: it forgets nothing by itself, so much of it is stale."""

    name: str
    pairs: set[Held] = field(default_factory=set)


def someone_believes(machine: Any) -> bool:
    return any(worker.pairs for worker in machine.workers.values())


class LeaseMachine(RuleBasedStateMachine):
    clock: Clock

    def __init__(self) -> None:
        self.jobs: dict[str, Modelled] = {}
        self.workers = {name: Worker(name) for name in WORKERS}
        super().__init__()
        self.database = self.clock.database
        self.database.write(lambda tx: [tx.execute(sa.delete(table)) for table in (job_attempts, background_jobs)])
        self.clock.reset(FROZEN_AT)
        self.now = 0.0
        self.handed_out: set[tuple[str, int]] = set()
        self.ended: dict[tuple[str, int], str] = {}
        self.rejected: set[tuple[str, int]] = set()
        self.last_token = 0

    @initialize(tools=st.text("ab", min_size=3, max_size=8), max_attempts=st.integers(1, 3), count=st.integers(0, 4))
    def begin(self, tools: str, max_attempts: int, count: int) -> None:
        """Each run has something to lose, whichever rules it happens to do without."""
        self.insert(tools, max_attempts, 0, None)
        self._claim("w1", "ab", count, received=True)

    # -- time and creation ---------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([1.0, 5.0, 10.0, 30.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.now += seconds

    @rule(
        tools=st.text("ab", min_size=1, max_size=4),
        max_attempts=st.integers(1, 3),
        priority=st.integers(0, 2),
        due_in_s=st.sampled_from([None, None, 0.0, 10.0]),
    )
    def create(self, tools: str, max_attempts: int, priority: int, due_in_s: float | None) -> None:
        self.insert(tools, max_attempts, priority, due_in_s)

    def insert(self, tools: str, max_attempts: int, priority: int, due_in_s: float | None) -> None:
        how = {"priority": priority, "due_in_s": due_in_s}
        new = [NewJob("t", uuid7(), tool, {}, max_attempts, MAX_RUNTIME_S, **how) for tool in tools]  # type: ignore[arg-type]
        assert self.database.write(lambda tx: jobs.insert(tx, new)) == {RowKey("t", job.job_id) for job in new}
        due = -60.0 * priority if due_in_s is None else due_in_s
        self.jobs |= {job.job_id: Modelled(job.tool, max_attempts, self.now + due) for job in new}

    # -- claims --------------------------------------------------------------------------------------------------------

    @rule(
        name=st.sampled_from(WORKERS),
        tools=st.sampled_from(["a", "b", "ab"]),
        count=st.integers(1, 3),
        received=st.sampled_from([True, True, True, False]),
    )
    def claim(self, name: str, tools: str, count: int, received: bool) -> None:
        self._claim(name, tools, count, received)

    @rule(name=st.sampled_from(WORKERS))
    @precondition(lambda self: any(self._due("ab")))
    def claim_all(self, name: str) -> None:
        self._claim(name, "ab", 5, received=True)

    def _due(self, tools: str) -> list[tuple[float, str]]:
        return sorted(
            (job.claim_at, job_id)
            for job_id, job in self.jobs.items()
            if job.status == "queued" and job.tool in tools and job.claim_at <= self.now
        )

    def _claim(self, name: str, tools: str, count: int, received: bool) -> None:
        offered = {tool: LEASES[tool] for tool in tools}
        leases = self.database.single(lambda tx: claims.claim(tx, name, offered, count))
        assert [lease.job_id for lease in leases] == [job_id for _, job_id in self._due(tools)[:count]]
        tokens = [lease.fencing_token for lease in leases]
        assert not tokens or min(tokens) > self.last_token
        assert len(set(tokens)) == len(tokens)
        self.last_token = max([self.last_token, *tokens])
        for lease in leases:
            self._claimed(lease, name)
        if received:
            self.workers[name].pairs |= {lease.held for lease in leases}

    def _claimed(self, lease: Lease, name: str) -> None:
        pair = (lease.job_id, lease.fencing_token)
        assert pair not in self.handed_out
        self.handed_out.add(pair)
        job = self.jobs[lease.job_id]
        job.status, job.owner, job.token = "running", name, lease.fencing_token
        job.attempt += 1
        job.first_claim = self.now if job.first_claim is None else job.first_claim
        job.expires = job.lease_from(self.now)
        assert (lease.attempt, round(lease.remaining_s, 3)) == (job.attempt, job.expires - self.now)

    # -- while it is held ----------------------------------------------------------------------------------------------

    def _acting(self, pick: int) -> tuple[str, set[Held]]:
        """A worker that believes to hold something, and some of what it believes: all of it, or a single pair."""
        names = [name for name in WORKERS if self.workers[name].pairs]
        name = names[pick % len(names)]
        pairs = sorted(self.workers[name].pairs)
        return name, set(pairs) if pick % 2 else {pairs[pick % len(pairs)], pairs[-1]}

    def _true(self, name: str, pairs: Iterable[Held]) -> set[Held]:
        """Those of the pairs that the worker holds, live, according to the model."""
        return {pair for pair in pairs if self.jobs[pair.job_id].holds(name, pair.fencing_token, self.now)}

    @rule(pick=PICK)
    @precondition(someone_believes)
    def renew(self, pick: int) -> None:
        name, pairs = self._acting(pick)
        renewed = self.database.single(lambda tx: holding.renew(tx, name, pairs))
        assert {each.held for each in renewed} == self._true(name, pairs)
        for each in renewed:
            job = self.jobs[each.held.job_id]
            job.expires = job.lease_from(self.now)
            assert (round(each.remaining_s, 3), each.cancel_requested) == (job.expires - self.now, job.cancel)

    @rule(pick=PICK)
    @precondition(someone_believes)
    def report(self, pick: int) -> None:
        name, pairs = self._acting(pick)
        stored = self.database.single(lambda tx: holding.report(tx, name, {pair: {} for pair in pairs}))
        assert set(stored) == self._true(name, pairs)
        for held, seq in stored.items():
            self.jobs[held.job_id].progress_seq += 1
            assert seq == self.jobs[held.job_id].progress_seq

    @rule(pick=PICK)
    @precondition(someone_believes)
    def save_stage(self, pick: int) -> None:
        name, pairs = self._acting(pick)
        held = max(pairs)
        extended = self.database.write(lambda tx: holding.extend(tx, name, held))
        assert (extended is not None) == bool(self._true(name, [held]))
        if extended is not None:
            job = self.jobs[held.job_id]
            job.expires = job.lease_from(self.now)
            job.progress_seq += 1

    # -- endings -------------------------------------------------------------------------------------------------------

    @rule(pick=PICK)
    @precondition(someone_believes)
    def complete(self, pick: int) -> None:
        name, pairs = self._acting(pick)
        done = self.database.single(lambda tx: endings.complete_bare(tx, name, dict.fromkeys(pairs, "1")))
        assert done == {held for held in self._true(name, pairs) if not self.jobs[held.job_id].cancel}
        for held in done:
            self._end(held, "completed", "completed")
        self._reject(name, pairs - done - self._true(name, pairs))

    def _reject(self, name: str, late: set[Held]) -> None:
        """A result that came too late is in the journal and nowhere else; one's own settlement is found again."""
        found = self.database.read(lambda tx: endings.status_under(tx, late))
        rejected = {held for held in late if found.get(held) != JobStatus.COMPLETED}
        for held in late:
            completed = self.ended.get((held.job_id, held.fencing_token)) == "completed"
            assert (found.get(held) == JobStatus.COMPLETED) == completed
        entries = [Entry(held, "result_rejected", name, 1, result=1) for held in sorted(rejected)]
        self.database.write(lambda tx: journal.write(tx, entries))
        self.rejected |= {(held.job_id, held.fencing_token) for held in rejected}

    @rule(pick=PICK, how=st.sampled_from(["retry", "failed", "released"]), delay=st.sampled_from([0.0, 10.0]))
    @precondition(someone_believes)
    def settle(self, pick: int, how: str, delay: float) -> None:
        """Several in one transaction: the guard judges each."""
        name, pairs = self._acting(pick)

        def body(tx: Any) -> set[Held]:
            found = holding.guard(tx, name, pairs)
            made = [self._ending(job, how, delay) for job in found.values()]
            written = endings.apply(tx, made)
            journal.write(tx, [Entry(each.held, self._outcome(each, how), name, each.attempt) for each in made])
            return written

        true = self._true(name, pairs)
        assert self.database.write(body) == true
        for held in true:
            self._end_modelled(held, how, delay)

    def _ending(self, job: Job, how: str, delay: float) -> Ending:
        held = Held(job.tenant_id, job.job_id, job.fencing_token or 0)
        after, attempt, refunds = self._after(how, job.attempt, job.max_attempts, job.refunds, job.cancel_requested_at)
        code = None if after == "queued" else CODES.get(how, how)
        return Ending(held, JobStatus(after), attempt, refunds, due_in_s=delay, error_code=code)

    @staticmethod
    def _after(how: str, attempt: int, most: int, refunds: int, cancel: object) -> tuple[str, int, int]:
        """The protocol's rules 6, 8 and 23: the status, attempt and refunds after an ending of this kind."""
        if refund_granted(how, refunds):
            attempt, refunds = attempt - 1, refunds + 1
        if cancel:
            return "cancelled", attempt, refunds
        if how == "failed" or (attempt >= most and how in ("retry", "lease_expired", "released", "away", "ghost")):
            return "failed", attempt, refunds
        return "queued", attempt, refunds

    @staticmethod
    def _outcome(ending: Ending, how: str) -> str:
        if ending.status == "cancelled":
            return "cancelled"
        return {"ghost": "released"}.get(how, how)

    def _end_modelled(self, held: Held, how: str, delay: float) -> None:
        job = self.jobs[held.job_id]
        status, attempt, refunds = self._after(how, job.attempt, job.max_attempts, job.refunds, job.cancel)
        job.attempt, job.refunds = attempt, refunds
        if status == "queued":
            job.claim_at = self.now + delay
        self._end(held, status, how)

    def _end(self, held: Held, status: str, how: str) -> None:
        job = self.jobs[held.job_id]
        assert job.token == held.fencing_token
        pair = (held.job_id, held.fencing_token)
        assert pair not in self.ended, "an attempt ends once"
        self.ended[pair] = how
        job.status, job.expires = status, None

    # -- the other writers ---------------------------------------------------------------------------------------------

    @rule()
    def rescue(self) -> None:
        over = {
            job_id
            for job_id, job in self.jobs.items()
            if job.status == "running" and job.expires is not None and job.expires <= self.now
        }
        found = self.database.read(lambda tx: endings.expired(tx, 1000))
        assert {key.id for key in found} == over
        for key in found:
            assert self.database.write(lambda tx, key=key: self._rescue_one(tx, key))  # type: ignore[misc]
            assert self.database.write(lambda tx, key=key: self._rescue_one(tx, key)) is False  # type: ignore[misc]
            job = self.jobs[key.id]
            self._end_modelled(Held("t", key.id, job.token or 0), "lease_expired", 0.0)

    def _rescue_one(self, tx: Any, key: RowKey) -> bool:
        job = endings.take_expired(tx, key)
        if job is None:
            return False
        ending = self._ending(job, "lease_expired", 0.0)
        journal.write(tx, [Entry(ending.held, self._outcome(ending, "lease_expired"), job.lease_owner or "", 1)])
        return endings.apply(tx, [ending]) == {ending.held}

    @rule(name=st.sampled_from(WORKERS))
    def give_back_ghosts(self, name: str) -> None:
        """What runs under this owner's name and never reached it."""
        known = self.workers[name].pairs
        running = set(self.database.read(lambda tx: claims.held_by(tx, name)))
        expected = {
            Held("t", job_id, job.token or 0)
            for job_id, job in self.jobs.items()
            if job.status == "running" and job.owner == name
        }
        assert running == expected
        self._give_back(name, running - known, "ghost")

    @rule(name=st.sampled_from(WORKERS))
    def come_back_from_away(self, name: str) -> None:
        """Everything that it had is lost to it, and what still runs under its tokens is given back, expired or not."""
        pairs = self.workers[name].pairs
        self._give_back(name, pairs, "away")
        self.workers[name].pairs = set()

    def _give_back(self, name: str, pairs: set[Held], how: str) -> None:
        def body(tx: Any) -> set[Held]:
            made = [self._ending(job, how, 0.0) for job in endings.take_own(tx, name, pairs)]
            journal.write(tx, [Entry(each.held, self._outcome(each, how), name, each.attempt) for each in made])
            return endings.apply(tx, made)

        mine = {pair for pair in pairs if self.jobs[pair.job_id].runs_under(name, pair.fencing_token)}
        assert self.database.write(body) == mine
        for held in mine:
            self._end_modelled(held, how, 0.0)

    def _some_job(self, pick: int, wanted: set[str]) -> str:
        """One of the jobs in the wanted statuses, seldom another."""
        fitting = sorted(job_id for job_id, job in self.jobs.items() if job.status in wanted or pick % 5 == 0)
        return (fitting or sorted(self.jobs))[pick % len(fitting or self.jobs)]

    @rule(pick=PICK)
    @precondition(lambda self: self.jobs)
    def cancel(self, pick: int) -> None:
        job_id = self._some_job(pick, {"queued", "running"})
        job, key = self.jobs[job_id], RowKey("t", job_id)
        queued = self.database.write(lambda tx: jobs.cancel_queued(tx, key, "u"))
        running = self.database.write(lambda tx: jobs.request_cancel(tx, key, "u"))
        assert (queued, running) == (job.status == "queued", job.status == "running")
        if queued:
            job.status = "cancelled"
        job.cancel = job.cancel or queued or running

    @rule(pick=PICK)
    @precondition(lambda self: self.jobs)
    def reopen(self, pick: int) -> None:
        job_id = self._some_job(pick, {"failed", "cancelled"})
        job, key = self.jobs[job_id], RowKey("t", job_id)
        moved = self.database.write(lambda tx: jobs.reopen(tx, key, grant_id=None, blocked_by=None))
        assert moved == (job.status in ("failed", "cancelled"))
        if moved:
            job.status, job.attempt, job.refunds = "queued", 0, 0
            job.cancel, job.first_claim, job.claim_at = False, None, self.now

    # -- what must always be so ----------------------------------------------------------------------------------------

    @invariant()
    def the_table_is_what_the_model_says(self) -> None:
        rows = self.database.read(lambda tx: tx.rows(_ROWS))
        assert {row.job_id: _plain(row) for row in rows} == {
            job_id: _plain_model(job) for job_id, job in self.jobs.items()
        }

    def teardown(self) -> None:
        """Every attempt that was handed out runs still, completed its job, or is in the journal once."""
        entries = self.database.read(lambda tx: tx.rows(_ENTRIES))
        rejected = {(row.job_id, row.fencing_token) for row in entries if row.outcome == "result_rejected"}
        others = sorted((row.job_id, row.fencing_token) for row in entries if row.outcome != "result_rejected")
        assert rejected == self.rejected
        assert others == sorted(pair for pair, how in self.ended.items() if how != "completed")
        running = {(job_id, job.token) for job_id, job in self.jobs.items() if job.status == "running"}
        assert self.handed_out == set(self.ended) | running


_c = background_jobs.c
_ROWS = sa.select(
    _c.job_id,
    _c.status,
    _c.attempt,
    _c.refunds,
    _c.lease_owner,
    _c.fencing_token,
    _c.claim_at,
    _c.lease_expires_at,
    _c.first_claimed_at,
    _c.cancel_requested_at,
    _c.progress_seq,
    _c.output,
)
_ENTRIES = sa.select(job_attempts.c.job_id, job_attempts.c.fencing_token, job_attempts.c.outcome)


def _since_start(instant: datetime | None) -> float | None:
    return None if instant is None else round(instant.timestamp() - FROZEN_AT, 4)


def _plain(row: Any) -> tuple[Any, ...]:
    times = map(_since_start, (row.claim_at, row.lease_expires_at, row.first_claimed_at))
    counts = (row.status, row.attempt, row.refunds, row.lease_owner, row.fencing_token, row.progress_seq)
    return (*counts, *times, row.cancel_requested_at is not None, row.output)


def _plain_model(job: Modelled) -> tuple[Any, ...]:
    counts = (job.status, job.attempt, job.refunds, job.owner, job.token, job.progress_seq)
    output = 1 if job.status == "completed" else None
    return (*counts, job.claim_at, job.expires, job.first_claim, job.cancel, output)


@pytest.mark.timeout(240)
def test_leases(frozen: Clock) -> None:
    class Bound(LeaseMachine):
        clock = frozen

    how = settings(
        max_examples=150,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        derandomize=False,
    )
    run_state_machine_as_test(Bound, settings=how)
