"""A process may die before and after each commit and each tool call: the story ends as if it had not."""

from __future__ import annotations

import os
import re
import signal
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest

from tenure import flow
from tenure.db.engine import Database
from tenure.errors import TerminalError
from tenure.planner import From, Step
from tenure.records import RowKey, SessionKey
from tenure.store import approvals, jobs, plans, projects, sessions, turns
from tenure.testing import Driver, Killed, KillPoints
from tests.flow.world import World, make

ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
STEPS = [
    Step("a", "read", n=1),
    Step("b", "report", n=From("a.n")),
    Step("c", "read").after("b"),
    Step("d", "skips").optional(),
]
# What a death may change: when, under which token, how often, by whom.
LOOSE = {
    "fencing_token",
    "lease_owner",
    "lease_s",
    "attempt",
    "refunds",
    "last_event_seq",
    "context_version",
    "epoch",
    "request_digest",  # holds the name of the project
    "expires_at",
}


@pytest.fixture
def world(flow_database: Database) -> Iterator[World]:
    made = make(flow_database)
    made.tool("report", approval="required", writes="output", limit=2, max_attempts=9)
    made.tool("skips", _refuses, max_attempts=9)
    yield made
    made.check()


def _refuses() -> None:
    raise TerminalError("not today")


def story(world: World, session: str, worker: Driver) -> None:
    """Idempotent from end to end: whoever died begins it anew."""
    request = flow.Request(
        session_id=session, steps=[step.stored() for step in STEPS], project_id=f"p-{session}", idempotency_key="k"
    )
    turn, _ = flow.submit(world.program, request)
    worker.drain()
    for approval in world.database.read(lambda tx: approvals.listed(tx, "default")):
        world.decide(approval)
    worker.drain()
    assert world.turn(turn).status == "completed"


def snapshot(world: World, session: str) -> str:
    """The session's rows without what a death may change, ids numbered as they appear."""
    key = SessionKey("default", session)

    def body(tx: Any) -> list[Any]:
        (turn,) = turns.listed(tx, "default", session_id=session)
        rows: list[Any] = [sessions.get(tx, key), turn, *plans.of_turn(tx, turn.key), *jobs.of_turn(tx, turn.key)]
        found = approvals.listed(tx, "default", status=None, limit=500)
        rows += [approval for approval in found if approval.session_id == session]
        rows += [grant for grant in approvals.grants(tx, "default", limit=500) if grant.session_id == session]
        return [*rows, projects.get(tx, RowKey("default", f"p-{session}"))]

    kept = [
        {name: str(value) for name, value in asdict(row).items() if name not in LOOSE and not name.endswith("_at")}
        for row in world.database.read(body)
    ]
    seen: dict[str, str] = {}
    text = "\n".join(map(str, kept)).replace(f"p-{session}", "PROJECT").replace(f"'{session}'", "SESSION")
    return ID.sub(lambda found: seen.setdefault(found[0], f"id{len(seen)}"), text)


def reached(world: World) -> tuple[list[str], str]:
    points = KillPoints().watch(world.database)
    story(world, "whole", Driver(world.program, "w0", points=points))
    world.database.checkpoint = None
    return points.reached, snapshot(world, "whole")


def after_death(world: World, session: str, number: int) -> None:
    """What it held runs out, and a new worker takes the story up."""
    world.clock.advance("91s")
    world.database.checkpoint = None
    story(world, session, Driver(world.program, f"w{number}"))


@pytest.mark.timeout(120)
def test_every_point_at_which_a_process_can_die(world: World) -> None:
    points, whole = reached(world)
    print(f"{len(points)} kill points:", *points, sep="\n  ")
    for verb in ("submit.submit", "begin.begin", "settle.settle", "decide.decide", "assess._write", "admit._admit_at"):
        assert f"before flow.{verb}" in points
        assert f"after flow.{verb}" in points
    assert "before tool report" in points
    for at in range(len(points)):
        session = f"s{at}"
        deadly = KillPoints(at=at).watch(world.database)
        with pytest.raises(Killed):
            story(world, session, Driver(world.program, f"dying{at}", points=deadly))
        after_death(world, session, at)
        assert snapshot(world, session) == whole, f"after a death at {at}: {points[at]}"


def test_a_real_kill_is_no_other(world: World) -> None:
    points, whole = reached(world)
    for at in range(3, len(points), 9):
        session = f"s{at}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # later Pythons warn of threads; the child needs none
            child = os.fork()
        if not child:
            _die(world, session, at)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), f"exit {status} at {points[at]}"
        assert os.WTERMSIG(status) == signal.SIGKILL
        after_death(world, session, at)
        assert snapshot(world, session) == whole, f"after a kill at {at}: {points[at]}"


def _die(world: World, session: str, at: int) -> None:
    try:
        deadly = KillPoints(at=at, how="kill").watch(world.database)
        story(world, session, Driver(world.program, f"dying{at}", points=deadly))
    finally:
        os._exit(3)
