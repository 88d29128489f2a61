"""What `tenure.testing` gives to users: the clock, also in a child process, and `tenure_run`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tenure import flow
from tenure.db.engine import Database
from tenure.flow import BareJob, Program
from tenure.planner import Step
from tenure.testing import Clock
from tenure.testing.plugin import App, Run
from tenure.testing.plugin import tenure_run as tenure_run
from tests.flow.world import World

CHILD = """
import sys
from tenure.db.engine import Database
from tenure.store import claims
from tenure.testing import attach_clock
database = Database(sys.argv[1])
if sys.argv[2] == "attached":
    attach_clock(database)
print(len(database.single(lambda tx: claims.claim(tx, "child", {"read": 90.0}, 9))))
database.dispose()
"""


@dataclass
class Small:
    """The least that a user's app is."""

    program: Program


def test_a_child_sees_the_clock_when_it_asks_for_it_and_only_then(world: World) -> None:
    flow.enqueue(world.program, BareJob(tool="read", arguments={}, delay_s=3600))
    world.clock.advance("61m")
    url = world.database.url.render_as_string(hide_password=False)
    for word, claimed in (("not", "0"), ("attached", "1")):
        done = subprocess.run(
            [sys.executable, "-c", CHILD, url, word], capture_output=True, text=True, timeout=50, check=True
        )
        assert done.stdout.strip() == claimed, done.stderr


def test_a_clock_starts_at_the_databases_own_time(world: World) -> None:
    flow.enqueue(world.program, BareJob(tool="read", arguments={}, delay_s=3600))
    world.clock.advance("61m")
    Clock(world.database)
    assert world.claim("read") == []


def test_nothing_in_the_product_selects_a_test_clock(database_url: str) -> None:
    database = Database(database_url)
    assert database.clock_shift is None
    assert database.checkpoint is None
    assert not hasattr(database.engine.dialect, "tenure_clock_shift")
    database.dispose()


@pytest.mark.parametrize("point", ["job_started", "flow.begin.begin"])
def test_a_worker_is_killed_after_an_event_and_another_goes_on(
    world: World, tenure_run: Callable[[App], Run], point: str
) -> None:
    run = tenure_run(Small(world.program))
    turn = world.submit(Step("a", "read"))
    run.kill_worker(after=point)
    assert world.jobs(turn)[0].status == "running"
    assert run.worker.owner == "w2"
    run.clock.advance("91s")
    assert run.drain() == 3  # the planner again, the step, the planner's answer
    assert world.turn(turn).status == "completed"


def test_a_lost_answer_is_an_attempt_that_ran_and_is_run_again(world: World, tenure_run: Callable[[App], Run]) -> None:
    run = tenure_run(Small(world.program))
    turn = world.submit(Step("a", "read", n=3))
    run.lose_answer("read")
    run.drain()
    assert (world.calls, world.turn(turn).status) == ([("read", 3)], "running")
    run.clock.advance("91s")
    run.drain()
    assert (world.calls, world.turn(turn).status) == ([("read", 3)] * 2, "completed")


def test_a_point_that_is_never_reached_is_said(world: World, tenure_run: Callable[[App], Run]) -> None:
    run = tenure_run(Small(world.program))
    world.submit(Step("a", "read"))
    with pytest.raises(AssertionError, match="nothing came to 'no_such_event'"):
        run.kill_worker(after="no_such_event")
