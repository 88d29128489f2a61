"""How a running job stops being one, and who is found for rescue."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.canon import uuid7
from tenure.db.engine import Database
from tenure.db.schema import background_jobs
from tenure.records import Held, RowKey
from tenure.states import JobStatus
from tenure.store import endings
from tenure.store.endings import Ending
from tests import factory
from tests.opened import Clock

OWNER = factory.OWNER


def apply(database: Database, *wanted: Ending) -> set[Held]:
    return database.write(lambda tx: endings.apply(tx, wanted))


def test_bare_jobs_complete_with_their_exact_outputs(database: Database) -> None:
    jobs = [factory.job(database, status="running", error_code="old", error_kind="k", error_text="t") for _ in range(3)]
    outputs = ['{"b":1,"a":2}', "null", '[1.0,1,"é"]']
    results = dict(zip(map(factory.held, jobs), outputs, strict=True))
    assert database.single(lambda tx: endings.complete_bare(tx, OWNER, results)) == set(results)
    assert database.single(lambda tx: endings.complete_bare(tx, OWNER, results)) == set()
    rows = {row["job_id"]: row for row in factory.rows(database, background_jobs)}
    assert list(rows[jobs[0].job_id]["output"]) == ["b", "a"]
    assert [rows[job.job_id]["output"] for job in jobs] == [{"b": 1, "a": 2}, None, [1.0, 1, "é"]]
    for row in rows.values():
        assert (row["status"], row["lease_expires_at"]) == ("completed", None)
        assert row["finished_at"] is not None
        assert (row["error_code"], row["error_kind"], row["error_text"]) == (None, None, None)
        assert (row["lease_owner"], row["attempt"]) == (OWNER, 1)


ENDINGS: dict[str, dict[str, Any]] = {
    "completed": {"status": JobStatus.COMPLETED, "output": '{"x":1}'},
    "failed": {"status": JobStatus.FAILED, "error_code": "broken", "error_kind": "ValueError", "error_text": "no"},
    "cancelled": {"status": JobStatus.CANCELLED, "error_code": "cancelled"},
    "queued": {"status": JobStatus.QUEUED, "due_in_s": 30.0, "error_code": "broken", "blocked_by": "limit/a"},
}


@pytest.mark.parametrize("how", ENDINGS)
def test_an_ending_is_written_as_given(database: Database, how: str) -> None:
    job = factory.job(database, status="running", slot_key="slot/p/x", slot_held_in=-1.0, limit_key="limit/a")
    ending = Ending(factory.held(job), attempt=0, refunds=1, fence_conflicts=2, **ENDINGS[how])
    assert apply(database, ending) == {factory.held(job)}
    row = factory.job_now(database, job.key)
    assert (row.status, row.attempt, row.refunds, row.fence_conflicts) == (how, 0, 1, 2)
    assert (row.lease_expires_at, row.error_code, row.blocked_by) == (None, ending.error_code, ending.blocked_by)
    assert (row.lease_owner, row.fencing_token) == (OWNER, job.fencing_token)
    assert (row.finished_at is None) == (how == "queued")
    assert (row.slot_held_at == job.slot_held_at) if how == "queued" else (row.slot_held_at is None)
    assert row.output == ({"x": 1} if how == "completed" else None)


def test_a_retry_is_due_from_the_database_s_now(database: Database) -> None:
    job = factory.job(database, status="running", claim_in=-500.0)
    apply(database, Ending(factory.held(job), JobStatus.QUEUED, 1, 0, due_in_s=30.0))
    probe = factory.job(database, claim_in=30.0)
    moved = factory.job_now(database, job.key).claim_at
    assert (probe.claim_at - moved).total_seconds() == pytest.approx(0.0, abs=1.0)


def test_other_endings_leave_the_due_time(database: Database) -> None:
    job = factory.job(database, status="running", claim_in=-500.0)
    apply(database, Ending(factory.held(job), JobStatus.COMPLETED, 1, 0, output="1", due_in_s=30.0))
    assert factory.job_now(database, job.key).claim_at == job.claim_at


@pytest.mark.parametrize("status", ["queued", "completed", "failed", "cancelled"])
def test_an_ending_of_what_does_not_run_moves_nothing(database: Database, status: str) -> None:
    job = factory.job(database, status=status, owner=OWNER)
    before = factory.rows(database, background_jobs)
    assert apply(database, Ending(factory.held(job), JobStatus.COMPLETED, 1, 0, output="1")) == set()
    assert factory.rows(database, background_jobs) == before


@pytest.mark.parametrize("off", [-1, 1])
def test_an_ending_under_another_token_moves_nothing(database: Database, off: int) -> None:
    held = factory.held(factory.job(database, status="running"))
    wrong = held._replace(fencing_token=held.fencing_token + off)
    right = factory.held(factory.job(database, status="running"))
    before = factory.rows(database, background_jobs, background_jobs.c.job_id == held.job_id)
    assert apply(database, *(Ending(each, JobStatus.COMPLETED, 1, 0, output="1") for each in (wrong, right))) == {right}
    assert factory.rows(database, background_jobs, background_jobs.c.job_id == held.job_id) == before


def test_no_endings_run_no_statement(database: Database) -> None:
    assert apply(database) == set()


# -- rescue ------------------------------------------------------------------------------------------------------------

NOT_TO_RESCUE: dict[str, dict[str, Any]] = {
    "a live lease": {"status": "running", "lease_in": 5.0},
    "queued, once expired": {"status": "queued", "owner": OWNER, "lease_in": -60.0},
    "completed": {"status": "completed", "lease_in": -60.0},
    "failed": {"status": "failed", "lease_in": -60.0},
    "cancelled": {"status": "cancelled", "lease_in": -60.0},
}


@pytest.mark.parametrize("why", NOT_TO_RESCUE)
def test_only_expired_running_jobs_are_found(database: Database, why: str) -> None:
    other = factory.job(database, **NOT_TO_RESCUE[why])
    over = factory.job(database, status="running", lease_in=-0.05)
    assert database.read(lambda tx: endings.expired(tx, 10)) == [over.key]
    taken = database.write(lambda tx: endings.take_expired(tx, over.key))
    assert taken is not None
    assert taken.key == over.key
    assert database.write(lambda tx: endings.take_expired(tx, other.key)) is None


def test_a_lease_expires_by_itself(clock: Clock) -> None:
    """At its very end it is over: nothing is both live and expired, nothing neither."""
    job = factory.job(clock.database, status="running", lease_in=10.0)
    assert clock.database.read(lambda tx: endings.expired(tx, 10)) == []
    clock.advance(10.0)
    assert clock.database.read(lambda tx: endings.expired(tx, 10)) == [job.key]


def test_rescue_is_bounded_and_in_lock_order(database: Database) -> None:
    made = [factory.job(database, status="running", lease_in=-1.0, tenant=tenant).key for tenant in ("b", "a", "a")]
    assert database.read(lambda tx: endings.expired(tx, 10)) == sorted(made)
    some = database.read(lambda tx: endings.expired(tx, 2))
    assert len(some) == 2
    assert some == sorted(set(some) & set(made))


def test_an_unknown_job_is_not_taken(database: Database) -> None:
    factory.job(database, status="running", lease_in=-1.0)
    unknown = RowKey("other", uuid7())
    assert database.write(lambda tx: endings.take_expired(tx, unknown)) is None


def test_one_sweep_a_second_in_the_whole_database(clock: Clock) -> None:
    database = clock.database
    clock.advance(3600.0)  # another test may have swept with a clock further on
    assert database.single(endings.take_sweep) is True
    assert database.single(endings.take_sweep) is False
    clock.advance(0.5)
    assert database.single(endings.take_sweep) is False
    clock.advance(0.6)
    assert database.single(endings.take_sweep) is True
    assert database.single(lambda tx: endings.take_sweep(tx, 5.0)) is False
    clock.advance(5.1)
    assert database.single(lambda tx: endings.take_sweep(tx, 5.0)) is True
    clock.advance(-3610.0)
    database.single(lambda tx: tx.execute(_swept_now()))


def _swept_now() -> Any:
    from tenure.db.clock import now
    from tenure.db.schema import tenure_meta

    return tenure_meta.update().values(swept_at=now())


@pytest.mark.parametrize(("first", "left"), [(-10.0, 90.0), (-100.5, -0.5)])
def test_what_is_left_of_max_runtime(database: Database, first: float, left: float) -> None:
    job = factory.job(database, status="running", first_claimed_in=first, max_runtime_s=100.0)
    assert database.read(lambda tx: endings.runtime_left(tx, job.key)) == pytest.approx(left, abs=0.5)


@pytest.mark.parametrize("status", list(JobStatus))
def test_only_what_runs_is_put_into_quarantine(database: Database, status: JobStatus) -> None:
    slot: dict[str, Any] = {"slot_key": "slot/p/x", "slot_held_in": 0.0} if status == "running" else {}
    job, other = factory.job(database, status=status, owner=OWNER, **slot), factory.job(database, status="running")
    assert database.write(lambda tx: endings.quarantine(tx, job.key)) is (status == "running")
    row = factory.job_now(database, job.key)
    assert (row == job) is (status != "running")
    if status == "running":
        assert (row.status, row.error_code, row.lease_expires_at, row.slot_held_at) == (
            "failed",
            "quarantined",
            None,
            None,
        )
        assert row.finished_at is not None
    assert factory.job_now(database, other.key) == other


# -- one's own ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lease_in", [60.0, -60.0])
def test_one_s_own_are_taken_expired_or_not(database: Database, lease_in: float) -> None:
    job = factory.job(database, status="running", lease_in=lease_in)
    held = factory.held(job)
    wrong = [held._replace(fencing_token=held.fencing_token + 1), held._replace(tenant_id="other")]
    assert [each.key for each in database.write(lambda tx: endings.take_own(tx, OWNER, [held, *wrong]))] == [job.key]
    assert database.write(lambda tx: endings.take_own(tx, OWNER, wrong)) == []
    assert database.write(lambda tx: endings.take_own(tx, "worker-b", [held])) == []


@pytest.mark.parametrize("status", ["queued", "completed", "failed", "cancelled"])
def test_what_no_longer_runs_is_not_one_s_own(database: Database, status: str) -> None:
    job = factory.job(database, status=status, owner=OWNER)
    assert database.write(lambda tx: endings.take_own(tx, OWNER, [factory.held(job)])) == []


@pytest.mark.parametrize("status", list(JobStatus))
def test_one_s_own_settlement_is_found_by_token(database: Database, status: JobStatus) -> None:
    held = factory.held(factory.job(database, status=status, owner=OWNER))
    newer = held._replace(fencing_token=held.fencing_token + 1)
    assert database.read(lambda tx: endings.status_under(tx, [held, newer])) == {held: status}
    assert database.read(lambda tx: endings.status_under(tx, [])) == {}
