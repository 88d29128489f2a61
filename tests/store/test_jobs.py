"""Jobs as rows: made once, found, listed, cancelled before they run, reopened."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.canon import uuid7
from tenure.db.engine import Database
from tenure.db.schema import background_jobs
from tenure.records import Job, NewJob, RowKey
from tenure.store import jobs
from tenure.store.jobs import Filter
from tests import factory


def new(**columns: Any) -> NewJob:
    given = {"tenant_id": "default", "job_id": uuid7(), "tool": "a", "input": {}, "max_attempts": 3}
    return NewJob(**{**given, "max_runtime_s": 3600.0, **columns})


def insert(database: Database, *wanted: NewJob) -> set[RowKey]:
    return database.write(lambda tx: jobs.insert(tx, wanted))


def key(of: NewJob) -> RowKey:
    return RowKey(of.tenant_id, of.job_id)


def test_every_field_is_stored(database: Database) -> None:
    turn = factory.turn(database, factory.session(database).key)
    facts: dict[str, Any] = {
        "input": {"b": 1.0, "a": [None, "é"]},
        "max_attempts": 7,
        "max_runtime_s": 0.5,
        "session_id": "s",
        "turn_id": turn.turn_id,
        "item_id": uuid7(),
        "round": 2,
        "position": 3,
        "project_id": "p",
        "user_id": "u",
        "grant_id": uuid7(),
        "digest": "d",
        "priority": 4,
        "limit_key": "limit/a",
        "user_limit_key": "limit/a/user/u",
        "slot_key": "slot/p/x",
        "idempotency_key": "i",
        "request_digest": "r",
        "traceparent": "t",
    }
    job = new(**facts)
    assert insert(database, job) == {key(job)}
    row = factory.job_now(database, key(job))
    assert {name: getattr(row, name) for name in facts} == facts
    assert list(row.input) == ["b", "a"]
    assert (row.status, row.attempt, row.blocked_by, row.fencing_token) == ("queued", 0, "limit/a", None)


def test_a_job_without_keys_is_not_blocked(database: Database) -> None:
    job = new()
    insert(database, job)
    assert factory.job_now(database, key(job)).blocked_by is None


def test_nothing_to_insert(database: Database) -> None:
    assert insert(database) == set()


def place(turn: Any, position: int = 1) -> dict[str, Any]:
    return {"session_id": turn.session_id, "turn_id": turn.turn_id, "round": 1, "position": position}


SAME: dict[str, dict[str, Any]] = {
    "id": {"job_id": uuid7()},
    "idempotency key": {"idempotency_key": "k", "request_digest": "d"},
}


@pytest.mark.parametrize("same", [*SAME, "place in its turn"])
def test_the_second_of_two_that_are_the_same_is_not_made(database: Database, same: str) -> None:
    turn = factory.turn(database, factory.session(database).key)
    columns = place(turn) if same == "place in its turn" else SAME[same]
    first, second, other = new(**columns), new(**{**columns, "tool": "b"}), new()
    assert insert(database, first) == {key(first)}
    before = factory.rows(database, background_jobs, background_jobs.c.job_id == first.job_id)
    assert insert(database, second, other) == {key(other)}
    assert factory.rows(database, background_jobs, background_jobs.c.job_id == first.job_id) == before
    assert len(factory.rows(database, background_jobs)) == 2


def test_two_of_one_batch_with_one_key_make_one_job(database: Database) -> None:
    made = insert(database, *(new(idempotency_key="k", request_digest="d") for _ in range(2)))
    assert len(made) == 1
    assert len(factory.rows(database, background_jobs)) == 1


def test_keys_and_places_of_others_do_not_matter(database: Database) -> None:
    session = factory.session(database).key
    one, two = (factory.turn(database, session) for _ in range(2))
    wanted = [
        new(idempotency_key="k", request_digest="d"),
        new(idempotency_key="k", request_digest="d", tenant_id="other"),
        new(**place(one, 1)),
        new(**place(one, 2)),
        new(**place(two, 1)),
        new(),
        new(),
    ]
    assert insert(database, *wanted) == {key(job) for job in wanted}


def test_a_job_is_found_by_id_and_by_idempotency_key(database: Database) -> None:
    job = new(idempotency_key="k", request_digest="d")
    insert(database, job, new())
    for verb in (jobs.get, jobs.lock):
        found = database.write(lambda tx, verb=verb: verb(tx, key(job)))  # type: ignore[misc]
        assert found == factory.job_now(database, key(job))
        for wrong in (RowKey("other", job.job_id), RowKey("default", uuid7())):
            assert database.write(lambda tx, verb=verb, wrong=wrong: verb(tx, wrong)) is None  # type: ignore[misc]
    by_key = database.read(lambda tx: jobs.by_idempotency_key(tx, "default", "k"))
    assert by_key is not None
    assert by_key.key == key(job)
    assert database.read(lambda tx: jobs.by_idempotency_key(tx, "other", "k")) is None
    assert database.read(lambda tx: jobs.by_idempotency_key(tx, "default", "other")) is None


def test_the_jobs_of_a_turn(database: Database) -> None:
    session = factory.session(database).key
    turn, other = (factory.turn(database, session) for _ in range(2))
    statuses = ["running", "queued", "completed", "failed", "cancelled"]
    made = [factory.job(database, status=status, of=turn, round=9 - n) for n, status in enumerate(statuses)]
    factory.job(database, of=other)
    factory.job(database)
    assert database.read(lambda tx: jobs.live_of_turn(tx, turn.key)) == sorted(job.key for job in made[:2])
    assert [job.key for job in database.read(lambda tx: jobs.of_turn(tx, turn.key))] == [job.key for job in made[::-1]]


def test_lists_are_newest_first_by_page_and_narrowed(database: Database) -> None:
    turn = factory.turn(database, factory.session(database).key)
    made = [factory.job(database, tool="ab"[n % 2]) for n in range(4)]
    made.append(factory.job(database, of=turn, status="completed"))
    factory.job(database, tenant="other")
    newest = [job.job_id for job in reversed(made)]

    def listed(**wanted: Any) -> list[str]:
        found: list[Job] = database.read(lambda tx: jobs.listed(tx, Filter("default", **wanted)))
        return [job.job_id for job in found]

    assert listed() == newest
    assert listed(limit=2) == newest[:2]
    assert listed(limit=2, after=newest[1]) == newest[2:4]
    assert listed(tool="b") == [made[3].job_id, made[1].job_id]
    for narrowed in ({"status": "completed"}, {"session_id": "s"}, {"turn_id": turn.turn_id}):
        assert listed(**narrowed) == [made[4].job_id]


def test_a_queued_job_is_cancelled_at_once(database: Database) -> None:
    job = factory.job(database, blocked_by="limit/a", limit_key="limit/a", slot_key="slot/p/x", slot_held_in=0.0)
    other = factory.job(database)
    assert database.write(lambda tx: jobs.cancel_queued(tx, job.key, "someone")) is True
    row = factory.job_now(database, job.key)
    assert (row.status, row.blocked_by, row.slot_held_at, row.error_code) == ("cancelled", None, None, "cancelled")
    assert (row.cancel_requested_by, row.cancel_requested_at) == ("someone", row.finished_at)
    assert row.finished_at is not None
    assert factory.job_now(database, other.key) == other


def test_a_running_job_is_asked(database: Database) -> None:
    job = factory.job(database, status="running", lease_in=-5.0)
    assert database.write(lambda tx: jobs.request_cancel(tx, job.key, "someone")) is True
    row = factory.job_now(database, job.key)
    assert (row.status, row.lease_expires_at, row.cancel_requested_by) == ("running", job.lease_expires_at, "someone")
    assert database.write(lambda tx: jobs.request_cancel(tx, job.key, "someone else")) is True
    again = factory.job_now(database, job.key)
    assert (again.cancel_requested_at, again.cancel_requested_by) == (row.cancel_requested_at, "someone")


VERBS: dict[str, tuple[Any, set[str]]] = {
    "cancel_queued": (lambda tx, key: jobs.cancel_queued(tx, key, "someone"), {"queued"}),
    "request_cancel": (lambda tx, key: jobs.request_cancel(tx, key, "someone"), {"running"}),
    "reopen": (lambda tx, key: jobs.reopen(tx, key, grant_id=None, blocked_by=None), {"failed", "cancelled"}),
}


@pytest.mark.parametrize("status", ["queued", "running", "completed", "failed", "cancelled"])
@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_moves_from_its_statuses_alone(database: Database, verb: str, status: str) -> None:
    run, allowed = VERBS[verb]
    job = factory.job(database, status=status)
    elsewhere = [RowKey("other", job.job_id), RowKey("default", uuid7())]
    assert [database.write(lambda tx, key=key: run(tx, key)) for key in elsewhere] == [False, False]  # type: ignore[misc]
    assert factory.job_now(database, job.key) == job
    assert database.write(lambda tx: run(tx, job.key)) is (status in allowed)
    assert (factory.job_now(database, job.key) == job) is (status not in allowed)


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_reopen_begins_anew_under_the_same_id(database: Database, status: str) -> None:
    job = factory.job(
        database,
        status=status,
        attempt=3,
        refunds=2,
        fence_conflicts=3,
        started_in=-5.0,
        claim_in=-500.0,
        cancel_requested_in=-1.0,
        cancel_requested_by="someone",
        error_code="broken",
        error_kind="k",
        error_text="t",
    )
    grant_id = uuid7()
    assert database.write(lambda tx: jobs.reopen(tx, job.key, grant_id=grant_id, blocked_by="limit/a")) is True
    row = factory.job_now(database, job.key)
    assert (row.status, row.attempt, row.refunds, row.fence_conflicts) == ("queued", 0, 0, 0)
    assert (row.grant_id, row.blocked_by, row.fencing_token) == (grant_id, "limit/a", job.fencing_token)
    assert (row.first_claimed_at, row.finished_at, row.cancel_requested_at, row.cancel_requested_by) == (None,) * 4
    assert (row.error_code, row.error_kind, row.error_text, row.lease_expires_at) == (None,) * 4
    assert (row.claim_at - job.claim_at).total_seconds() == pytest.approx(500.0, abs=2.0)


def test_tools_that_nobody_offers_are_counted(database: Database) -> None:
    for tool in ("a", "b", "b", "c"):
        factory.job(database, tool=tool)
    factory.job(database, tool="b", status="completed")
    assert database.read(lambda tx: jobs.unknown_tools(tx, ["a", "x"])) == {"b": 2, "c": 1}
    assert database.read(lambda tx: jobs.unknown_tools(tx, [])) == {"a": 1, "b": 2, "c": 1}
    assert database.read(lambda tx: jobs.unknown_tools(tx, ["a", "b", "c"])) == {}
