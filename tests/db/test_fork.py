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
from tenure.db.engine import Database
from tenure.errors import DatabaseError
from tenure.records import RowKey
from tenure.store import projects

signal.alarm(40)
database = Database(sys.argv[1])

def put(name, run=database.write):
    run(lambda tx: projects.ensure(tx, RowKey("default", name)))

def put_or_hear(run=database.write):
    # A connection that was in use is carried across the fork, which SQLite does not bear.
    try:
        put("child", run)
    except DatabaseError as error:
        assert database.is_sqlite and "was in use when this process was forked" in str(error), repr(error)
    else:
        assert not database.is_sqlite, "a commit that the parent may take away"

def child(body, *given):
    pid = os.fork()
    if pid == 0:
        signal.alarm(40)
        try:
            body(*given)
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
database.dispose()
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
pid = child(put_or_hear, kept.single)
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
    if "put_or_hear" in CASES[case]:
        expected.add("child")
        if database.is_sqlite:
            expected.remove("child")
    assert {row["project_id"] for row in factory.rows(database, project_contexts)} == expected
    database.dispose()
