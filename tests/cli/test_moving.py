"""Commands that change something: what they did is in the tables, and the workers do what follows."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.canon import uuid7
from tenure.cli.loading import load_app
from tests.cli.conftest import Cli, Folder


@pytest.fixture
def app(folder: Folder, database_url: str) -> Any:
    loaded = load_app(folder.app, database_url)
    yield loaded
    loaded.close()


def test_an_approval_sends_the_turn_on(cli: Cli, app: Any, database_url: str) -> None:
    with app.worker():
        turn = app.submit("lamp", session_id="s", command="buy").wait("20s", for_approval=True)
        approval_id = turn.pending()[0].approval_id
        ran = cli("approvals", "approve", approval_id, "--by", "ann", "--reason", "fine", database=database_url)
        assert ran.out == f"approval {approval_id} is approved by ann\n"
        assert turn.result("20s")["pay"] == "paid lamp"
    (row,) = cli("approvals", "--status", "all", "--json", database=database_url).json
    assert (row["decided_by"], row["decided_from"], row["decided_reason"]) == ("ann", "cli", "fine")
    again = cli("approvals", "approve", approval_id, "--by", "ann", "--json", database=database_url)
    assert (again.code, again.json["status"]) == (0, "approved")
    other = cli("approvals", "deny", approval_id, "--by", "bob", database=database_url)
    assert other.code == 1
    assert f"approval {approval_id} is approved already" in other.error


def test_a_denial_fails_the_turn(cli: Cli, app: Any, database_url: str) -> None:
    with app.worker():
        turn = app.submit("lamp", session_id="s", command="buy").wait("20s", for_approval=True)
        assert cli("approvals", "deny", turn.pending()[0].approval_id, "--by", "ann", database=database_url).code == 0
        assert turn.wait("20s").row.status == "failed"
    assert turn.row.error_code == "approval_denied"


def test_who_decides_must_be_named(cli: Cli, database_url: str) -> None:
    assert "Missing option '--by'" in cli("approvals", "approve", uuid7(), database=database_url).error
    blank = cli("approvals", "approve", uuid7(), "--by", "  ", database=database_url)
    assert blank.code == 2
    assert "by: expected 1-200 printable characters" in blank.error
    absent = cli("approvals", "deny", uuid7(), "--by", "ann", database=database_url)
    assert absent.code == 1
    assert "no approval" in absent.error


def test_a_job_is_cancelled_and_opened_again(cli: Cli, app: Any, database_url: str) -> None:
    job = app.enqueue("slow", {"seconds": 0.0})
    assert cli("jobs", "cancel", job.id, "--by", "ann", database=database_url).out == f"job {job.id} is cancelled\n"
    assert job.refresh().row.cancel_requested_by == "ann"
    again = cli("jobs", "cancel", job.id, database=database_url)
    assert again.code == 1
    assert f"job {job.id} is cancelled already" in again.error
    assert cli("jobs", "retry", job.id, "--json", database=database_url).json["status"] == "queued"
    queued = cli("jobs", "retry", job.id, database=database_url)
    assert queued.code == 1
    assert "only a failed or cancelled one is opened again" in queued.error
    with app.worker():
        assert job.result("20s") == "slept"


def test_a_step_of_a_failed_turn_is_tried_again(cli: Cli, app: Any, database_url: str) -> None:
    with app.worker():
        turn = app.submit("x", session_id="s", command="fail").wait("20s")
        job = next(job for job in turn.jobs() if job.tool == "broken")
        assert cli("jobs", "retry", job.job_id, database=database_url).code == 0
        turn.wait("20s")
        assert app.job(job.job_id).wait("20s").row.status == "failed"
    assert [event.type for event in app.events("s")].count("item_failed") == 2


# -- submit ------------------------------------------------------------------------------------------------------------


def test_submit_returns_at_once(cli: Cli, folder: Folder, app: Any, database_url: str) -> None:
    arguments = ("submit", folder.app, "peek", "--session", "s", "--input", '"lamp"', "--key", "k", "--json")
    made = cli(*arguments, database=database_url).json
    assert (made["status"], made["replayed"], made["input"]) == ("planning", False, "lamp")
    again = cli(*arguments, database=database_url).json
    assert (again["turn_id"], again["replayed"]) == (made["turn_id"], True)
    text = cli("submit", folder.app, "peek", "--session", "two", database=database_url).out
    assert text.endswith(" is planning\n")
    assert app.turn(made["turn_id"]).row.command == "peek"


def test_submit_waits(cli: Cli, folder: Folder, app: Any, database_url: str) -> None:
    with app.worker():
        done = cli(
            *("submit", folder.app, "peek", "--session", "s", "--project", "p", "--user", "u", "--wait", "--json"),
            *("--input", '"lamp"'),
            database=database_url,
        )
        assert done.code == 0
        assert done.json["output"] == {"look": {"name": "lamp"}}
        assert (done.json["project_id"], done.json["user_id"]) == ("p", "u")
        failed = cli("submit", folder.app, "fail", "--session", "s", "--input", '"x"', "--wait", database=database_url)
        assert failed.code == 1
        assert "not_here" in failed.out


def test_submit_says_what_it_waits_for(cli: Cli, folder: Folder, app: Any, database_url: str) -> None:
    with app.worker():
        ran = cli(
            *("submit", folder.app, "buy", "--session", "s", "--input", '"x"', "--wait", "--timeout", "3s"),
            database=database_url,
        )
    assert ran.code == 1
    first, last = ran.err.splitlines()
    assert first.startswith("waits for a person: tenure approvals approve ")
    assert "is awaiting_approval" in last
    nobody = cli(
        *("submit", folder.app, "peek", "--session", "t", "--input", '"x"', "--wait", "--timeout", "300ms"),
        database=database_url,
    )
    assert nobody.code == 1
    assert "no worker offers 'tenure.plan'" in nobody.error or "queued" in nobody.error


def test_submit_refuses(cli: Cli, folder: Folder, app: Any, database_url: str) -> None:
    first = cli("submit", folder.app, "peek", "--session", "s", "--json", database=database_url).json
    busy = cli("submit", folder.app, "peek", "--session", "s", database=database_url)
    assert busy.code == 1
    assert first["turn_id"] in busy.error
    queued = cli("submit", folder.app, "peek", "--session", "s", "--queue", "--json", database=database_url)
    assert (queued.code, queued.json["status"]) == (0, "created")
    for arguments, text in (
        (("peek", "--session", "s t"), "session"),
        (("nothing", "--session", "z"), "no recipe for command 'nothing'; known: buy, fail, peek"),
        (("peek", "--session", "z", "--input", "{"), "--input is not JSON"),
    ):
        ran = cli("submit", folder.app, *arguments, database=database_url)
        assert ran.code == 2
        assert text in ran.error
    assert len(cli("turns", "--json", database=database_url).json) == 2
