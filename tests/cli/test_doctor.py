"""`tenure doctor` finds each thing that can be wrong, by itself."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tenure.canon import uuid7
from tenure.db.engine import Database
from tests import factory
from tests.cli.conftest import Cli, Ran


def wrong(ran: Ran) -> dict[str, str]:
    """The checks that are not well, with their texts."""
    return {check["name"]: check["text"] for check in ran.json["checks"] if not check["ok"]}


def test_all_is_well(cli: Cli, database: Database, database_url: str) -> None:
    factory.worker(database, "w:1", tools=["a"])
    factory.job(database, tool="a")
    ran = cli("doctor", "--json", database=database_url)
    assert (ran.code, ran.json["ok"], wrong(ran)) == (0, True, {})
    facts = {check["name"]: check["facts"] for check in ran.json["checks"]}
    assert facts["workers"]["present"] == ["w:1"]
    assert abs(facts["clock"]["offset_s"]) < 5
    assert facts["build"]["version"].split(".")[0].isdigit()
    assert (facts["timing"]["lease"], facts["timing"]["heartbeat"]) == (90, 30)
    table = cli("doctor", database=database_url)
    assert table.code == 0
    assert "WRONG" not in table.out
    assert "90 s > (missed 1 + 1) × heartbeat 30 s + margin 20 s = 80 s" in table.out


def test_a_job_that_nobody_offers(cli: Cli, database: Database, database_url: str) -> None:
    factory.worker(database, "w:1", tools=["a"])
    factory.worker(database, "gone:1", tools=["b"], beat_in=-90.0)
    factory.job(database, tool="b")
    factory.job(database, tool="b")
    ran = cli("doctor", "--json", database=database_url)
    assert ran.code == 1
    assert wrong(ran) == {"queued jobs": "no live worker offers 2 of 'b' (start: tenure worker module:app)"}
    assert "WRONG  queued jobs" in cli("doctor", database=database_url).out


def test_a_lease_that_nobody_rescues(cli: Cli, database: Database, database_url: str) -> None:
    factory.job(database, tool="a", status="running", lease_in=-2.0)
    assert cli("doctor", "--json", database=database_url).code == 0, "the next sweep may be on its way"
    factory.job(database, tool="a", status="running", lease_in=-30.0)
    ran = cli("doctor", "--json", database=database_url)
    assert ran.code == 1
    assert wrong(ran) == {"leases": "over and not rescued: 1 of 'a' (any worker rescues them)"}


def test_an_effect_that_waits_for_a_person(cli: Cli, database: Database, database_url: str) -> None:
    job = factory.job(database, status="failed", error_code="outcome_unknown")
    running = factory.job(database, status="running")
    for each, name in ((job, "charge"), (running, "still")):
        _effect(database, each.job_id, name)
    ran = cli("doctor", "--json", database=database_url)
    assert ran.code == 1
    assert list(wrong(ran)) == ["effects"]
    found = next(check["facts"]["in_review"] for check in ran.json["checks"] if check["name"] == "effects")
    assert found == [{"job_id": job.job_id, "name": "charge", "part": "", "state": "unknown"}]


def _effect(database: Database, job_id: str, name: str) -> None:
    from tenure.db.clock import now
    from tenure.db.schema import job_stages

    values: dict[str, Any] = {
        "tenant_id": "default",
        "job_id": job_id,
        "name": name,
        "part": "",
        "kind": "effect",
        "state": "unknown",
        "fencing_token": 1,
        "digest": "d",
        "effect_key": uuid7(),
        "started_at": now(),
    }
    database.write(lambda tx: tx.execute(sa.insert(job_stages).values(**values)))


def test_threads_that_do_not_return(cli: Cli, database: Database, database_url: str) -> None:
    factory.worker(database, "w:1", stuck_threads=3)
    assert "w:1 3" in wrong(cli("doctor", "--json", database=database_url))["workers"]


@pytest.mark.parametrize("url", ["postgresql://nobody:secret@127.0.0.1:1/x", "sqlite:////no/such/folder/x.db"])
def test_no_database(cli: Cli, url: str) -> None:
    ran = cli("doctor", "--json", database=url)
    assert ran.code == 4
    assert ran.json["ok"] is False
    assert list(wrong(ran)) == ["database"]
    assert "secret" not in ran.out + ran.err
