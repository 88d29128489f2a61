"""The journal: one row an ended attempt and outcome, inserted if absent."""

from __future__ import annotations

from tenure.db.engine import Database
from tenure.db.schema import job_attempts
from tenure.records import Held
from tenure.store import journal
from tenure.store.journal import Entry
from tests import factory


def write(database: Database, *entries: Entry) -> None:
    database.write(lambda tx: journal.write(tx, entries))


def test_an_entry_holds_the_attempt_of_its_token(database: Database) -> None:
    job = factory.job(database, status="running")
    held = factory.held(job)
    facts = {"error_code": "c", "error_kind": "k", "error_text": "t", "result_sha256": "s", "note": "n"}
    write(database, Entry(held, "retry", "w", 2, result={"x": [1, None]}, **facts))
    [row] = database.read(lambda tx: journal.of_job(tx, job.key))
    assert (row.fencing_token, row.outcome, row.owner, row.attempt) == (held.fencing_token, "retry", "w", 2)
    assert {name: getattr(row, name) for name in facts} == facts
    assert row.result == {"x": [1, None]}
    assert row.claimed_at == job.claimed_at
    assert row.claimed_at is not None
    assert row.ended_at > row.claimed_at


def test_the_claim_s_time_is_that_of_its_own_token_only(database: Database) -> None:
    """A late result is rejected after somebody else claimed: the row's stamp is of the newer claim."""
    job = factory.job(database, status="running")
    late = factory.held(job)._replace(fencing_token=factory.held(job).fencing_token - 1)
    write(database, Entry(late, "result_rejected", "w", 1))
    assert [row.claimed_at for row in database.read(lambda tx: journal.of_job(tx, job.key))] == [None]


def test_what_is_there_stays(database: Database) -> None:
    held = factory.held(factory.job(database, status="running"))
    write(database, Entry(held, "retry", "w", 1, note="first"))
    before = factory.rows(database, job_attempts)
    write(database, Entry(held, "retry", "w", 9, note="second"), Entry(held, "result_rejected", "w", 1, note="other"))
    after = factory.rows(database, job_attempts)
    assert [row["note"] for row in after] == ["other", "first"]
    assert before[0] in after


def test_an_entry_of_no_job_is_not_written(database: Database) -> None:
    held = factory.held(factory.job(database, status="running"))
    write(database, Entry(Held("other", held.job_id, held.fencing_token), "retry", "w", 1))
    assert factory.rows(database, job_attempts) == []


def test_nothing_to_write(database: Database) -> None:
    write(database)
    assert factory.rows(database, job_attempts) == []


def test_outcomes_by_token(database: Database) -> None:
    first, second, third = (factory.held(factory.job(database, status="running")) for _ in range(3))
    write(database, Entry(first, "retry", "w", 1), Entry(first, "result_rejected", "w", 1))
    write(database, Entry(second, "released", "w", 1))
    newer = first._replace(fencing_token=first.fencing_token + 1)
    found = database.read(lambda tx: journal.outcomes(tx, [first, second, third, newer]))
    assert found == {first: {"retry", "result_rejected"}, second: {"released"}}
    assert database.read(lambda tx: journal.outcomes(tx, [])) == {}


def test_the_journal_of_a_job_is_oldest_first(database: Database) -> None:
    job = factory.job(database, status="running")
    other = factory.held(factory.job(database, status="running"))
    held = factory.held(job)
    tokens = [held.fencing_token + n for n in (2, 0, 1)]
    for token in tokens:
        write(database, Entry(held._replace(fencing_token=token), "retry", "w", 1), Entry(other, "retry", "w", 1))
    found = [row.fencing_token for row in database.read(lambda tx: journal.of_job(tx, job.key))]
    assert found == sorted(tokens)
