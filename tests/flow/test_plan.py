"""2. Planning: what the planner proposes is checked before it gains any authority."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tenure import flow
from tenure.db.engine import Database
from tenure.errors import RetryableError, TerminalError
from tenure.planner import Final, From, Step, Steps, TurnView
from tenure.records import RowKey
from tenure.store import projects
from tenure.testing import VANISH
from tenure.tools import Registry
from tests.flow.world import World, make

Answer = Callable[[TurnView], Any]


def test_independent_steps_are_queued_together_and_dependent_ones_after_them(world: World) -> None:
    turn = world.planned(
        Step("a", "read", n=1), Step("b", "read", n=2), Step("c", "read", n=From("a.n")), Step("d", "read").after("c")
    )
    assert world.item_statuses(turn) == {"a": "queued", "b": "queued", "c": "pending", "d": "pending"}
    assert [lease.tool for lease in world.claim("read")] == ["read", "read"]
    world.clock.advance("91s")
    world.worker.drain()
    assert world.turn(turn).status == "completed"
    assert world.calls == [("read", 1), ("read", 2), ("read", 1), ("read", 0)]


def test_references_lead_into_dicts_and_lists_and_into_nested_arguments(world: World) -> None:
    def listed() -> dict[str, Any]:
        return {"files": [{"id": "f1"}, {"id": "f2"}], "deep": {"n": 3}}

    def takes(ids: list[str], options: dict[str, Any]) -> dict[str, Any]:
        return {"ids": ids, "options": options}

    world.tool("listed", listed)
    world.tool("takes", takes)
    ids = [From("list.files.0.id"), From("list.files.1.id"), "f3"]
    turn = world.submit(Step("list", "listed"), Step("take", "takes", ids=ids, options={"n": From("list.deep.n")}))
    world.worker.drain()
    assert world.turn(turn).output["take"] == {"ids": ["f1", "f2", "f3"], "options": {"n": 3}}
    item = world.items(turn)["take"]
    assert item.depends_on == ["list"]
    assert item.arguments["options"] == {"n": {"$from": "list.deep.n"}}
    assert item.final_arguments == {"ids": ["f1", "f2", "f3"], "options": {"n": 3}}


@pytest.mark.parametrize("path", ["a.m", "a.n.x", "a.0"])
def test_a_reference_that_leads_nowhere_fails_its_step(world: World, path: str) -> None:
    turn = world.submit(Step("a", "read", n=1), Step("b", "read", n=From(path)))
    world.worker.drain()
    assert (world.turn(turn).status, world.turn(turn).error_code) == ("failed", "input_invalid")
    assert world.items(turn)["b"].error_code == "input_invalid"
    assert path.rpartition(".")[2] in str(world.items(turn)["b"].error_text)


def test_arguments_that_validate_only_when_they_are_final_fail_their_step(world: World) -> None:
    world.tool("text", lambda: None)
    turn = world.submit(Step("a", "text"), Step("b", "read", n=From("a")))
    world.worker.drain()
    assert world.item_statuses(turn) == {"a": "completed", "b": "failed"}
    assert "read: n:" in str(world.items(turn)["b"].error_text)


@pytest.mark.parametrize(
    ("answer", "code", "says"),
    [
        (lambda turn: Steps(Step("a", "nobody")), "plan_invalid", "no tool 'nobody'"),
        (lambda turn: Steps(Step("a", "read", n="x")), "plan_invalid", "read: n:"),
        (lambda turn: Steps(Step("a", "read", m=1)), "plan_invalid", "read: m:"),
        (lambda turn: Steps(Step("a", "read"), Step("a", "read")), "plan_invalid", "name is taken"),
        (lambda turn: Steps(Step("a.b", "read")), "plan_invalid", "no dots"),
        (lambda turn: Steps(Step("a", "read", n=From("b")), Step("b", "read", n=From("a"))), "plan_invalid", "'b'"),
        (lambda turn: Steps(Step("a", "read").after("a")), "plan_invalid", "'a'"),
        (lambda turn: Steps(Step("a", "read", n=From("gone.n"))), "plan_invalid", "'gone'"),
        (lambda turn: Steps(), "plan_invalid", "without steps"),
        (lambda turn: "hello", "plan_invalid", "not str"),
        (lambda turn: Steps(*(Step(f"s{n}", "read") for n in range(101))), "too_many_steps", "100 steps"),
        (lambda turn: Final({"x": float("nan")}), "result_not_serializable", "x"),
    ],
)
def test_a_plan_that_is_not_valid_fails_the_turn_at_once(world: World, answer: Answer, code: str, says: str) -> None:
    world.recipe("bad", answer)
    turn = world.submit(command="bad")
    world.worker.drain()
    ended = world.turn(turn)
    assert (ended.status, ended.error_code, world.items(turn)) == ("failed", code, {})
    assert says in str(ended.error_text)
    (job,) = world.jobs(turn)
    assert (job.status, job.attempt, job.error_code) == ("failed", 1, code)


def test_a_command_waits_for_a_program_that_knows_it(world: World) -> None:
    """Two programs may share a database, and a deploy may be half done: no attempt is charged meanwhile."""
    world.recipe("known", lambda turn: Final())
    turn = world.submit(command="unknown")
    world.worker.drain()
    (job,) = world.jobs(turn)
    assert (job.status, job.attempt, job.refunds, job.error_code) == ("queued", 0, 1, "no_planner")
    assert "known: known" in str(job.error_text)
    world.recipe("unknown", lambda turn: Final("done"))
    world.clock.advance("6s")
    world.worker.drain()
    assert (world.turn(turn).status, world.turn(turn).output) == ("completed", "done")


def test_a_command_that_nobody_knows_fails_in_the_end(world: World) -> None:
    turn = world.submit(command="unknown")
    for _ in range(54):
        world.worker.drain()
        world.clock.advance("6s")
    assert (world.turn(turn).status, world.turn(turn).error_code) == ("failed", "no_planner")
    (job,) = world.jobs(turn)
    assert (job.attempt, job.refunds) == (3, 50)


def test_a_step_waits_for_a_program_that_has_its_tool(world: World) -> None:
    turn = world.submit(Step("a", "read", n=1))
    (lease,) = world.running(flow.PLAN)
    settled = world.settle(lease, flow.ask(world.program, lease), follow=False)
    without = replace(world.program, tools=Registry())
    flow.follow(without, settled)
    flow.maintain(without)
    assert world.item_statuses(turn) == {"a": "pending"}
    world.worker.drain()
    assert world.turn(turn).status == "completed"


def test_a_name_of_an_earlier_round_is_taken_too(world: World) -> None:
    world.planners["twice"] = _Plain(lambda turn: Steps(Step("a", "read")))
    turn = world.submit(command="twice")
    world.worker.drain()
    assert (world.turn(turn).status, world.turn(turn).error_code, world.turn(turn).round) == (
        "failed",
        "plan_invalid",
        1,
    )


def test_a_later_round_sees_outputs_and_may_refer_to_them(world: World) -> None:
    def plan(turn: TurnView) -> Steps | Final:
        if turn.round == 1:
            return Steps(Step("a", "read", n=4))
        if turn.round == 2:
            return Steps(Step("b", "read", n=From("a.n")))
        return Final([[item.name, item.status, item.output] for item in turn.items])

    world.planners["rounds"] = _Plain(plan)
    turn = world.submit(command="rounds")
    world.worker.drain()
    assert world.turn(turn).output == [["a", "completed", {"n": 4}], ["b", "completed", {"n": 4}]]
    assert [job.round for job in world.jobs(turn) if job.tool == flow.PLAN] == [1, 2, 3]


def test_a_skipped_step_cannot_be_built_upon(world: World) -> None:
    def plan(turn: TurnView) -> Steps | Final:
        if turn.round == 1:
            return Steps(Step("a", "read").optional())
        return Steps(Step("b", "read", n=From("a.n")))

    world.planners["rounds"] = _Plain(plan)
    world.worker.on("read", TerminalError("no"))
    turn = world.submit(command="rounds")
    world.worker.drain()
    assert (world.turn(turn).status, world.turn(turn).error_code) == ("failed", "plan_invalid")
    assert "was skipped" in str(world.turn(turn).error_text)


def test_rounds_are_bounded(flow_database: Database) -> None:
    world = make(flow_database, max_rounds=3)
    world.planners["more"] = _Plain(lambda turn: Steps(Step(f"a{turn.round}", "read")))
    turn = world.submit(command="more")
    world.worker.drain()
    assert (world.turn(turn).status, world.turn(turn).error_code, world.turn(turn).round) == (
        "failed",
        "too_many_rounds",
        3,
    )
    world.check()


def test_steps_are_bounded_over_all_rounds(flow_database: Database) -> None:
    world = make(flow_database, max_steps=3)
    world.planners["more"] = _Plain(lambda turn: Steps(*(Step(f"a{turn.round}{n}", "read") for n in range(2))))
    turn = world.submit(command="more")
    world.worker.drain()
    assert (world.turn(turn).error_code, world.turn(turn).round, len(world.items(turn))) == ("too_many_steps", 1, 2)
    world.check()


def test_a_planner_that_may_recover_is_asked_again(world: World) -> None:
    answers: list[Any] = [RetryableError("busy", retry_after=5), Final("done")]

    def plan(turn: TurnView) -> Final:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, Final)
        return answer

    world.recipe("shaky", plan)
    turn = world.submit(command="shaky")
    world.worker.drain()
    assert (world.turn(turn).status, world.jobs(turn)[0].status) == ("planning", "queued")
    world.clock.advance("6s")
    world.worker.drain()
    assert (world.turn(turn).status, world.turn(turn).output) == ("completed", "done")
    assert [entry.outcome for entry in world.journal(world.jobs(turn)[0])] == ["retry"]


@pytest.mark.parametrize(
    ("error", "attempts", "code"),
    [(TerminalError("no", code="refused"), 1, "refused"), (ValueError("what"), 3, "exception")],
)
def test_a_planner_that_raises_fails_the_turn_when_it_is_asked_no_more(
    world: World, error: Exception, attempts: int, code: str
) -> None:
    world.worker.on(flow.PLAN, error, error, error)
    turn = world.submit(command="x")
    for _ in range(4):
        world.worker.drain()
        world.clock.advance("1m")
    assert (world.turn(turn).status, world.turn(turn).error_code) == ("failed", code)
    assert (world.jobs(turn)[0].attempt, world.worker.ran) == (attempts, [flow.PLAN] * attempts)
    assert world.card().active_turn_id is None


def test_a_planner_that_dies_is_asked_again_and_then_given_up(world: World) -> None:
    world.worker.on(flow.PLAN, VANISH, VANISH, VANISH)
    turn = world.submit(command="x")
    for _ in range(4):
        world.worker.drain()
        world.clock.advance("91s")
    assert (world.turn(turn).status, world.turn(turn).error_code) == ("failed", "lease_expired")
    assert "worker lost 3 times" in str(world.turn(turn).error_text)


def test_a_plan_of_a_turn_that_ended_meanwhile_creates_nothing(world: World) -> None:
    turn = world.submit(Step("a", "read"))
    (lease,) = world.running(flow.PLAN)
    planned = flow.ask(world.program, lease)
    world.cancel_turn(turn)
    world.settle(lease, planned)
    assert world.items(turn) == {}
    assert [(job.tool, job.status) for job in world.jobs(turn)] == [(flow.PLAN, "cancelled")]


def test_optional_steps_take_their_dependants_along_and_the_turn_goes_on(world: World) -> None:
    world.tool("shaky", lambda: None)
    world.worker.on("shaky", TerminalError("no"))
    turn = world.submit(
        Step("a", "shaky").optional(),
        Step("b", "read", n=1),
        Step("c", "read").after("a"),
        Step("d", "read").after("c", "b"),
    )
    world.worker.drain()
    assert world.item_statuses(turn) == {"a": "skipped", "b": "completed", "c": "skipped", "d": "skipped"}
    assert (world.turn(turn).status, world.turn(turn).output) == ("completed", {"b": {"n": 1}})
    assert [event.payload["code"] for event in world.events("s", "item_skipped")] == [
        "terminal",
        "dependency_skipped",
        "dependency_skipped",
    ]


def test_a_step_that_fails_for_good_fails_the_turn_and_cancels_what_has_not_started(world: World) -> None:
    world.tool("shaky", lambda: None)
    world.worker.on("shaky", TerminalError("no", code="refused"))
    turn = world.submit(Step("a", "shaky"), Step("b", "ask"), Step("c", "read").after("a"))
    world.worker.drain()
    assert world.item_statuses(turn) == {"a": "failed", "b": "cancelled", "c": "cancelled"}
    ended = world.turn(turn)
    assert (ended.status, ended.error_code, ended.error_text) == ("failed", "refused", "step 'a' (shaky): no")
    assert [approval.status for approval in world.approvals(None)] == ["voided"]
    assert world.card().pending_approval == []


def test_a_planner_sees_the_settings_of_the_project_and_the_turn(world: World) -> None:
    world.submit(command="look", project_id="p", session="other")
    key = RowKey("default", "p")
    world.database.write(lambda tx: projects.set_settings(tx, key, {"language": "de"}))
    seen: list[TurnView] = []

    def look(turn: TurnView) -> Final:
        seen.append(turn)
        return Final()

    world.recipe("look", look)
    world.submit(command="look", project_id="p", user_id="u", input=[1], profile="x")
    world.worker.drain()
    assert [view.settings for view in seen] == [{"language": "de"}] * 2
    assert (seen[1].session_id, seen[1].input, seen[1].user_id, seen[1].profile, seen[1].round) == (
        "s",
        [1],
        "u",
        "x",
        1,
    )


def test_approval_functions_that_raise_or_answer_nonsense_fail_their_step(world: World) -> None:
    def broken(call: Any) -> bool:
        raise RuntimeError(f"for {call.arguments}")

    world.tool("broken", approval=broken)
    world.tool("vague", approval=lambda call: "perhaps")
    for tool, says in (("broken", "RuntimeError: for {'n': 2}"), ("vague", "returned 'perhaps'")):
        turn = world.submit(Step("a", tool, n=2))
        world.worker.drain()
        assert (world.turn(turn).status, world.turn(turn).error_code) == ("failed", "assessment_failed")
        assert says in str(world.items(turn)["a"].error_text)


def test_an_approval_function_decides_by_the_final_arguments(world: World) -> None:
    world.tool("careful", approval=lambda call: call.arguments["n"] > 10)
    turn = world.submit(Step("small", "careful", n=10), Step("large", "careful", n=11))
    world.worker.drain()
    assert world.item_statuses(turn) == {"small": "completed", "large": "awaiting_approval"}


class _Plain:
    """A planner without the recipe's own ending."""

    def __init__(self, fn: Answer) -> None:
        self.fn = fn

    def next(self, turn: TurnView) -> Any:
        return self.fn(turn)
