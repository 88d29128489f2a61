"""What people and programs are shown of turns, jobs, approvals, events and workers, on both databases."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tenure import Tenure
from tenure.cli.loading import load_app
from tenure.db.engine import Database
from tests import factory
from tests.cli.conftest import Cli, Folder


@pytest.fixture
def told(folder: Folder, database_url: str, tmp_path: Path) -> dict[str, Any]:
    """A turn that waits for a person, one that failed, and a bare job that nobody offers to run."""
    app = load_app(folder.app, database_url)
    with app.worker(without=["slow"]):
        waiting = app.submit("lamp", session_id="shop", command="buy").wait("20s", for_approval=True)
        failed = app.submit("chair", session_id="other", command="fail").wait("20s")
        bare = app.enqueue("slow", {"seconds": 0.0})
    told = {"waiting": waiting.row, "failed": failed.row, "bare": bare.row, "url": database_url}
    told["jobs"] = {job.tool: job for turn in (waiting, failed) for job in turn.jobs() if job.tool != "tenure.plan"}
    told["approval"] = waiting.pending()[0]
    app.close()
    return told


def test_turns(cli: Cli, told: dict[str, Any]) -> None:
    listed = cli("turns", "--json", database=told["url"]).json
    assert [turn["turn_id"] for turn in listed] == [told["failed"].turn_id, told["waiting"].turn_id]
    assert listed[0]["status"] == "failed"
    assert listed[0]["error_code"] == "not_here"
    assert datetime.fromisoformat(listed[0]["created_at"]).utcoffset() is not None
    table = cli("turns", database=told["url"]).out
    assert told["waiting"].turn_id in table
    assert "awaiting_approval" in table
    narrow = cli("turns", "--session", "shop", "--status", "awaiting_approval", "--json", database=told["url"]).json
    assert [turn["session_id"] for turn in narrow] == ["shop"]
    assert cli("turns", "--limit", "1", "--json", database=told["url"]).json == listed[:1]
    assert cli("turns", "--tenant", "else", database=told["url"]).out == "no turns\n"
    assert "right is one of created, planning" in cli("turns", "--status", "done", database=told["url"]).error


def test_one_turn(cli: Cli, told: dict[str, Any]) -> None:
    turn_id = told["waiting"].turn_id
    shown = cli("turns", turn_id, "--json", database=told["url"]).json
    assert [(item["name"], item["status"]) for item in shown["items"]] == [
        ("look", "completed"),
        ("pay", "awaiting_approval"),
    ]
    assert [job["tool"] for job in shown["jobs"]] == ["tenure.plan", "look"]
    assert [each["approval_id"] for each in shown["pending_approvals"]] == [told["approval"].approval_id]
    assert "hunter2!" not in str(shown), "arguments are shown masked"
    table = cli("turns", turn_id, database=told["url"]).out
    assert f"tenure approvals approve {told['approval'].approval_id} --by NAME" in table
    assert "hunter2!" not in table


def test_jobs(cli: Cli, told: dict[str, Any]) -> None:
    listed = cli("jobs", "--json", database=told["url"]).json
    by_tool = {job["tool"]: job for job in listed}
    assert set(by_tool) == {"tenure.plan", "look", "broken", "slow"}
    assert by_tool["broken"]["status"] == "failed"
    assert by_tool["slow"]["status"] == "queued"
    table = cli("jobs", database=told["url"]).out
    assert "no worker offers 'slow' (start: tenure worker module:app)" in table
    assert "not_here" in table
    failed = cli("jobs", "--status", "failed", "--json", database=told["url"]).json
    assert [job["tool"] for job in failed] == ["broken"]
    assert [job["tool"] for job in cli("jobs", "--tool", "slow", "--json", database=told["url"]).json] == ["slow"]
    assert cli("jobs", "--tool", "none", database=told["url"]).out == "no jobs\n"


def test_one_job_has_its_ownership_timeline(cli: Cli, told: dict[str, Any]) -> None:
    job = told["jobs"]["look"]
    shown = cli("jobs", job.job_id, "--json", database=told["url"]).json
    (owner,) = shown["owners"]
    assert owner["owner"] == job.lease_owner
    assert owner["fencing_token"] == job.fencing_token == shown["fencing_token"]
    assert (owner["outcome"], owner["stages"]) == ("completed", ["seen"])
    assert [stage["name"] for stage in shown["stages"]] == ["seen"]
    table = cli("jobs", job.job_id, database=told["url"]).out
    assert job.lease_owner in table
    assert "ownership" in table
    assert "seen" in table


def test_a_job_that_nobody_claimed(cli: Cli, told: dict[str, Any]) -> None:
    table = cli("jobs", "show", told["bare"].job_id, database=told["url"]).out
    assert "nobody has claimed it yet" in table
    assert "ownership (no worker offers 'slow'" in table


@pytest.mark.parametrize("kind", ["job", "turn"])
@pytest.mark.parametrize("given", ["nonsense", "01a22d9d-7619-70a1-87fb-c495b9d052bf"])
def test_ids_that_nobody_has(cli: Cli, database: Database, database_url: str, kind: str, given: str) -> None:
    ran = cli(f"{kind}s", given, database=database_url)
    assert ran.code == 1
    assert f"no {kind} '{given}'" in ran.error


def test_approvals(cli: Cli, told: dict[str, Any]) -> None:
    (listed,) = cli("approvals", "--json", database=told["url"]).json
    assert listed["approval_id"] == told["approval"].approval_id
    assert listed["status"] == "pending"
    table = cli("approvals", database=told["url"]).out
    assert 'pay {"name": "lamp"' in table
    assert "hunter2!" not in table + str(listed)
    assert cli("approvals", "--status", "denied", database=told["url"]).out == "no approvals\n"
    assert len(cli("approvals", "show", "--status", "all", "--json", database=told["url"]).json) == 1


def test_events(cli: Cli, told: dict[str, Any]) -> None:
    listed = cli("events", "shop", "--json", database=told["url"]).json
    assert [event["event_seq"] for event in listed] == list(range(1, len(listed) + 1))
    assert listed[0]["type"] == "turn_created"
    assert listed[-1]["type"] == "approval_requested"
    assert cli("events", "shop", "--after", str(len(listed) - 1), "--json", database=told["url"]).json == listed[-1:]
    lines = cli("events", "shop", database=told["url"]).out.splitlines()
    assert len(lines) == len(listed)
    assert "stage=seen" in next(line for line in lines if "stage_saved" in line)
    assert cli("events", "shop", "--after", "9999", database=told["url"]).out == "no events after 9999\n"
    missing = cli("events", "nobody", database=told["url"])
    assert missing.code == 1
    assert "no session 'nobody'" in missing.error


def test_long_logs_are_read_to_the_end(cli: Cli, database: Database, database_url: str) -> None:
    session = factory.session(database)
    factory.events(database, session.key, 1_203)
    assert len(cli("events", "s", "--json", database=database_url).json) == 1_203


def test_workers(cli: Cli, database: Database, database_url: str) -> None:
    assert "no workers (start one: tenure worker module:app)" in cli("workers", database=database_url).out
    factory.worker(database, "here:1", name="here", tools=["a", "b"])
    factory.worker(database, "silent:2", name="silent", beat_in=-120.0)
    (worker,) = cli("workers", "--json", database=database_url).json
    assert worker["owner"] == "here:1"
    assert worker["tools"] == ["a", "b"]
    assert "here:1" in cli("workers", database=database_url).out


def test_nothing_shown_is_obeyed_by_a_terminal(cli: Cli, database: Database, database_url: str) -> None:
    session = factory.session(database)
    turn = factory.turn(database, session.key, status="failed", error_text="\x1b]0;owned\x07\x1b[31mred\nsecond line")
    table = cli("turns", turn.turn_id, database=database_url).out
    assert "\x1b" not in table
    assert "\x07" not in table
    assert "second line" in next(line for line in table.splitlines() if "owned" in line)


def test_tables_are_not_cut_where_there_is_no_terminal(cli: Cli, database: Database, database_url: str) -> None:
    session = factory.session(database, "s" * 150)
    turn = factory.turn(database, session.key)
    line = next(line for line in cli("turns", database=database_url).out.splitlines() if turn.turn_id in line)
    assert "s" * 150 in line


def test_the_environment_names_the_database(
    cli: Cli, database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    factory.session(database)
    monkeypatch.setenv("TENURE_DATABASE_URL", database_url)
    assert cli("events", "s", "--json").json == []
    assert isinstance(Tenure().settings.database_url, str)
