"""Two that want one job, on PostgreSQL, each order forced."""

from __future__ import annotations

import threading
import time

import pytest

from tenure.canon import uuid7
from tenure.db.engine import Database
from tenure.db.tx import Tx
from tenure.records import Held, Job, Lease, NewJob, RowKey
from tenure.states import JobStatus
from tenure.store import claims, endings, holding, jobs
from tenure.store.endings import Ending
from tests import factory
from tests.races.gate import Running, at_once, winning

OWNER = factory.OWNER


def claim(tx: Tx, count: int = 10, owner: str = OWNER) -> list[Lease]:
    return claims.claim(tx, owner, {"a": 60.0}, count)


def settle(tx: Tx, held: Held) -> bool:
    """What a holder does to end a job: guard, then the ending."""
    return bool(holding.guard(tx, OWNER, [held])) and bool(
        endings.apply(tx, [Ending(held, JobStatus.COMPLETED, 1, 0, output="1")])
    )


def rescue(tx: Tx, key: RowKey) -> bool:
    job = endings.take_expired(tx, key)
    return job is not None and bool(endings.apply(tx, [Ending(factory.held(job), JobStatus.QUEUED, 1, 0)]))


def expired(database: Database) -> Job:
    return factory.job(database, status="running", lease_in=-1.0)


# -- claims ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [1, 2])
def test_two_claims_share_the_jobs_and_nobody_waits(postgres: Database, first: int) -> None:
    made = [factory.job(postgres, claim_in=n - 10.0).job_id for n in range(3)]
    with winning(postgres, lambda tx: claim(tx, first)) as winner:
        second = at_once(postgres, claim)
        got = [lease.job_id for lease in winner.commit()]
    assert (got, [lease.job_id for lease in second]) == (made[:first], made[first:])


def test_a_claim_that_is_rolled_back_is_open_to_others(postgres: Database) -> None:
    job = factory.job(postgres)
    with winning(postgres, claim) as winner:
        assert at_once(postgres, claim) == []
        winner.roll_back()
    [lease] = postgres.single(claim)
    assert (lease.job_id, lease.attempt) == (job.job_id, 1)


def test_many_claims_hand_out_each_job_once(database: Database) -> None:
    made = {factory.job(database).job_id for _ in range(60)}
    got: list[tuple[str, int]] = []

    def run(n: int) -> None:
        while leases := database.single(lambda tx: claim(tx, 1 + n, f"w{n}")):
            got.extend((lease.job_id, lease.fencing_token) for lease in leases)

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(job for job, _ in got) == sorted(made)
    assert len({token for _, token in got}) == len(made)


def test_a_claim_passes_a_job_that_is_being_cancelled(postgres: Database) -> None:
    first, second = (factory.job(postgres, claim_in=n - 10.0) for n in range(2))
    with winning(postgres, lambda tx: jobs.cancel_queued(tx, first.key, "u")):
        assert [lease.job_id for lease in at_once(postgres, lambda tx: claim(tx, 1))] == [second.job_id]


def test_a_cancel_after_the_claim_finds_it_running(postgres: Database) -> None:
    job = factory.job(postgres)
    with winning(postgres, claim) as winner:
        loser = Running(postgres, lambda tx: jobs.cancel_queued(tx, job.key, "u"))
        assert loser.waits_for(winner)
        winner.commit()
        assert loser.result() is False
    assert factory.job_now(postgres, job.key).status == "running"


# -- settlement and rescue ---------------------------------------------------------------------------------------------


def test_rescue_passes_a_job_that_is_being_settled(postgres: Database) -> None:
    """The holder's statement began in time; that its lease ends before it commits does not matter."""
    job = factory.job(postgres, status="running", lease_in=0.4)
    with winning(postgres, lambda tx: settle(tx, factory.held(job))) as winner:
        until = time.monotonic() + 10
        while job.key not in postgres.read(lambda tx: endings.expired(tx, 5)):
            assert time.monotonic() < until
            time.sleep(0.02)
        assert at_once(postgres, lambda tx: rescue(tx, job.key)) is False
        assert winner.commit() is True
    assert factory.job_now(postgres, job.key).status == "completed"
    assert postgres.write(lambda tx: rescue(tx, job.key)) is False


@pytest.mark.parametrize("verb", ["settle", "complete_bare", "take_own"])
def test_whoever_comes_after_rescue_finds_nothing(postgres: Database, verb: str) -> None:
    job = expired(postgres)
    held = factory.held(job)
    verbs = {
        "settle": lambda tx: settle(tx, held),
        "complete_bare": lambda tx: endings.complete_bare(tx, OWNER, {held: "1"}),
        "take_own": lambda tx: endings.take_own(tx, OWNER, [held]),
    }
    with winning(postgres, lambda tx: rescue(tx, job.key)) as winner:
        loser = Running(postgres, verbs[verb])
        waited = loser.waits_for(winner)
        assert winner.commit() is True
        assert not loser.result()
    assert not waited
    assert factory.job_now(postgres, job.key).status == "queued"


def test_a_rescue_after_a_rescue_finds_nothing_and_does_not_wait(postgres: Database) -> None:
    job = expired(postgres)
    with winning(postgres, lambda tx: rescue(tx, job.key)):
        assert at_once(postgres, lambda tx: rescue(tx, job.key)) is False
    assert postgres.write(lambda tx: rescue(tx, job.key)) is False


def test_one_sweep_of_two_at_once(postgres: Database) -> None:
    from tenure.db.clock import now_plus
    from tenure.db.schema import tenure_meta

    postgres.write(lambda tx: tx.execute(tenure_meta.update().values(swept_at=now_plus(-5.0))))
    with winning(postgres, endings.take_sweep) as winner:
        loser = Running(postgres, endings.take_sweep)
        assert loser.waits_for(winner)
        assert winner.commit() is True
        assert loser.result() is False


# -- settlement and cancel ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["complete_bare", "guard"])
def test_a_completion_sees_the_cancel_that_came_first(postgres: Database, verb: str) -> None:
    """And it is judged by the time when it began: its lease ends while it waits."""
    job = factory.job(postgres, status="running", lease_in=1.5)
    held = factory.held(job)
    with winning(postgres, lambda tx: jobs.request_cancel(tx, job.key, "u")) as winner:
        if verb == "complete_bare":
            loser = Running[object](postgres, lambda tx: endings.complete_bare(tx, OWNER, {held: "1"}))
        else:
            loser = Running[object](postgres, lambda tx: holding.guard(tx, OWNER, [held]))
        assert loser.waits_for(winner)
        until = time.monotonic() + 10
        while verb == "guard" and job.key not in postgres.read(lambda tx: endings.expired(tx, 5)):
            assert time.monotonic() < until
            time.sleep(0.02)
        winner.commit()
        found = loser.result()
    if verb == "complete_bare":
        assert found == set()
    else:
        assert isinstance(found, dict)
        assert found[held].cancel_requested_by == "u"


def test_a_cancel_after_the_completion_is_refused(postgres: Database) -> None:
    job = factory.job(postgres, status="running")
    with winning(postgres, lambda tx: endings.complete_bare(tx, OWNER, {factory.held(job): "1"})) as winner:
        loser = Running(postgres, lambda tx: jobs.request_cancel(tx, job.key, "u"))
        assert loser.waits_for(winner)
        winner.commit()
        assert loser.result() is False
    row = factory.job_now(postgres, job.key)
    assert (row.status, row.cancel_requested_at) == ("completed", None)


def test_the_second_of_two_settlements_finds_nothing(postgres: Database) -> None:
    job = factory.job(postgres, status="running")
    held = factory.held(job)
    with winning(postgres, lambda tx: settle(tx, held)) as winner:
        loser = Running(postgres, lambda tx: settle(tx, held))
        assert loser.waits_for(winner)
        winner.commit()
        assert loser.result() is False


# -- renewal -----------------------------------------------------------------------------------------------------------


def test_a_renewal_waits_for_nobody(postgres: Database) -> None:
    """One locked row does not stop the renewal of the others."""
    made = [factory.held(factory.job(postgres, status="running")) for _ in range(3)]
    with winning(postgres, lambda tx: settle(tx, made[1])):
        renewed = at_once(postgres, lambda tx: holding.renew(tx, OWNER, made))
        assert {each.held for each in renewed} == {made[0], made[2]}
        read = at_once(postgres, lambda tx: holding.still_held(tx, OWNER, made))
        assert {each.held for each in read} == set(made)
    assert {each.held for each in postgres.read(lambda tx: holding.still_held(tx, OWNER, made))} == {made[0], made[2]}


def test_a_settlement_waits_for_a_renewal_and_goes_on(postgres: Database) -> None:
    job = factory.job(postgres, status="running")
    held = factory.held(job)
    with winning(postgres, lambda tx: holding.renew(tx, OWNER, [held])) as winner:
        loser = Running(postgres, lambda tx: settle(tx, held))
        assert loser.waits_for(winner)
        winner.commit()
        assert loser.result() is True


@pytest.mark.parametrize("order", [1, -1])
def test_two_batches_that_share_jobs_do_not_deadlock(postgres: Database, order: int) -> None:
    """A third transaction holds the lower job until both wait: with locks out of order, one would hold the other's."""
    made = sorted(factory.held(factory.job(postgres, status="running")) for _ in range(2))
    wanted = [made[::order], made[::-order]]
    with winning(postgres, lambda tx: jobs.lock(tx, RowKey(*made[0][:2]))) as gate:
        both = []
        for pairs in wanted:
            both.append(Running(postgres, lambda tx, pairs=pairs: holding.guard(tx, OWNER, pairs)))  # type: ignore[misc]
            assert both[-1].waits_for(gate, *both[:-1])
        gate.commit()
        assert [set(each.result()) for each in both] == [set(made)] * 2
    assert [each.runs for each in both] == [1, 1]


# -- creation ----------------------------------------------------------------------------------------------------------


def new(**columns: object) -> NewJob:
    return NewJob("default", uuid7(), "a", {}, 3, 60.0, idempotency_key="k", request_digest="d")


def test_the_second_of_two_with_one_key_waits_and_reads_the_winner(postgres: Database) -> None:
    first, second = new(), new()
    with winning(postgres, lambda tx: jobs.insert(tx, [first])) as winner:
        loser = Running(postgres, lambda tx: (jobs.insert(tx, [second]), jobs.by_idempotency_key(tx, "default", "k")))
        assert loser.waits_for(winner)
        winner.commit()
        inserted, found = loser.result()
    assert inserted == set()
    assert found is not None
    assert found.job_id == first.job_id


def test_when_the_first_of_two_with_one_key_fails_the_second_makes_it(postgres: Database) -> None:
    first, second = new(), new()
    with winning(postgres, lambda tx: jobs.insert(tx, [first])) as winner:
        loser = Running(postgres, lambda tx: jobs.insert(tx, [second]))
        assert loser.waits_for(winner)
        winner.roll_back()
        assert loser.result() == {RowKey("default", second.job_id)}
