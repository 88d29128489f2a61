"""Every verb of the flow against every other, for ten seconds: no deadlock reaches a caller, and all still agrees."""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import pytest
import sqlalchemy as sa

from tenure import flow
from tenure.errors import Conflict, Gone, InvalidInput, NotFound
from tenure.flow import BareJob, Failed, Program, Released, Settlement
from tenure.planner import Step
from tenure.records import RowKey
from tenure.states import is_terminal
from tenure.store import approvals, jobs, keys, turns
from tenure.testing import VANISH, Driver
from tests.flow.world import TENANT, World
from tests.races.order import racing as racing

T = TypeVar("T")
SECONDS = 10.0
THREADS = 8
SESSIONS = ("s", "t", "u", "v")
EXPECTED = (Conflict, Gone, NotFound, InvalidInput)
SLOT, LIMIT = RowKey(TENANT, "slot/p/output"), keys.place(TENANT, "limit/limited")
DEADLOCKS = sa.text("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")


class Storm:
    """One thread's choices."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.program, self.dice = world, world.program, random.Random(seed)
        self.worker = Driver(world.program, f"w{seed}")

    # -- the verbs -----------------------------------------------------------------------------------------------------

    def submit(self) -> None:
        tools = [self.dice.choice(["read", "ask", "report", "limited"]) for _ in range(self.dice.randint(1, 3))]
        steps = [Step(f"s{place}", tool, n=place) for place, tool in enumerate(tools)]
        if len(steps) > 1 and self.dice.random() < 0.5:
            steps[-1].after("s0")
        for step in steps:
            step.is_optional = self.dice.random() < 0.3
        given = [step.stored() for step in steps]
        on_busy: Any = self.dice.choice(["queue", "reject"])
        session = self.dice.choice(SESSIONS)
        key = f"k{self.dice.randint(0, 30)}"
        flow.submit(
            self.program,
            flow.Request(session_id=session, steps=given, project_id="p", on_busy=on_busy, idempotency_key=key),
        )

    def enqueue(self) -> None:
        flow.enqueue(self.program, BareJob(tool="limited", arguments={}, user_id=self.dice.choice("ab")))

    def work(self) -> None:
        leases = self.worker.begin(self.worker.claim(self.dice.randint(1, 4)))
        ended = []
        for lease in leases:
            if self.dice.random() < 0.4:
                self.worker.on(lease.tool, self._ending())
            ran = self.worker.run(lease)
            if ran is not None:
                ended += [ran] * self.dice.choice([1, 1, 1, 2])
        for batch in (ended[::2], ended[1::2]) if self.dice.random() < 0.5 else (ended,):
            self.worker.follow(self.worker.settle(_distinct(batch)))

    def _ending(self) -> Any:
        failed = Failed("x", "broken", self.dice.choice(["retryable", "terminal"]))
        return self.dice.choice([failed, failed, Released("released"), VANISH])

    def decide(self) -> None:
        pending = self._read(lambda tx: approvals.listed(tx, TENANT))
        if pending:
            chosen = self.dice.choice(pending)
            scope: Any = self.dice.choice([None, None, {}])
            decision = flow.Decision(
                approval_id=chosen.approval_id, approve=self.dice.random() < 0.8, by=self.dice.choice("ab"), scope=scope
            )
            decided = flow.decide(self.program, decision)
            self.worker.follow(flow.Settled(turns={RowKey(TENANT, decided.turn_id)}))

    def revoke(self) -> None:
        found = self._read(lambda tx: approvals.grants(tx, TENANT, 5))
        if found:
            flow.revoke(self.program, RowKey(TENANT, self.dice.choice(found).grant_id), "a")

    def cancel_job(self) -> None:
        self._of_a_job(["queued", "running"], lambda key: flow.cancel_job(self.program, key, "a"))

    def reopen(self) -> None:
        self._of_a_job(["failed", "cancelled"], lambda key: flow.reopen(self.program, key, "a"))

    def _of_a_job(self, statuses: Sequence[str], verb: Callable[[RowKey], flow.Settled]) -> None:
        wanted = jobs.Filter(TENANT, status=self.dice.choice(statuses), limit=10)
        found = self._read(lambda tx: jobs.listed(tx, wanted))
        if found:
            self.worker.follow(verb(self.dice.choice(found).key))

    def cancel_turn(self) -> None:
        found = [
            turn for turn in self._read(lambda tx: turns.listed(tx, TENANT, limit=8)) if not is_terminal(turn.status)
        ]
        if found:
            self.worker.follow(flow.cancel_turn(self.program, self.dice.choice(found).key, "a"))

    def maintain(self) -> None:
        self.worker.maintain()

    def expire_leases(self) -> None:
        self.world.clock.advance("91s")
        self.worker.maintain()

    def give_back(self) -> None:
        leases = self.worker.claim(2)
        self.worker.follow(flow.give_back(self.program, self.worker.owner, [lease.held for lease in leases], "ghost"))

    def hold(self) -> None:
        key = self.dice.choice([SLOT, LIMIT])
        self.program.database.write(lambda tx: keys.hold(tx, key, "operator", "because"))
        self.program.database.write(lambda tx: keys.resume(tx, key))
        flow.admit(self.program, [key])

    def _read(self, body: Callable[[Any], T]) -> T:
        return self.program.database.read(body)

    VERBS = (
        *(submit, submit, submit, enqueue, work, work, work, work, work, decide, decide, decide, revoke),
        *(cancel_job, reopen, cancel_turn, maintain, maintain, expire_leases, give_back, hold),
    )

    def run(self, until: float, done: Counter[str], errors: list[str]) -> None:
        while time.monotonic() < until:
            verb = self.dice.choice(self.VERBS)
            try:
                verb(self)
            except EXPECTED as error:
                done[f"{verb.__name__} {error.code}"] += 1
            except Exception as error:  # noqa: BLE001  (the verdict)
                frames = [f"{frame.name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
                errors.append(f"{verb.__name__}: {error!r}"[:600] + " at " + " > ".join(frames))
            else:
                done[verb.__name__] += 1


def _distinct(ended: list[Settlement]) -> list[Settlement]:
    return list({each.lease.held: each for each in ended}.values())


@pytest.mark.timeout(120)
def test_every_verb_against_every_other(racing: World, caplog: pytest.LogCaptureFixture) -> None:
    racing.tool("limited", limit=2, limit_per_user=1)
    racing.tool("report", writes="output", limit=3)
    before = racing.database.read(lambda tx: tx.execute(DEADLOCKS).scalar_one())
    done: Counter[str] = Counter()
    errors: list[str] = []
    until = time.monotonic() + SECONDS
    threads = [threading.Thread(target=Storm(racing, seed).run, args=(until, done, errors)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    after = racing.database.read(lambda tx: tx.execute(DEADLOCKS).scalar_one())
    print(f"deadlocks retried: {after - before}", *sorted(done.items()), sep="\n  ")
    assert errors == [], "\n".join(errors)
    assert [record.getMessage() for record in caplog.records if record.name == "tenure.flow"] == []
    assert {verb.__name__ for verb in Storm.VERBS} <= set(done)
    settle_down(racing.program, racing)
    racing.check()


def settle_down(program: Program, world: World) -> None:
    """Everything that was begun comes to an end: nothing is stuck, no place is kept."""
    world.program.database.write(lambda tx: (keys.resume(tx, SLOT), keys.resume(tx, LIMIT)))
    for number in range(40):
        world.clock.advance("91s")
        Driver(program, f"last{number}").drain()
        for approval in world.approvals():
            with suppress(Conflict):  # voided by the answer before it
                world.decide(approval, approve=number < 20)
        if not _open(world):
            return
    raise AssertionError(f"still open: {_open(world)}")


def _open(world: World) -> list[str]:
    def body(tx: Any) -> list[str]:
        found = [f"{turn.status} turn {turn.turn_id}" for turn in turns.listed(tx, TENANT, limit=10_000)]
        found += [f"{job.status} job {job.job_id}" for job in jobs.listed(tx, jobs.Filter(TENANT, limit=10_000))]
        return [each for each in found if each.split()[0] not in ("completed", "failed", "cancelled")]

    return world.database.read(body)
