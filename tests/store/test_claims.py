"""Claiming: which jobs, in which order, under which lease and token."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tenure.canon import uuid7
from tenure.db.engine import Database
from tenure.db.schema import background_jobs
from tenure.records import Lease, NewJob, RowKey
from tenure.store import claims, jobs
from tests import factory
from tests.opened import Clock


def claim(database: Database, count: int = 10, owner: str = factory.OWNER, **leases: float) -> list[Lease]:
    return database.single(lambda tx: claims.claim(tx, owner, leases or {"a": 60.0}, count))


def ids(leases: list[Lease]) -> list[str]:
    return [lease.job_id for lease in leases]


def test_the_oldest_due_come_first_and_equals_by_id(database: Database) -> None:
    late = factory.job(database, claim_in=-1.0)
    early = factory.job(database, claim_in=-9.0)
    order = [early.job_id, late.job_id]
    same = [uuid7() for _ in range(3)]
    for job_id in reversed(same):
        factory.job(database, job_id=job_id, claim_in=-5.0)
    _level(database, same)
    order[1:1] = same
    assert ids(claim(database)) == order


def _level(database: Database, same: list[str]) -> None:
    """Gives jobs exactly one `claim_at`."""
    table = background_jobs
    first = next(row for row in factory.rows(database, table) if row["job_id"] == same[0])
    update = table.update().where(table.c.job_id.in_(same)).values(claim_at=first["claim_at"])
    database.write(lambda tx: tx.execute(update))


def test_a_batch_takes_the_oldest_of_all_tools(database: Database) -> None:
    made = [factory.job(database, tool="ab"[n % 2], claim_in=-20.0 - n).job_id for n in range(6)]
    assert ids(claim(database, 4, a=60.0, b=60.0)) == made[:1:-1]
    assert ids(claim(database, 4, a=60.0, b=60.0)) == made[1::-1]


def test_one_at_a_time_keeps_the_order_too(database: Database) -> None:
    made = [factory.job(database, tool="ab"[n % 2], claim_in=-20.0 - n).job_id for n in range(4)]
    assert [ids(claim(database, 1, a=60.0, b=60.0)) for _ in range(5)] == [*([job] for job in made[::-1]), []]


def test_a_batch_larger_than_the_backlog_takes_the_backlog(database: Database) -> None:
    made = [factory.job(database, claim_in=-5.0 + n).job_id for n in range(3)]
    assert ids(claim(database, 1000)) == made
    assert claim(database, 1000) == []


@pytest.mark.parametrize("count", [0, -1])
def test_nothing_is_asked_for(database: Database, count: int) -> None:
    factory.job(database)
    assert claim(database, count) == []
    assert database.single(lambda tx: claims.claim(tx, "w", {}, 5)) == []


UNCLAIMABLE: dict[str, dict[str, Any]] = {
    "due later": {"claim_in": 5.0},
    "blocked by a key": {"blocked_by": "limit/a", "limit_key": "limit/a"},
    "of a tool that the worker has not": {"tool": "unknown"},
    "of a tool whose name only begins so": {"tool": "aa"},
    "running": {"status": "running"},
    "running, its lease over": {"status": "running", "lease_in": -60.0},
    "completed": {"status": "completed"},
    "failed": {"status": "failed"},
    "cancelled": {"status": "cancelled"},
}


@pytest.mark.parametrize("why", UNCLAIMABLE)
def test_what_cannot_run_now_is_not_claimed(database: Database, why: str) -> None:
    factory.job(database, **UNCLAIMABLE[why])
    good = factory.job(database)
    before = [row for row in factory.rows(database, background_jobs) if row["job_id"] != good.job_id]
    assert ids(claim(database)) == [good.job_id]
    assert claim(database) == []
    assert [row for row in factory.rows(database, background_jobs) if row["job_id"] != good.job_id] == before


def test_a_delayed_job_is_claimed_when_it_is_due_and_not_before(clock: Clock) -> None:
    job = factory.job(clock.database, claim_in=100.0)
    clock.advance(99.0)
    assert claim(clock.database) == []
    clock.advance(1.0)
    assert ids(claim(clock.database)) == [job.job_id]


def test_jobs_of_every_tenant_are_claimed(database: Database) -> None:
    made = [factory.job(database, tenant=tenant, claim_in=n - 10.0) for n, tenant in enumerate(["t2", "t1", "t3"])]
    leases = claim(database)
    assert [(each.tenant_id, each.job_id) for each in leases] == [(job.tenant_id, job.job_id) for job in made]


def test_what_a_claim_writes_and_returns(database: Database) -> None:
    turn = factory.turn(database, factory.session(database).key)
    job = factory.job(database, of=turn, input={"x": 1}, user_id="u", limit_key="limit/a", refunds=2)
    [lease] = claim(database, a=90.0)
    row = factory.job_now(database, job.key)
    assert (lease.input, lease.user_id, lease.limit_key, lease.refunds) == ({"x": 1}, "u", "limit/a", 2)
    assert (lease.turn_id, lease.session_id, lease.is_bare) == (turn.turn_id, "s", False)
    assert (row.status, row.lease_owner, row.fencing_token) == ("running", factory.OWNER, lease.fencing_token)
    assert (row.attempt, lease.attempt) == (1, 1)
    assert (row.lease_s, lease.lease_s) == (90.0, 90.0)
    assert lease.remaining_s == pytest.approx(90.0, abs=0.002)
    assert row.claimed_at == row.first_claimed_at
    assert row.claimed_at is not None
    assert row.lease_expires_at == row.claimed_at + timedelta(seconds=90)
    assert row.started_at is None


def test_each_tool_has_its_own_lease(database: Database) -> None:
    for tool in "abc":
        factory.job(database, tool=tool)
    assert {lease.tool: lease.lease_s for lease in claim(database, a=30.0, b=45.5)} == {"a": 30.0, "b": 45.5}


def test_every_claim_is_charged(database: Database) -> None:
    job = factory.job(database, attempt=1, max_attempts=3)
    assert [lease.attempt for lease in claim(database)] == [2]
    assert factory.job_now(database, job.key).attempt == 2


@pytest.mark.parametrize(("since_first_claim", "granted"), [(None, 60.0), (0.0, 60.0), (70.0, 30.0), (101.0, -1.0)])
def test_the_lease_ends_with_max_runtime(database: Database, since_first_claim: float | None, granted: float) -> None:
    first = None if since_first_claim is None else -since_first_claim
    job = factory.job(database, max_runtime_s=100.0, first_claimed_in=first)
    [lease] = claim(database)
    assert lease.remaining_s == pytest.approx(granted, abs=0.5)
    assert factory.job_now(database, job.key).lease_s == 60.0


def test_a_second_claim_keeps_the_times_of_the_first_claim_and_start(database: Database) -> None:
    job = factory.job(database, first_claimed_in=-50.0, started_in=-50.0)
    [lease] = claim(database)
    row = factory.job_now(database, job.key)
    assert row.first_claimed_at == job.first_claimed_at
    assert row.started_at == job.started_at
    assert row.claimed_at is not None
    assert row.claimed_at > job.claim_at
    assert lease.remaining_s == pytest.approx(60.0, abs=0.01)


def test_tokens_grow_and_never_repeat(database: Database) -> None:
    """Over many claims of both tools, of new jobs and of the same ones again."""
    drawn: list[int] = []
    for round_ in range(12):
        for n in range(3):
            factory.job(database, tool="ab"[n % 2], claim_in=-5.0 + n)
        leases = claim(database, 2 + round_ % 3, a=60.0, b=60.0)
        tokens = sorted(lease.fencing_token for lease in leases)
        assert not drawn or tokens[0] > max(drawn)
        drawn += tokens
        _queue_again(database, [lease.job_id for lease in leases[::2]])
    assert len(drawn) == len(set(drawn))
    assert len(drawn) >= 30


def _queue_again(database: Database, job_ids: list[str]) -> None:
    back = {"status": "queued", "lease_expires_at": None, "attempt": 0}
    update = background_jobs.update().where(background_jobs.c.job_id.in_(job_ids)).values(back)
    database.write(lambda tx: tx.execute(update))


def test_a_claim_writes_job_rows_only(database: Database) -> None:
    from tenure.db import schema

    turn = factory.turn(database, factory.session(database).key)
    factory.key(database, "limit/a")
    factory.job(database, of=turn, limit_key="limit/a")
    others = [table for table in schema.metadata.sorted_tables if table is not background_jobs]
    before = {table.name: factory.rows(database, table) for table in others}
    assert len(claim(database)) == 1
    assert {table.name: factory.rows(database, table) for table in others} == before


def test_nothing_due_draws_no_token(database: Database) -> None:
    first = factory.draw_token(database)
    assert claim(database) == []
    assert factory.draw_token(database) == first + 1


# -- order at creation -------------------------------------------------------------------------------------------------


def new(tool: str = "a", **columns: Any) -> NewJob:
    return NewJob("default", uuid7(), tool, {}, 3, 3600.0, **columns)


@pytest.mark.parametrize(
    ("priority", "due_in_s", "expected"),
    [(0, None, 0.0), (1, None, -60.0), (10, None, -600.0), (10, 0.0, 0.0), (10, 30.0, 30.0), (0, 30.0, 30.0)],
)
def test_priority_moves_forward_only_what_is_due_at_creation(
    database: Database, priority: int, due_in_s: float | None, expected: float
) -> None:
    job = new(priority=priority, due_in_s=due_in_s)
    database.write(lambda tx: jobs.insert(tx, [job]))
    row = factory.job_now(database, RowKey("default", job.job_id))
    assert row.priority == priority
    assert (row.claim_at - row.created_at).total_seconds() == pytest.approx(expected, abs=0.001)


def test_a_priority_overtakes_what_became_due_that_much_earlier_and_no_more(database: Database) -> None:
    recent = factory.job(database, claim_in=-110.0)
    old = factory.job(database, claim_in=-130.0)
    urgent = new(priority=2)
    database.write(lambda tx: jobs.insert(tx, [urgent]))
    assert [ids(claim(database, 1)) for _ in range(3)] == [[old.job_id], [urgent.job_id], [recent.job_id]]


# -- what an owner holds -----------------------------------------------------------------------------------------------


def test_held_by_names_what_runs_under_an_owner(database: Database) -> None:
    ours = {factory.held(factory.job(database, status="running", lease_in=lease_in)) for lease_in in (60.0, -60.0)}
    factory.job(database, status="running", owner="worker-b")
    for status in ("queued", "completed", "failed", "cancelled"):
        factory.job(database, status=status, owner=factory.OWNER)
    assert set(database.read(lambda tx: claims.held_by(tx, factory.OWNER))) == ours
    assert database.read(lambda tx: claims.held_by(tx, "nobody")) == []
