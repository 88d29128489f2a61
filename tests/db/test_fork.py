"""A forked child opens its own connections, and its parent's go on as before."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tenure.db.engine import Database
from tenure.db.schema import project_contexts
from tests import factory
from tests import postgres as harness

# Run by an interpreter of its own: the test process may have threads, with which forking is not safe.
PROGRAM = """
import os, signal, sys, threading
from tenure.db import engine
from tenure.db.engine import Database
from tenure.errors import DatabaseUnavailable
from tenure.records import RowKey
from tenure.store import projects

signal.alarm(40)
database = Database(sys.argv[1])

def put(name, run=database.write):
    run(lambda tx: projects.ensure(tx, RowKey("default", name)))

def child(body):
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        try:
            body()
        except BaseException as error:
            print("child:", repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    return pid

def ended(pid):
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status == 0, f"the child ended with {status}"
"""
CASES = {
    "after use": """
put("before")
pid = child(lambda: put("child"))
put("parent")
ended(pid)
put("after")
""",
    "before use": """
pid = child(lambda: put("child"))
put("parent")
ended(pid)
""",
    "with a kept connection": """
kept = database.keep()
put("before", kept.single)
pid = child(lambda: put("child", kept.single))
put("parent", kept.write)
ended(pid)
put("after", kept.single)
""",
    "while another thread is writing": """
inside, go_on = threading.Event(), threading.Event()

def slow(tx):
    projects.ensure(tx, RowKey("default", "thread"))
    inside.set()
    assert go_on.wait(10)

thread = threading.Thread(target=lambda: database.write(slow))
thread.start()
assert inside.wait(10)

def put_or_hear():
    # SQLite itself takes the parent's open transaction for one of the child's own: BUSY for ever, but no hang.
    try:
        put("child")
    except DatabaseUnavailable as error:
        assert database.is_sqlite and "database is locked" in str(error)

engine.BUSY_SECONDS = 0.02
pid = child(put_or_hear)
ended(pid)
go_on.set()
thread.join(20)
put("after")
""",
    "with a waiter": """
database.wakeup.wait(database.wakeup.generation, 0.2)

def wait():
    seen = database.wakeup.generation
    put("child")
    database.write(lambda tx: tx.wake())
    database.wakeup.wait(seen, 30)
    database.dispose()

pid = child(wait)
ended(pid)
put("parent")
database.dispose()
""",
}


@pytest.mark.parametrize("case", CASES)
def test_both_go_on(database_url: str, case: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM + CASES[case], database_url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, cwd=harness.ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    expected = {name for name in ("before", "child", "parent", "thread", "after") if f'"{name}"' in CASES[case]}
    database = Database(database_url)
    if database.is_sqlite and case == "while another thread is writing":
        expected.remove("child")
    assert {row["project_id"] for row in factory.rows(database, project_contexts)} == expected
    database.dispose()
