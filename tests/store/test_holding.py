"""What a holder's verbs write. Who may call them: `test_predicate.py`."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.db.engine import Database
from tenure.db.schema import background_jobs
from tenure.records import Held, Renewal
from tenure.store import holding
from tests import factory
from tests.opened import Clock

OWNER = factory.OWNER


def renew(database: Database, held: Held) -> Renewal:
    [renewal] = database.single(lambda tx: holding.renew(tx, OWNER, [held]))
    return renewal


def test_a_renewal_is_for_the_full_lease_from_now(database: Database) -> None:
    job = factory.job(database, status="running", lease_in=5.0)
    assert renew(database, factory.held(job)).remaining_s == pytest.approx(60.0, abs=0.002)
    row = factory.job_now(database, job.key)
    assert job.lease_expires_at is not None
    assert row.lease_expires_at is not None
    assert (row.lease_expires_at - job.lease_expires_at).total_seconds() == pytest.approx(55.0, abs=2.0)


@pytest.mark.parametrize(("first", "granted"), [(-10.0, 60.0), (-70.0, 30.0), (-99.0, 1.0)])
@pytest.mark.parametrize("verb", ["renew", "extend"])
def test_no_renewal_reaches_beyond_max_runtime(database: Database, verb: str, first: float, granted: float) -> None:
    job = factory.job(database, status="running", lease_in=0.9, first_claimed_in=first, max_runtime_s=100.0)
    held = factory.held(job)
    renewal = renew(database, held) if verb == "renew" else database.write(lambda tx: holding.extend(tx, OWNER, held))
    assert renewal is not None
    assert renewal.remaining_s == pytest.approx(granted, abs=0.5)


def test_after_max_runtime_renewal_ends_nothing_and_helps_nothing(clock: Clock) -> None:
    job = factory.job(clock.database, status="running", lease_in=10.0, first_claimed_in=-95.0, max_runtime_s=100.0)
    held = factory.held(job)
    assert renew(clock.database, held).remaining_s == pytest.approx(5.0, abs=0.5)
    clock.advance(6.0)
    assert clock.database.single(lambda tx: holding.renew(tx, OWNER, [held])) == []
    assert factory.job_now(clock.database, job.key).status == "running"


@pytest.mark.parametrize("asked", [False, True])
def test_a_renewal_brings_cancel_requests(database: Database, asked: bool) -> None:
    columns: dict[str, Any] = {"cancel_requested_in": 0.0, "cancel_requested_by": "someone"} if asked else {}
    held = factory.held(factory.job(database, status="running", **columns))
    assert renew(database, held).cancel_requested is asked
    [read] = database.read(lambda tx: holding.still_held(tx, OWNER, [held]))
    assert read.cancel_requested is asked
    extended = database.write(lambda tx: holding.extend(tx, OWNER, held))
    assert extended is not None
    assert extended.cancel_requested is asked


def test_a_renewal_changes_the_lease_alone(database: Database) -> None:
    job = factory.job(database, status="running", lease_in=5.0)
    [before] = factory.rows(database, background_jobs)
    renew(database, factory.held(job))
    [after] = factory.rows(database, background_jobs)
    assert {name for name in after if after[name] != before[name]} == {"lease_expires_at"}


def test_still_held_reads_what_is_left(database: Database) -> None:
    held = factory.held(factory.job(database, status="running", lease_in=5.0))
    [read] = database.read(lambda tx: holding.still_held(tx, OWNER, [held]))
    assert read.remaining_s == pytest.approx(5.0, abs=2.0)


def test_progress_is_replaced_and_counted_row_by_row(database: Database) -> None:
    first, second = (factory.held(factory.job(database, status="running")) for _ in range(2))
    stored = database.single(lambda tx: holding.report(tx, OWNER, {first: {"n": 1}, second: [1, "é", None]}))
    assert stored == {first: 1, second: 1}
    assert database.single(lambda tx: holding.report(tx, OWNER, {first: {"n": 2}})) == {first: 2}
    rows = {row["job_id"]: row for row in factory.rows(database, background_jobs)}
    assert (rows[first.job_id]["progress"], rows[first.job_id]["progress_seq"]) == ({"n": 2}, 2)
    assert (rows[second.job_id]["progress"], rows[second.job_id]["progress_seq"]) == ([1, "é", None], 1)


def test_begin_stamps_the_start(database: Database) -> None:
    job = factory.job(database, status="running", lease_in=30.0)
    held = factory.held(job)
    assert database.single(lambda tx: holding.begin(tx, OWNER, [held])) == {held}
    row = factory.job_now(database, job.key)
    assert row.started_at is not None
    assert row.claimed_at is not None
    assert row.started_at > row.claimed_at
    assert row.lease_expires_at == job.lease_expires_at


def test_a_saved_stage_counts_as_progress(database: Database) -> None:
    job = factory.job(database, status="running", lease_in=5.0, progress_seq=7)
    extended = database.write(lambda tx: holding.extend(tx, OWNER, factory.held(job)))
    assert extended is not None
    assert extended.remaining_s == pytest.approx(60.0, abs=0.002)
    assert factory.job_now(database, job.key).progress_seq == 8


def test_guard_gives_the_jobs_by_pair(database: Database) -> None:
    made = [factory.job(database, status="running", tenant=tenant) for tenant in ("b", "a")]
    found = database.write(lambda tx: holding.guard(tx, OWNER, [factory.held(job) for job in made]))
    assert list(found) == sorted(factory.held(job) for job in made)
    assert {held: job.key for held, job in found.items()} == {factory.held(job): job.key for job in made}
