"""1. A request becomes a turn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenure import flow
from tenure.db.engine import Database
from tenure.errors import IdempotencyConflict, InputTooLarge, InvalidInput, NotFound, SessionBusy
from tenure.flow import Request
from tenure.planner import Final, Step, Steps
from tenure.states import TurnStatus
from tenure.testing import Killed, KillPoints
from tests.flow.world import World

READ = Step("a", "read", n=1).stored()


def test_a_request_becomes_a_turn_with_its_planning_job(world: World) -> None:
    turn = world.submit(Step("a", "read"), input="hello", user_id="u", project_id="p")
    (job,) = world.jobs(turn)
    assert (turn.status, turn.round, job.tool, job.round, job.position) == ("planning", 0, flow.PLAN, 1, 0)
    assert world.kinds() == ["turn_created", "turn_running", "round_started", "job_queued"]
    card = world.card()
    assert (card.active_turn_id, card.last_user_text, card.project_id) == (turn.turn_id, "hello", "p")


def test_a_repeated_key_gives_the_same_turn_in_whatever_state_it_is(world: World) -> None:
    request = Request(session_id="s", steps=[READ], idempotency_key="k")
    turn, replayed = flow.submit(world.program, request)
    assert not replayed
    assert flow.submit(world.program, request) == (turn, True)
    world.worker.drain()
    again, replayed = flow.submit(world.program, request)
    assert (again.turn_id, again.status, replayed) == (turn.turn_id, "completed", True)
    flow.submit(world.program, replace(request, idempotency_key=None))  # and busy again: the key comes first
    assert flow.submit(world.program, request)[0].turn_id == turn.turn_id


def test_key_order_does_not_make_another_body(world: World) -> None:
    first, _ = flow.submit(world.program, Request(session_id="s", input={"a": 1, "b": 2}, idempotency_key="k"))
    again, replayed = flow.submit(world.program, Request(session_id="s", input={"b": 2, "a": 1}, idempotency_key="k"))
    assert replayed
    assert again.turn_id == first.turn_id


@pytest.mark.parametrize(
    "change",
    [{"input": {"a": 1.0}}, {"input": {"a": 2}}, {"command": "x"}, {"project_id": "p"}, {"steps": [READ]}],
    ids=lambda change: next(iter(change)),
)
def test_a_key_with_another_body_is_a_conflict_that_does_not_show_the_first(world: World, change: Any) -> None:
    request = Request(session_id="s", input={"a": 1}, idempotency_key="k")
    flow.submit(world.program, request)
    with pytest.raises(IdempotencyConflict) as caught:
        flow.submit(world.program, replace(request, **change))
    assert "'k'" in str(caught.value)
    assert '"a"' not in str(caught.value)


def test_a_key_belongs_to_its_session_and_to_its_operation(world: World) -> None:
    world.tool("bare")
    first, _ = flow.submit(world.program, Request(session_id="s", input=1, idempotency_key="k"))
    other, replayed = flow.submit(world.program, Request(session_id="t", input=2, idempotency_key="k"))
    assert not replayed
    assert other.turn_id != first.turn_id
    _, replayed = flow.enqueue(world.program, flow.BareJob(tool="bare", arguments={}, idempotency_key="k"))
    assert not replayed


def test_a_request_that_created_nothing_keeps_no_key(world: World) -> None:
    active = world.submit(Step("a", "read"))
    with pytest.raises(SessionBusy) as caught:
        world.submit(Step("b", "read"), idempotency_key="k")
    assert caught.value.turn_id == active.turn_id
    world.worker.drain()
    turn, replayed = flow.submit(world.program, Request(session_id="s", input="another", idempotency_key="k"))
    assert not replayed
    assert turn.input == "another"


def test_queued_turns_start_in_order_when_the_one_before_ends(world: World) -> None:
    first = world.submit(Step("a", "read"))
    second, third = (world.submit(Step("a", "read"), on_busy="queue", input=n) for n in (2, 3))
    assert [world.turn(turn).status for turn in (second, third)] == ["created", "created"]
    world.cancel_turn(first)
    assert [world.turn(turn).status for turn in (first, second, third)] == ["cancelled", "planning", "created"]
    assert world.card().active_turn_id == second.turn_id
    world.worker.drain()
    assert [world.turn(turn).status for turn in (second, third)] == ["completed", "completed"]
    assert world.card().active_turn_id is None


def test_a_waiting_turn_can_be_cancelled_before_it_starts(world: World) -> None:
    first, second = world.submit(Step("a", "read")), world.submit(Step("a", "read"), on_busy="queue")
    world.cancel_turn(second)
    assert (world.turn(second).status, world.card().active_turn_id) == ("cancelled", first.turn_id)
    world.worker.drain()
    assert world.turn(second).status == "cancelled"


def test_maintenance_starts_what_a_crash_left_waiting(world: World) -> None:
    first, second = world.submit(Step("a", "read")), world.submit(Step("a", "read"), on_busy="queue")
    from tenure.db.schema import session_contexts

    world.cancel_turn(second)
    third = world.submit(Step("a", "read"), on_busy="queue")
    world.cancel_turn(first)
    assert world.turn(third).status == "planning"
    fourth = world.submit(Step("a", "read"), on_busy="queue")
    # As if the end of `third` had not started it: an older program, or a row that somebody else was at.
    original = flow.turns.start_next
    try:
        flow.turns.start_next = lambda *_: False
        world.cancel_turn(third)
    finally:
        flow.turns.start_next = original
    assert (world.turn(fourth).status, world.card().active_turn_id) == ("created", None)
    flow.maintain(world.program)
    assert (world.turn(fourth).status, world.card().active_turn_id) == ("planning", fourth.turn_id)
    assert session_contexts is not None


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"session_id": "a b"}, InvalidInput),
        ({"session_id": ""}, InvalidInput),
        ({"session_id": "s", "project_id": "session/s"}, InvalidInput),
        ({"session_id": "s", "steps": [{"name": "a"}]}, InvalidInput),
        ({"session_id": "s", "steps": [{**READ, "lease": 5}]}, InvalidInput),
        ({"session_id": "s", "steps": [{**READ, "tool": "nobody"}]}, NotFound),
        ({"session_id": "s", "input": "x" * 1_000_001}, InputTooLarge),
    ],
)
def test_what_cannot_be_a_turn_is_refused_at_the_door(world: World, fields: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        flow.submit(world.program, Request(**fields))
    world.submit(Step("a", "read"))
    assert world.card().last_event_seq == 4


def test_a_session_name_is_stripped(world: World) -> None:
    assert world.submit(Step("a", "read"), session="  s\n").session_id == "s"


def test_an_answer_lost_at_the_commit_is_found_by_the_callers_own_id(world: World) -> None:
    lost = _lose_commit_answers(world.database, 2)
    turn, replayed = flow.submit(world.program, Request(session_id="s", steps=[READ]))
    assert lost == []
    assert not replayed
    assert world.kinds() == ["turn_created", "turn_running", "round_started", "job_queued"]
    assert world.turn(turn).status == TurnStatus.PLANNING


def _lose_commit_answers(database: Database, times: int) -> list[int]:
    """The next commits succeed and their answers are lost."""
    from tenure.errors import CommitUnknown

    left = list(range(times))

    def reach(when: str, what: str) -> None:
        if when == "after" and left:
            left.pop()
            raise CommitUnknown(what)

    database.checkpoint = reach
    return left


def test_a_death_before_the_commit_leaves_nothing_and_after_it_all(world: World) -> None:
    request = Request(session_id="s", steps=[READ], idempotency_key="k")
    for at in (0, 1):
        KillPoints(at=at).watch(world.database)
        with pytest.raises(Killed):
            flow.submit(world.program, request)
        world.database.checkpoint = None
        if at == 0:
            world.database.read(lambda tx: None)
            with pytest.raises(NotFound):
                world.events()
    turn, replayed = flow.submit(world.program, request)
    assert replayed
    assert len(world.jobs(turn)) == 1


def test_a_recipe_that_only_returns_its_steps_ends_with_their_outputs(world: World) -> None:
    world.recipe("twice", lambda turn: Steps(Step("a", "read", n=1), Step("b", "read", n=2)))
    turn = world.submit(command="twice")
    world.worker.drain()
    assert (world.turn(turn).status, world.turn(turn).output) == ("completed", {"a": {"n": 1}, "b": {"n": 2}})


def test_a_turn_may_end_without_a_step(world: World) -> None:
    world.recipe("no", lambda turn: Final({"said": turn.input}))
    turn = world.submit(command="no", input="x")
    world.worker.drain()
    assert (world.turn(turn).status, world.turn(turn).output, world.turn(turn).round) == ("completed", {"said": "x"}, 0)
