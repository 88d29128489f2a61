"""The examples, run as a user runs them: `python examples/quickstart.py`, on both databases, in an empty folder."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tenure.db.engine import Database
from tenure.db.schema import (
    agent_turns,
    approval_requests,
    background_jobs,
    job_attempts,
    job_stages,
)
from tests.postgres import ROOT

EXAMPLES = ROOT / "examples"
PROGRAMS = ["quickstart", "approval", "orders", "killed"]
Run = Callable[..., str]


@pytest.fixture
def run(database_url: str, tmp_path: Path) -> Run:
    def run(name: str, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
            cwd=tmp_path,
            env={
                **{key: value for key, value in os.environ.items() if key != "BANK_URL"},
                "PYTHONPATH": str(ROOT / "src"),
                "PYTHONDONTWRITEBYTECODE": "1",
                "TENURE_DATABASE_URL": database_url,
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture
def rows(database_url: str) -> Iterator[Callable[[sa.Select[Any]], list[Any]]]:
    """Verdicts come from the tables."""
    database = Database(database_url)
    yield lambda statement: [tuple(row) for row in database.read(lambda tx: tx.rows(statement))]
    database.write(lambda tx: tx.connection.exec_driver_sql("DROP TABLE IF EXISTS orders"))  # an example's own
    database.dispose()


def test_the_quick_start(run: Run, rows: Callable[[Any], list[Any]]) -> None:
    assert run("quickstart") == "charge_id='ch_1' amount=500\n"
    assert rows(sa.select(background_jobs.c.status, background_jobs.c.attempt)) == [("completed", 1)]
    stages = job_stages.c
    assert rows(sa.select(stages.kind, stages.name, stages.state, stages.effect_key, stages.answer)) == [
        ("effect", "charge", "done", "payment:A-17:capture", {"id": "ch_1", "invoice": "A-17", "amount": 500})
    ]


def test_an_invoice_is_charged_once_however_often_the_program_runs(
    run: Run, monkeypatch: pytest.MonkeyPatch, rows: Callable[[Any], list[Any]]
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.delenv("BANK_URL", raising=False)
    from bank import opened

    with opened() as bank:
        assert bank is not None
        for _ in range(2):
            assert run("quickstart", BANK_URL=bank.url) == "charge_id='ch_1' amount=500\n"
        assert bank.heard == 2
        assert list(bank.book) == ['"payment:A-17:capture"']
    assert len(rows(sa.select(background_jobs.c.job_id))) == 2


def test_a_step_that_needs_a_person_survives_the_end_of_the_program(run: Run, rows: Callable[[Any], list[Any]]) -> None:
    asked = re.fullmatch(r"asked (\S+): may I delete_rows \{'table': 'tmp_a', 'limit': 50\}\?\n", run("approval"))
    assert asked is not None
    approvals, turns = approval_requests.c, agent_turns.c
    assert rows(sa.select(approvals.approval_id, approvals.status)) == [(asked[1], "pending")]
    assert rows(sa.select(turns.status)) == [("awaiting_approval",)]
    running = sa.select(background_jobs.c.job_id).where(background_jobs.c.status.in_(["queued", "running"]))
    assert rows(running) == [], "nothing waits"
    answered = run("approval").splitlines()
    assert answered[0].startswith("approved by ")
    assert answered[1] == "{'count': 50, 'delete': 'deleted 50 rows of tmp_a'}"
    assert rows(sa.select(approvals.approval_id, approvals.status)) == [(asked[1], "approved")]
    assert rows(sa.select(turns.status)) == [("completed",)]


def test_a_job_in_the_callers_own_transaction(run: Run, rows: Callable[[Any], list[Any]]) -> None:
    expected = "order 1: order 1 went to Riga\norder 2: undone, and no job of it\norders kept: 1\n"
    assert run("orders") == expected
    assert rows(sa.select(sa.column("id")).select_from(sa.text("orders"))) == [(1,)]
    jobs = background_jobs.c
    assert rows(sa.select(jobs.idempotency_key, jobs.status)) == [("order:1:ship", "completed")]
    assert run("orders") == expected, "and again: the order's key gives its job back"
    assert len(rows(sa.select(jobs.job_id))) == 1


@pytest.mark.timeout(120)
def test_a_killed_worker_does_not_charge_twice(run: Run, rows: Callable[[Any], list[Any]]) -> None:
    first, second, third = run("killed").splitlines()
    assert first == "worker 1 ended with -9; the bank has 1 charge, the job is running"
    assert re.fullmatch(r"worker 2: ch_1 by attempt 2 under token \d+", second)
    assert third == "the bank heard 2 requests and made 1 charge"
    journal, jobs, stages = job_attempts.c, background_jobs.c, job_stages.c
    (lost,) = rows(sa.select(journal.outcome, journal.fencing_token, journal.owner))
    (job,) = rows(sa.select(jobs.status, jobs.fencing_token, jobs.lease_owner, jobs.attempt))
    assert (lost[0], job[0], job[3]) == ("lease_expired", "completed", 2)
    assert job[1] > lost[1]
    assert rows(sa.select(stages.state, stages.fencing_token)) == [("done", job[1])]


# -- how they are written ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_is_short_and_says_what_it_is(name: str) -> None:
    text = (EXAMPLES / f"{name}.py").read_text("utf-8")
    assert len(text.splitlines()) <= 60
    described = ast.get_docstring(ast.parse(text))
    assert described is not None
    assert f"python examples/{name}.py" in described


def test_every_example_is_run_here() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.py")) == sorted([*PROGRAMS, "bank"])


def test_the_quick_start_is_the_one_of_the_specification() -> None:
    """Its tool, statement by statement: what a reader of the README types is what is tested."""
    tree = ast.parse((EXAMPLES / "quickstart.py").read_text("utf-8"))
    tool = next(node for node in tree.body if isinstance(node, ast.FunctionDef))
    tool.decorator_list, decorator = [], ast.unparse(tool.decorator_list[0])
    assert decorator == "app.tool(timeout='2m', max_attempts=5)"
    assert ast.unparse(tool) == (
        "def charge(ctx: ToolContext, invoice: str, amount: int) -> Receipt:\n"
        "    body = {'invoice': invoice, 'amount': amount}\n"
        "    answer = ctx.effect('charge', lambda call: httpx2.post(os.environ['BANK_URL'], json=body, "
        "headers=call.headers), request=body, key=f'payment:{invoice}:capture', repeat='safe')\n"
        "    return Receipt(charge_id=answer['id'], amount=amount)"
    )
