"""Several processes and threads at once on one database: no lock error reaches anybody, each job runs once."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import Any

import pytest

from tenure.db.engine import Database
from tenure.db.schema import background_jobs
from tenure.records import RowKey
from tenure.store import projects
from tests import factory
from tests import postgres as harness

PROCESSES = 4
SECONDS = 3.0


@pytest.fixture
def storm(database_url: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "tests.races.storm", database_url, str(SECONDS)]
    running = [
        subprocess.Popen([*command, f"w{n}"], cwd=harness.ROOT, stdout=subprocess.PIPE, text=True)
        for n in range(PROCESSES)
    ]
    try:
        return [json.loads(process.communicate(timeout=45)[0]) for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()


def test_each_job_runs_once_and_no_lock_error_reaches_anybody(storm: list[dict[str, Any]], database: Database) -> None:
    assert [error for each in storm for error in each["errors"]] == []
    claimed = [tuple(pair) for each in storm for pair in each["claimed"]]
    inserted = [job for each in storm for job in each["inserted"]]
    rows = {row["job_id"]: row for row in factory.rows(database, background_jobs)}
    assert sorted(rows) == sorted(inserted)
    assert len({job for job, _ in claimed}) == len(claimed)
    assert len({token for _, token in claimed}) == len(claimed)
    completed = sorted(job for each in storm for job in each["completed"])
    assert completed == sorted(job for job, row in rows.items() if row["status"] == "completed")
    assert sorted(completed) == sorted(job for job, _ in claimed)
    assert len(completed) > 50
    assert all(row["attempt"] == (row["status"] == "completed") for row in rows.values())
    assert max(each["slowest_renewal"] for each in storm) < SECONDS


def test_the_keeper_goes_first(fresh_database: Any) -> None:
    """Of SQLite's writers that wait in one process, the urgent one is next, whenever it came."""
    database = Database(fresh_database("sqlite"))
    seen: list[str] = []
    inside, go_on = threading.Event(), threading.Event()

    def write(name: str, *, urgent: bool = False) -> threading.Thread:
        def body(tx: Any) -> None:
            projects.ensure(tx, RowKey("default", name))
            seen.append(name)
            if name == "first":
                inside.set()
                assert go_on.wait(10)

        thread = threading.Thread(target=lambda: database.write(body, urgent=urgent), daemon=True)
        thread.start()
        return thread

    threads = [write("first")]
    assert inside.wait(10)
    for number, name in enumerate(["a", "b", "c", "keeper"], 1):
        threads.append(write(name, urgent=name == "keeper"))
        turnstile = database._turnstile
        while len(turnstile._waiting) + len(turnstile._urgent) < number:
            threading.Event().wait(0.002)
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert seen == ["first", "keeper", "a", "b", "c"]
    database.dispose()
