"""Keys: their places, who holds them, who is next, and a person's hold."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.db.engine import Database
from tenure.db.schema import background_jobs, job_keys
from tenure.records import HeldKey, Job, RowKey
from tenure.states import JobStatus
from tenure.store import endings, keys
from tests import factory

LIMIT = "limit/a"
USER = "limit/a/user/u"
SLOT = "slot/p/x"


def room(database: Database, key: HeldKey) -> int:
    return database.write(lambda tx: keys.room(tx, key))


def waiting(database: Database, key: RowKey, limit: int = 10) -> list[str]:
    found = database.write(lambda tx: keys.waiting_at(tx, key, limit, lock=True))
    assert found == database.read(lambda tx: keys.waiting_at(tx, key, limit))
    return [candidate.job_id for candidate in found]


def move(database: Database, job: Job, blocked_by: str | None) -> int:
    candidate = keys.Candidate(job.tenant_id, job.job_id, job.limit_key, job.user_limit_key, job.slot_key, False)
    return database.write(lambda tx: keys.move(tx, [(candidate, blocked_by)]))


def test_names_and_places_of_keys() -> None:
    assert keys.limit_key("a") == LIMIT
    assert keys.user_limit_key("a", "u") == USER
    assert keys.slot_key("p", "x") == SLOT
    assert keys.place("t", LIMIT) == RowKey("*", LIMIT)
    assert keys.place("t", USER) == RowKey("*", USER)
    assert keys.place("t", SLOT) == RowKey("t", SLOT)


def test_what_a_candidate_needs_in_lock_order() -> None:
    candidate = keys.Candidate("t", "j", LIMIT, USER, SLOT, holds_slot=False)
    assert candidate.needs == [RowKey("*", LIMIT), RowKey("*", USER), RowKey("t", SLOT)]
    assert keys.Candidate("t", "j", LIMIT, None, SLOT, holds_slot=True).needs == [RowKey("*", LIMIT)]


def test_keys_are_made_once(database: Database) -> None:
    one, two = RowKey("*", LIMIT), RowKey("t", SLOT)
    database.write(lambda tx: keys.ensure(tx, {one: 3}))
    database.write(lambda tx: keys.ensure(tx, {one: 9, two: 1}))
    assert {(row["tenant_id"], row["key"]): row["places"] for row in factory.rows(database, job_keys)} == {
        ("*", LIMIT): 3,
        ("t", SLOT): 1,
    }


def test_the_places_of_a_limit_follow_its_tool(database: Database) -> None:
    for name in (LIMIT, USER, "limit/a/user/v", "limit/ab", "limit/ab/user/u"):
        factory.key(database, name, places=1)
    factory.key(database, SLOT, tenant="t", places=1)
    assert database.write(lambda tx: keys.set_places(tx, "a", 5, 2)) == 3
    assert database.write(lambda tx: keys.set_places(tx, "a", 5, None)) == 0
    found = {row["key"]: row["places"] for row in factory.rows(database, job_keys)}
    assert found == {LIMIT: 5, USER: 2, "limit/a/user/v": 2, "limit/ab": 1, "limit/ab/user/u": 1, SLOT: 1}


def test_lock_gives_the_keys_that_are_there(database: Database) -> None:
    made = [factory.key(database, LIMIT), factory.key(database, SLOT, tenant="t")]
    wanted = [RowKey("t", SLOT), RowKey("*", LIMIT), RowKey("*", LIMIT), RowKey("t", "slot/p/absent")]
    found = database.write(lambda tx: keys.lock(tx, wanted))
    assert list(found.items()) == [(RowKey(key.tenant_id, key.key), key) for key in made]
    assert [database.read(lambda tx, key=key: keys.get(tx, key)) for key in wanted[:2]] == made[::-1]  # type: ignore[misc]
    assert database.read(lambda tx: keys.get(tx, RowKey("t", LIMIT))) is None


HOLDERS: dict[str, tuple[dict[str, Any], bool, bool]] = {
    # how the job is; whether it holds its limits; whether it holds its slot
    "queued and admitted": ({"slot_held_in": 0.0}, True, True),
    "running": ({"status": "running", "slot_held_in": 0.0}, True, True),
    "running, lease over": ({"status": "running", "lease_in": -9.0, "slot_held_in": 0.0}, True, True),
    "waiting, never admitted": ({"blocked_by": LIMIT}, False, False),
    "waiting again after a retry": ({"blocked_by": LIMIT, "slot_held_in": 0.0}, False, True),
    "completed": ({"status": "completed"}, False, False),
    "failed": ({"status": "failed"}, False, False),
    "cancelled": ({"status": "cancelled"}, False, False),
}


@pytest.mark.parametrize("how", HOLDERS)
def test_who_holds_what(database: Database, how: str) -> None:
    columns, limits, slot = HOLDERS[how]
    made = {
        name: factory.key(database, name, places=5, tenant="t" if name == SLOT else "*") for name in (LIMIT, USER, SLOT)
    }
    job = factory.job(database, tenant="t", limit_key=LIMIT, user_limit_key=USER, slot_key=SLOT, **columns)
    expected = {LIMIT: 5 - limits, USER: 5 - limits, SLOT: 5 - slot}
    assert {name: room(database, key) for name, key in made.items()} == expected
    holders = database.read(lambda tx: keys.slot_holders(tx, "t", SLOT))
    assert [each.key for each in holders] == ([job.key] if slot else [])


def test_a_limit_is_of_the_whole_database_and_a_slot_of_its_tenant(database: Database) -> None:
    limit, slot = factory.key(database, LIMIT, places=5), factory.key(database, SLOT, tenant="t", places=5)
    for tenant in ("t", "u"):
        factory.job(database, tenant=tenant, limit_key=LIMIT, slot_key=SLOT, slot_held_in=0.0)
    assert (room(database, limit), room(database, slot)) == (3, 4)
    assert len(database.read(lambda tx: keys.slot_holders(tx, "u", SLOT))) == 1


def test_other_keys_do_not_count(database: Database) -> None:
    limit, user = factory.key(database, LIMIT), factory.key(database, USER)
    factory.job(database, limit_key="limit/b", user_limit_key="limit/a/user/v")
    assert (room(database, limit), room(database, user)) == (1, 1)
    factory.job(database, limit_key=LIMIT, user_limit_key="limit/a/user/v")
    assert (room(database, limit), room(database, user)) == (0, 1)


def test_a_held_key_has_no_room(database: Database) -> None:
    key = factory.key(database, LIMIT, places=5)
    held = factory.key(database, "limit/b", places=5, held_by="someone")
    assert (room(database, key), room(database, held)) == (5, 0)


def test_a_person_holds_and_resumes(database: Database) -> None:
    key = factory.key(database, LIMIT)
    name = RowKey("*", LIMIT)
    job = factory.job(database, limit_key=LIMIT)
    answers = [database.write(lambda tx, by=by: keys.hold(tx, name, by, "because")) for by in ("one", "two")]  # type: ignore[misc]
    assert answers == [True, False]
    held = database.read(lambda tx: keys.get(tx, name))
    assert held is not None
    assert (held.held_by, held.reason) == ("one", "because")
    assert held.held_at is not None
    assert factory.job_now(database, job.key) == job
    assert [database.write(lambda tx: keys.resume(tx, name)) for _ in range(2)] == [True, False]
    assert database.read(lambda tx: keys.get(tx, name)) == key
    unknown = RowKey("t", LIMIT)
    assert database.write(lambda tx: keys.hold(tx, unknown, "one", "because")) is False
    assert database.write(lambda tx: keys.resume(tx, unknown)) is False


def test_the_oldest_due_that_wait_at_a_key(database: Database) -> None:
    late, early = (factory.job(database, blocked_by=LIMIT, limit_key=LIMIT, claim_in=-n) for n in (5.0, 9.0))
    foreign = factory.job(database, tenant="u", blocked_by=LIMIT, limit_key=LIMIT, claim_in=-7.0)
    factory.job(database, blocked_by=LIMIT, limit_key=LIMIT, claim_in=9.0)
    factory.job(database, blocked_by=USER, limit_key=LIMIT, user_limit_key=USER)
    factory.job(database, limit_key=LIMIT)
    assert waiting(database, RowKey("*", LIMIT)) == [early.job_id, foreign.job_id, late.job_id]
    assert waiting(database, RowKey("*", LIMIT), 2) == [early.job_id, foreign.job_id]
    assert database.read(lambda tx: keys.blocking(tx, 10)) == [RowKey("*", LIMIT), RowKey("*", USER)]


def test_only_a_slot_s_own_tenant_waits_at_it(database: Database) -> None:
    ours = factory.job(database, tenant="t", blocked_by=SLOT, slot_key=SLOT)
    factory.job(database, tenant="u", blocked_by=SLOT, slot_key=SLOT)
    assert waiting(database, RowKey("t", SLOT)) == [ours.job_id]
    assert database.read(lambda tx: keys.blocking(tx, 10)) == [RowKey("t", SLOT), RowKey("u", SLOT)]


def test_admission_takes_the_slot(database: Database) -> None:
    job = factory.job(database, blocked_by=LIMIT, limit_key=LIMIT, slot_key=SLOT)
    assert move(database, job, SLOT) == 1
    row = factory.job_now(database, job.key)
    assert (row.blocked_by, row.slot_held_at) == (SLOT, None)
    assert move(database, job, None) == 1
    row = factory.job_now(database, job.key)
    assert row.blocked_by is None
    assert row.slot_held_at is not None
    assert move(database, job, None) == 0
    assert factory.job_now(database, job.key) == row


def test_admission_to_a_limit_takes_no_slot(database: Database) -> None:
    job = factory.job(database, blocked_by=LIMIT, limit_key=LIMIT)
    assert move(database, job, None) == 1
    row = factory.job_now(database, job.key)
    assert (row.blocked_by, row.slot_held_at) == (None, None)


@pytest.mark.parametrize("status", ["queued", "running", "completed", "failed", "cancelled"])
def test_what_does_not_wait_is_not_moved(database: Database, status: str) -> None:
    job = factory.job(database, status=status, limit_key=LIMIT)
    assert move(database, job, None) == 0
    assert factory.job_now(database, job.key) == job


def test_nothing_to_move(database: Database) -> None:
    assert database.write(lambda tx: keys.move(tx, [])) == 0


def test_a_retry_keeps_its_slot_and_gives_its_limit_back(database: Database) -> None:
    limit, slot = factory.key(database, LIMIT), factory.key(database, SLOT, tenant="default")
    job = factory.job(database, blocked_by=LIMIT, limit_key=LIMIT, slot_key=SLOT)
    move(database, job, None)
    assert (room(database, limit), room(database, slot)) == (0, 0)
    held = _run(database, job)
    retry = endings.Ending(held, JobStatus.QUEUED, 1, 0, due_in_s=0.0, blocked_by=LIMIT, error_code="again")
    assert database.write(lambda tx: endings.apply(tx, [retry])) == {held}
    assert (room(database, limit), room(database, slot)) == (1, 0)
    first = factory.job_now(database, job.key).slot_held_at
    move(database, job, None)
    assert factory.job_now(database, job.key).slot_held_at == first
    done = endings.Ending(_run(database, job), JobStatus.COMPLETED, 1, 0, output="1")
    database.write(lambda tx: endings.apply(tx, [done]))
    assert (room(database, limit), room(database, slot)) == (1, 1)


def _run(database: Database, job: Job) -> Any:
    """Makes the queued job a running one."""
    from tenure.db.clock import now_plus
    from tenure.records import Held

    token = factory.draw_token(database)
    lease = {"lease_owner": "w", "fencing_token": token, "lease_s": 60.0, "lease_expires_at": now_plus(60.0)}
    update = background_jobs.update().where(background_jobs.c.job_id == job.job_id)
    database.write(lambda tx: tx.execute(update.values(status="running", first_claimed_at=now_plus(0.0), **lease)))
    return Held(job.tenant_id, job.job_id, token)
