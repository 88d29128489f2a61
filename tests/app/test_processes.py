"""Many processes at once, a fork in the middle, and a module that opens nothing when it is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tenure import Tenure
from tests.app.running import Made, jobs_of
from tests.postgres import ROOT

ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.mark.parametrize("verb", ["submit", "enqueue"])
def test_fifty_equal_requests_in_four_processes_make_one_thing(made: Made, database_url: str, verb: str) -> None:
    """B15: all get the same id; exactly one of them made it."""
    counts = (13, 13, 12, 12)
    command = [sys.executable, "-m", "tests.app.submitter", database_url, verb]
    processes = [
        subprocess.Popen([*command, str(count)], cwd=ROOT, env=ENVIRONMENT, stdin=-1, stdout=-1, stderr=-1, text=True)
        for count in counts
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    ends = [process.communicate(timeout=45) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, ends
    answers = [answer for out, _ in ends for answer in json.loads(out)]
    assert len(answers) == 50
    assert len({found for found, _, _ in answers}) == 1
    assert [replayed for _, replayed, _ in answers].count(False) == 1
    assert {status for _, _, status in answers} == {"planning" if verb == "submit" else "queued"}
    assert jobs_of(made.app) == 1
    if verb == "submit":
        kinds = [event.type for event in made.app.events("s")]
        assert kinds == ["turn_created", "turn_running", "round_started", "job_queued"]


def run(source: str, *arguments: str, cwd: Path, **environment: str) -> Any:
    """The JSON that a program prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", source, *arguments],
        cwd=cwd,
        env={**ENVIRONMENT, **environment},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


IMPORTED = """
import json, logging, os, signal, sys, threading, socket
handlers = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)}
files = len(os.listdir("/proc/self/fd"))
from tenure import Final, Step, Steps, Tenure
app = Tenure()
@app.tool(limit=3)
def add(a: int) -> int: return a
@app.recipe("add")
def adding(turn): return Steps(Step("a", add, a=1))
context = app.worker()
lifespan = app.lifespan(worker=True)
print(json.dumps({
    "files": os.listdir("."),
    "descriptors": len(os.listdir("/proc/self/fd")) - files,
    "threads": threading.active_count(),
    "signals": all(signal.getsignal(name) == handler for name, handler in handlers.items()),
    "logging": len(logging.getLogger().handlers) + len(logging.getLogger("tenure").handlers),
    "heavy": sorted(name for name in ("psycopg", "fastapi", "httpx2", "openpyxl", "prometheus_client")
                    if name in sys.modules),
}))
"""


@pytest.mark.parametrize("url", ["sqlite:///folder/that/is/not/there.db", "postgresql://nobody@127.0.0.1:1/nothing"])
def test_nothing_is_opened_when_a_program_is_imported(tmp_path: Path, url: str) -> None:
    found = run(IMPORTED, cwd=tmp_path, TENURE_DATABASE_URL=url)
    assert found == {"files": [], "descriptors": 0, "threads": 1, "signals": True, "logging": 0, "heavy": []}


FORKED = """
import json, os, sys
from tenure import Tenure
app = Tenure(sys.argv[1])
@app.tool()
def add(a: int) -> int: return a
before = add.enqueue(a=1)
child = os.fork()
if child == 0:
    job = app.enqueue(add, {"a": 2}, idempotency_key="child")
    again = app.job(before.id)
    os._exit(0 if again.row.input == {"a": 1} and job.row.status == "queued" else 1)
_, status = os.waitpid(child, 0)
after = app.enqueue(add, {"a": 2}, idempotency_key="child")
with app.worker():
    print(json.dumps([os.waitstatus_to_exitcode(status), after.replayed, before.result("20s"), after.result("20s")]))
app.close()
"""


def test_an_app_is_used_on_both_sides_of_a_fork(database_url: str, tmp_path: Path) -> None:
    assert run(FORKED, database_url, cwd=tmp_path) == [0, True, 1, 2]


ZONED = """
import json, sys
from tenure import Step, Tenure
from tenure.store import approvals
from tenure.testing import Driver
app = Tenure(sys.argv[1])
@app.tool(approval="required")
def delete(table: str) -> None: ...
turn = app.submit(session_id="s", steps=[Step("a", delete, table="x")])
Driver(app.program).drain()
(approval,) = turn.pending()
app.approve(approval.approval_id, by="anna", scope={}, expires="2031-01-01T10:00:00+05:30")
(grant,) = app.program.database.read(lambda tx: approvals.grants(tx, "default"))
lasts = approval.expires_at - approval.created_at
print(json.dumps([grant.expires_at.isoformat(), turn.row.created_at.isoformat()[-6:], lasts.total_seconds()]))
app.close()
"""


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/Los_Angeles"])
def test_times_are_utc_whatever_the_zone_of_the_machine(database_url: str, tmp_path: Path, zone: str) -> None:
    """B21: what has an offset is that instant; what comes back has an offset."""
    assert run(ZONED, database_url, cwd=tmp_path, TZ=zone) == ["2031-01-01T04:30:00+00:00", "+00:00", 7 * 86400]


def test_a_closed_app_opens_anew(made: Made) -> None:
    first = made.tools.add.enqueue(a=1)
    made.app.close()
    made.app.close()
    made.worker.drain()
    assert first.result("5s") == 3
    assert made.tools.add.enqueue(a=1).status == "queued"


def test_a_wait_after_a_close_sleeps_between_its_looks(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped wake-up must not make every later wait a busy loop."""
    job = made.tools.add.enqueue(a=1)
    made.app.close()
    looks = 0
    read = made.app.program.database.read

    def counting(body: Any) -> Any:
        nonlocal looks
        looks += 1
        return read(body)

    monkeypatch.setattr(made.app.program.database, "read", counting)
    with pytest.raises(Exception, match="no worker offers"):
        job.wait("300ms")
    assert looks < 10


def test_the_database_is_the_argument_else_the_environment_else_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TENURE_DATABASE_URL", raising=False)
    assert Tenure().settings.database_url == "sqlite:///tenure.db"
    monkeypatch.setenv("TENURE_DATABASE_URL", "postgresql://h/d")
    assert Tenure().settings.database_url == "postgresql://h/d"
    assert Tenure("sqlite:///other.db").settings.database_url == "sqlite:///other.db"
