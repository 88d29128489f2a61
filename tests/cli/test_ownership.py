"""The ownership timeline from a job's row, its journal and its stages."""

from __future__ import annotations

import pytest

from tenure.cli.ownership import holdings, spans
from tenure.db.engine import Database
from tenure.records import Held
from tenure.store import jobs, journal, stages
from tenure.store.journal import Entry
from tests import factory


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "rows#1", "rows#2", "rows#3"], "a, rows#1–3"),
        (["rows#1", "rows#3", "rows#4"], "rows#1, rows#3–4"),
        (["rows#9", "rows#10", "cells#11"], "rows#9–10, cells#11"),
        (["x#a", "x#b"], "x#a, x#b"),
    ],
)
def test_runs_of_parts_are_put_together(given: list[str], shown: str) -> None:
    assert spans(given) == shown


def test_every_attempt_is_there_once(database: Database) -> None:
    """An expired attempt whose late result was rejected, then the one that completed the job."""
    job = factory.job(database, status="running", attempt=1)
    first = factory.held(job)

    def write(tx: object) -> None:
        entry = Entry(first, "lease_expired", "one:1", 1, error_code="lease_expired")
        late = Entry(first, "result_rejected", "one:1", 1, result={"x": 1}, result_sha256="ab" * 32)
        journal.write(tx, [entry, late])  # type: ignore[arg-type]  # a Tx
        stages.save(tx, first, "half", "", "d", "1")  # type: ignore[arg-type]

    database.write(write)
    token = factory.draw_token(database)
    database.write(lambda tx: stages.save(tx, Held(job.tenant_id, job.job_id, token), "rest", "", "d", "2"))
    import sqlalchemy as sa

    from tenure.db.schema import background_jobs

    moved = {"fencing_token": token, "lease_owner": "two:2", "attempt": 2}
    database.write(lambda tx: tx.execute(sa.update(background_jobs).values(**moved)))
    found = database.read(
        lambda tx: holdings(
            jobs.get(tx, job.key),  # type: ignore[arg-type]  # it is there
            journal.of_job(tx, job.key),
            stages.of_job(tx, job.key),
        )
    )
    assert [(each.owner, each.fencing_token, each.outcome, each.stages) for each in found] == [
        ("one:1", first.fencing_token, "lease_expired", ["half"]),
        ("two:2", token, "running", ["rest"]),
    ]
    assert found[0].rejected_sha256 == "ab" * 32
