"""`tenure worker` as the system sees it: processes, signals, exit codes, and what became of the jobs."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import sqlalchemy as sa

from tenure.cli.loading import load_app
from tests.cli.conftest import Cli, Folder, Started, until

Start = Callable[..., Started]


@pytest.fixture
def app(folder: Folder, database_url: str) -> Iterator[Any]:
    loaded = load_app(folder.app, database_url)
    assert not loaded.program.database.read(lambda tx: tx.rows(sa.text("SELECT 1 WHERE 1 = 0")))
    yield loaded
    loaded.close()


@pytest.fixture
def worker(started: Start, folder: Folder, database_url: str) -> Start:
    """Starts a worker of the folder's app and waits until it is there."""

    def start(*options: str) -> Started:
        process = started("worker", folder.app, "--database", database_url, *options)
        process.said("slow")
        return process

    return start


def child_of(parent: Started) -> int:
    """The pid of the working process."""
    found: list[int] = []

    def look() -> bool:
        found[:] = [each.pid for each in psutil.Process(parent.process.pid).children()]
        return bool(found)

    until(look, 20)
    return found[0]


def wait_running(job: Any) -> None:
    until(lambda: job.refresh().row.status == "running", 20)


def test_it_says_where_it_works_and_what_it_offers(worker: Start, app: Any, folder: Folder) -> None:
    process = worker("--concurrency", "3", "--name", "mill")
    said = process.said("tenure.plan")
    name = app.program.database.name
    assert f"database  {name}" in said
    assert name.startswith(("/", "postgresql://"))
    assert "tenure worker mill:" in said
    assert ", 3 at a time" in said
    assert "look         lease 4 s, heartbeat 1 s, missed 1, margin 1 s" in said
    assert app.enqueue("slow", {"seconds": 0.0}).result("20s") == "slept"
    assert process.end() == 0


def test_it_says_so_in_json(worker: Start, app: Any, folder: Folder) -> None:
    process = worker("--json", "--only", "slow", "--only", "look")
    process.said("}\n")
    facts = json.loads(process.out.read_text())
    assert facts["tools"]["slow"] == {"lease_s": 4, "heartbeat_s": 1, "missed": 1, "margin_s": 1}
    assert sorted(facts["tools"]) == ["look", "slow"]
    assert facts["database"] == app.program.database.name
    assert process.end(signal.SIGINT) == 0
    for line in process.err.read_text().splitlines():
        assert json.loads(line)["level"] in ("info", "warning", "error")


def test_tools_may_be_left_out(worker: Start, app: Any, folder: Folder) -> None:
    process = worker("--except", "stuck", "--except", "crash")
    said = process.said("tenure.plan")
    assert "stuck" not in said
    assert "crash" not in said
    assert process.end() == 0


def test_tools_that_are_not_there(cli: Cli, folder: Folder, database_url: str, started: Start) -> None:
    process = started("worker", folder.app, "--database", database_url, "--only", "nothing")
    assert process.process.wait(20) == 2
    assert "no tool 'nothing' is registered here; known: broken" in process.err.read_text()
    assert len(process.err.read_text().splitlines()) == 1


def test_sigterm_drains(worker: Start, app: Any, folder: Folder) -> None:
    """What runs is finished, what waits is left, and the exit code is 0."""
    process = worker("--concurrency", "1")
    first = app.enqueue("slow", {"seconds": 2.0})
    second = app.enqueue("slow", {"seconds": 0.0}, delay="500ms")
    until((folder.path / "slow-began").exists, 20)
    assert process.end() == 0
    assert first.refresh().row.status == "completed"
    assert second.refresh().row.status == "queued"
    assert "stopped" in _statuses(app)


def _statuses(app: Any) -> set[str]:
    rows = app.program.database.read(lambda tx: tx.rows(sa.text(f"SELECT status FROM {_table(app)}")))
    return {row[0] for row in rows}


def _table(app: Any) -> str:
    return "worker_heartbeats" if app.program.database.is_sqlite else "tenure.worker_heartbeats"


def test_a_thread_that_outlives_the_grace_loses_its_job(worker: Start, app: Any, folder: Folder) -> None:
    """The job is given back as the last act, with refund: free at once, not when the lease is over."""
    process = worker("--grace", "300ms")
    job = app.enqueue("slow", {"seconds": 30.0})
    until((folder.path / "slow-began").exists, 20)
    began = time.monotonic()
    assert process.end() == 0
    assert time.monotonic() - began < 15
    row = job.refresh().row
    assert (row.status, row.attempt, row.refunds) == ("queued", 0, 1)
    assert [each.outcome for each in _journal(app, job)] == ["released"]


def _journal(app: Any, job: Any) -> list[Any]:
    from tenure.store import journal

    found: list[Any] = app.program.database.read(lambda tx: journal.of_job(tx, job.row.key))
    return found


def test_a_second_signal_ends_it_at_once(worker: Start, app: Any, folder: Folder) -> None:
    process = worker("--grace", "10m")
    job = app.enqueue("slow", {"seconds": 60.0})
    until((folder.path / "slow-began").exists, 20)
    process.process.send_signal(signal.SIGTERM)
    time.sleep(1)
    assert process.process.poll() is None, "the first signal waits for what runs"
    assert process.end(signal.SIGINT, 20) == 0
    assert job.refresh().row.status == "queued"


def test_a_crash_is_followed_by_a_new_process(worker: Start, app: Any, folder: Folder) -> None:
    """A tool takes its process along; the parent starts another, which takes the job over after its lease."""
    process = worker()
    first = child_of(process)
    job = app.enqueue("crash", {"mark": str(folder.path / "mark")})
    assert job.result("30s") == "survived"
    assert (folder.path / "mark").read_text() == str(first)
    assert child_of(process) != first
    said = process.said("was ended by SIGKILL")
    assert f"working process {first} was ended by SIGKILL; the next starts in 1 s" in said
    assert [each.outcome for each in _journal(app, job)] == ["lease_expired"]
    assert process.end() == 0


def test_threads_that_never_return_have_the_process_replaced(worker: Start, app: Any, folder: Folder) -> None:
    process = worker("--grace", "200ms")
    first = child_of(process)
    for _ in range(4):
        app.enqueue("stuck", {})
    process.said("the working process asked to be replaced")
    until(lambda: first not in {each.pid for each in psutil.Process(process.process.pid).children()}, 20)
    assert app.enqueue("slow", {"seconds": 0.0}).result("30s") == "slept"
    assert process.end() == 0


def test_alone_it_asks_its_supervisor_by_75(worker: Start, app: Any, folder: Folder) -> None:
    process = worker("--alone", "--grace", "200ms")
    for _ in range(4):
        app.enqueue("stuck", {})
    assert process.process.wait(30) == 75
    assert "4 threads do not return" in process.err.read_text()


def test_the_end_of_the_parent_is_the_end_of_the_child(worker: Start, app: Any, folder: Folder) -> None:
    process = worker()
    child = psutil.Process(child_of(process))
    assert process.end(signal.SIGKILL) == -9
    until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, 20)
    assert "stopped" in _statuses(app), "it drained"


def test_recovery_needs_no_record_of_the_dead_worker(worker: Start, app: Any, folder: Folder) -> None:
    """B61: the rows of workers are gone before the sweep; the job's own lease is enough."""
    process = worker("--alone")
    job = app.enqueue("slow", {"seconds": 0.7})
    until((folder.path / "slow-began").exists, 20)
    assert process.end(signal.SIGKILL) == -9
    app.program.database.write(lambda tx: tx.execute(sa.text(f"DELETE FROM {_table(app)}")))
    after = worker("--alone")
    assert job.result("30s") == "slept"
    assert [each.outcome for each in _journal(app, job)] == ["lease_expired"]
    assert after.end() == 0


def test_dev_starts_anew_when_a_file_changes(worker: Start, app: Any, folder: Folder) -> None:
    process = worker("--dev")
    assert "look         lease 6 s, heartbeat 1 s, missed 1, margin 2 s" in process.said("tenure.plan")
    folder.file.write_text(folder.file.read_text() + "\n\n@app.tool()\ndef novelty() -> int:\n    return 7\n")
    _touch(folder.file)
    process.said("novelty")
    assert f"{folder.file} changed" in process.err.read_text()
    folder.file.write_text("def broken(:\n")
    _touch(folder.file)
    process.said("waiting for a change")
    assert "cannot be read: invalid syntax" in process.err.read_text()
    folder.file.write_text(
        "from tenure import Tenure\napp = Tenure()\n\n@app.tool()\ndef mended() -> int:\n    return 1\n"
    )
    _touch(folder.file)
    process.said("mended")
    assert process.end() == 0


def _touch(path: Path) -> None:
    """Moves the file's time on, should the clock of the file system be coarse."""
    stamp = path.stat().st_mtime + 5
    os.utime(path, (stamp, stamp))


def test_the_database_is_not_there(started: Start, folder: Folder) -> None:
    process = started("worker", folder.app, "--database", "postgresql://nobody:secret@127.0.0.1:1/x")
    assert process.process.wait(30) == 4
    error = process.err.read_text()
    assert len(error.splitlines()) == 1
    assert "127.0.0.1" in error
    assert "secret" not in error


def test_events_are_followed(
    cli: Cli, started: Start, worker: Start, app: Any, folder: Folder, database_url: str
) -> None:
    app.submit("lamp", session_id="s", command="peek")
    follower = started("events", "s", "--follow", "--json", "--database", database_url)
    follower.said("turn_created")
    process = worker()
    follower.said("turn_completed")
    assert follower.end(signal.SIGINT) == 130
    lines = [json.loads(line) for line in follower.out.read_text().splitlines()]
    assert [line["event_seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert follower.err.read_text() == ""
    assert process.end() == 0
