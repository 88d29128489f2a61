"""3., 4. and 6. A person is asked, answers or does not, and what was agreed to is what runs."""

from __future__ import annotations

from typing import Any

import pytest

from tenure import flow
from tenure.db import schema
from tenure.errors import AlreadyDecided, ApprovalExpired, InvalidInput, NotFound, RetryableError, StateConflict
from tenure.planner import From, Step
from tenure.records import RowKey, Turn
from tests.flow.world import World, make

WEEK = 7 * 86400


def asked(world: World, n: int = 1, **fields: Any) -> Turn:
    """A turn that waits for an answer about `ask`."""
    return world.planned(Step("a", "ask", n=n), **fields)


def test_while_a_person_is_asked_nothing_waits(world: World) -> None:
    turn = asked(world, 5, project_id="p")
    assert (turn.status, world.item_statuses(turn)) == ("awaiting_approval", {"a": "awaiting_approval"})
    assert [job.tool for job in world.jobs(turn)] == [flow.PLAN]
    approval = world.approval()
    (shown,) = world.card().pending_approval
    assert (shown["approval_id"], shown["turn_id"], shown["project_id"]) == (approval.approval_id, turn.turn_id, "p")
    (item,) = shown["items"]
    assert (item["tool"], item["mode"], item["arguments"]) == ("ask", "write", {"n": 5})
    assert item["digest"] == world.items(turn)["a"].digest
    assert "approval_requested" in world.kinds()


def test_an_approved_step_runs_once_with_the_arguments_that_were_shown(world: World) -> None:
    turn = asked(world, 5)
    decided = world.decide(world.approval(), source="console", reason="fine")
    assert (decided.status, decided.decided_by, decided.decided_from, decided.decided_reason) == (
        "approved",
        "anna",
        "console",
        "fine",
    )
    assert world.card().pending_approval == []
    (grant,) = world.grants()
    assert (grant.uses_left, grant.digest, grant.granted_by) == (0, world.items(turn)["a"].digest, "anna")
    world.worker.drain()
    assert world.turn(turn).status == "completed"
    assert world.calls == [("ask", 5)]
    kinds = world.kinds()
    order = ["approval_requested", "approval_granted", "tool_started", "job_queued", "job_started", "grant_used"]
    assert [kind for kind in kinds[kinds.index("approval_requested") :] if kind in order] == [
        *order,
        "job_queued",  # the next round's
        "job_started",
    ]


def test_the_question_is_about_final_arguments(world: World) -> None:
    turn = world.submit(Step("a", "read", n=7), Step("b", "ask", n=From("a.n")))
    world.worker.drain()
    assert world.items(turn)["b"].final_arguments == {"n": 7}
    assert world.approval().items[0]["arguments"] == {"n": 7}


def test_a_turn_waits_for_a_person_only_when_nothing_of_it_moves(world: World) -> None:
    turn = world.planned(Step("a", "ask"), Step("b", "read"))
    assert turn.status == "running"
    (lease,) = world.running("read")
    assert world.turn(turn).status == "running"
    world.settle(lease, flow.Failed("x", "x", "retryable", delay_s=60))
    assert world.turn(turn).status == "running"
    world.clock.advance("61s")
    world.worker.drain()
    assert world.turn(turn).status == "awaiting_approval"
    world.decide(world.approval())
    assert world.turn(turn).status == "running"


def test_two_questions_are_both_on_the_card_and_answered_one_by_one(world: World) -> None:
    turn = world.planned(Step("a", "ask", n=1), Step("b", "ask", n=2))
    first, second = world.approvals()
    assert [entry["approval_id"] for entry in world.card().pending_approval] == [first.approval_id, second.approval_id]
    world.decide(second)
    assert [entry["approval_id"] for entry in world.card().pending_approval] == [first.approval_id]
    world.worker.drain()
    assert world.item_statuses(turn) == {"a": "awaiting_approval", "b": "completed"}
    world.decide(first, by="boris")
    world.worker.drain()
    assert world.turn(turn).status == "completed"
    assert [grant.granted_by for grant in world.grants()] == ["boris", "anna"][::-1]


def test_a_denied_step_fails_the_turn(world: World) -> None:
    turn = asked(world)
    world.decide(world.approval(), approve=False)
    ended = world.turn(turn)
    assert (ended.status, ended.error_code, ended.error_text) == (
        "failed",
        "approval_denied",
        "step 'a' (ask): denied by anna",
    )
    world.worker.drain()
    assert world.calls == []
    assert world.grants() == []


def test_a_denied_step_is_skipped_where_its_tool_says_so(world: World) -> None:
    turn = world.planned(Step("a", "ask_or_skip"), Step("b", "read").after("a"), Step("c", "read", n=3))
    world.decide(world.approval(), approve=False)
    world.worker.drain()
    assert world.item_statuses(turn) == {"a": "skipped", "b": "skipped", "c": "completed"}
    assert (world.turn(turn).status, world.turn(turn).output) == ("completed", {"c": {"n": 3}})


@pytest.mark.parametrize(
    ("tool", "item", "turn_status"), [("ask", "failed", "failed"), ("ask_or_skip", "skipped", "completed")]
)
def test_a_question_that_nobody_answers_expires_by_maintenance(
    world: World, tool: str, item: str, turn_status: str
) -> None:
    turn = world.planned(Step("a", tool))
    world.clock.advance(WEEK - 60)
    world.worker.drain()
    assert world.turn(turn).status == "awaiting_approval"
    world.clock.advance("61s")
    world.worker.drain()
    assert world.item_statuses(turn) == {"a": item}
    assert world.turn(turn).status == turn_status
    assert [approval.status for approval in world.approvals(None)] == ["expired"]
    assert world.kinds().count("approval_expired") == 1
    assert world.card().pending_approval == []


def test_a_decision_after_the_time_is_gone_and_settles_the_question_as_expired(world: World) -> None:
    turn = asked(world)
    approval = world.approval()
    world.clock.advance(WEEK + 1)
    for _ in range(2):
        with pytest.raises(ApprovalExpired):
            world.decide(approval)
    assert world.turn(turn).status == "failed"
    assert world.kinds().count("approval_expired") == 1
    assert world.grants() == []


def test_only_the_first_answer_counts(world: World) -> None:
    turn = asked(world)
    approval = world.approval()
    first = world.decide(approval, by="anna")
    again = world.decide(approval, by="anna")
    assert (again.decided_by, again.decided_at) == ("anna", first.decided_at)
    for by, approve in (("boris", True), ("boris", False), ("anna", False)):
        with pytest.raises(AlreadyDecided) as caught:
            world.decide(approval, by=by, approve=approve)
        assert caught.value.status == "approved"
    assert len(world.grants()) == 1
    world.worker.drain()
    assert world.turn(turn).status == "completed"


def test_a_voided_question_cannot_be_answered(world: World) -> None:
    turn = asked(world)
    approval = world.approval()
    world.cancel_turn(turn)
    with pytest.raises(AlreadyDecided) as caught:
        world.decide(approval)
    assert caught.value.status == "voided"
    assert world.item_statuses(turn) == {"a": "cancelled"}


def test_who_decides_must_be_named_and_what_is_decided_must_exist(world: World) -> None:
    turn = asked(world)
    with pytest.raises(InvalidInput):
        world.decide(world.approval(), by=" ")
    with pytest.raises(NotFound):
        flow.decide(world.program, flow.Decision(approval_id=turn.turn_id, approve=True, by="anna"))


def test_an_answer_given_while_everything_was_down_is_found_by_maintenance(world: World) -> None:
    turn = asked(world, 3)
    approval = world.approval()
    flow.decide(world.program, flow.Decision(approval_id=approval.approval_id, approve=True, by="anna"))
    later = make(world.database)
    later.clock.advance("60s")
    later.worker.drain()
    assert (later.turn(turn).status, later.calls) == ("completed", [("ask", 3)])


# -- what runs is what was agreed to (B02) -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [{"n": 10, "table": "orders"}, {"n": 11, "table": "tmp"}, {"n": 10, "table": "tmp", "extra": 1}],
    ids=["value", "number", "extra"],
)
def test_a_plan_changed_after_the_answer_is_asked_about_anew(world: World, changed: dict[str, Any]) -> None:
    def drop(n: int, table: str, extra: int = 0) -> str:
        world.calls.append(("drop", (n, table, extra)))
        return table

    world.tool("drop", drop, approval="required")
    turn = world.planned(Step("a", "drop", n=10, table="tmp"))
    approval = world.approval()
    flow.decide(world.program, flow.Decision(approval_id=approval.approval_id, approve=True, by="anna"))
    item = schema.agent_plan_items.c
    world.change(schema.agent_plan_items, item.item_id == world.items(turn)["a"].item_id, arguments=changed)
    world.worker.drain()
    assert world.calls == []
    assert world.item_statuses(turn) == {"a": "awaiting_approval"}
    assert [grant.uses_left for grant in world.grants()] == [1]  # not burned by the mismatch
    again = world.approval()
    assert again.approval_id != approval.approval_id
    assert again.items[0]["arguments"] == {"extra": 0} | changed
    world.decide(again, by="boris")
    world.worker.drain()
    assert world.calls == [("drop", (changed["n"], changed["table"], changed.get("extra", 0)))]
    assert [grant.uses_left for grant in world.grants()] == [1, 0]


def test_a_changed_order_of_keys_is_the_same_call(world: World) -> None:
    def two(a: int, b: dict[str, int]) -> int:
        return a

    world.tool("two", two, approval="required")
    turn = world.planned(Step("a", "two", a=1, b={"x": 1, "y": 2}))
    flow.decide(world.program, flow.Decision(approval_id=world.approval().approval_id, approve=True, by="anna"))
    where = schema.agent_plan_items.c.item_id == world.items(turn)["a"].item_id
    world.change(schema.agent_plan_items, where, arguments={"b": {"y": 2, "x": 1}, "a": 1})
    world.worker.maintain()
    job = world.job_of(turn, "a")
    world.change(
        schema.background_jobs, schema.background_jobs.c.job_id == job.job_id, input={"b": {"y": 2, "x": 1}, "a": 1}
    )
    world.worker.drain()
    assert world.turn(turn).status == "completed"


@pytest.mark.parametrize("changed", [{"n": 6}, {"n": "5"}, {"n": 5.0}, {"n": 5, "m": 1}], ids=str)
def test_a_job_whose_input_was_changed_is_refused_at_its_beginning(world: World, changed: dict[str, Any]) -> None:
    turn = asked(world, 5)
    first = world.approval()
    world.decide(first)
    job = world.job_of(turn, "a")
    world.change(schema.background_jobs, schema.background_jobs.c.job_id == job.job_id, input=changed)
    world.worker.drain()
    refused = world.job(job)
    assert (refused.status, refused.error_code, world.calls) == ("cancelled", "grant_stale", [])
    assert [entry.error_code for entry in world.journal(job)] == ["grant_stale"]
    assert [grant.uses_left for grant in world.grants()] == [1]
    again = world.approval()
    assert again.items[0]["arguments"] == changed  # the person sees what would run
    assert (world.item_statuses(turn), world.turn(turn).status) == ({"a": "awaiting_approval"}, "awaiting_approval")


def test_what_was_refused_runs_as_the_same_job_when_it_is_agreed_to(world: World) -> None:
    turn = asked(world, 5)
    world.decide(world.approval())
    job = world.job_of(turn, "a")
    world.change(schema.background_jobs, schema.background_jobs.c.job_id == job.job_id, input={"n": 6})
    world.worker.drain()
    world.decide(world.approval(), by="boris")
    world.worker.drain()
    assert world.calls == [("ask", 6)]
    done = world.job_of(turn, "a")
    assert (done.job_id, done.status, done.attempt, world.turn(turn).status) == (
        job.job_id,
        "completed",
        1,
        "completed",
    )
    kinds = world.kinds()
    assert kinds.count("job_reopened") == 1
    assert [kind for kind in kinds if kind in ("job_cancelled", "job_reopened", "job_completed")][1:] == [
        "job_cancelled",
        "job_reopened",
        "job_completed",
        "job_completed",
    ]


@pytest.mark.parametrize("how", ["revoked", "expired", "another project", "digest"])
def test_a_grant_that_fell_between_release_and_beginning_is_asked_for_again(world: World, how: str) -> None:
    turn = asked(world, 5, project_id="p")
    world.decide(world.approval())
    job, (grant,) = world.job_of(turn, "a"), world.grants()
    where = schema.approval_grants.c.grant_id == grant.grant_id
    if how == "revoked":
        flow.revoke(world.program, RowKey(grant.tenant_id, grant.grant_id), "boris")
        assert world.events()[-1].type == "grant_revoked"
    elif how == "expired":
        world.change(schema.approval_grants, where, expires_at=grant.created_at)
    elif how == "another project":
        world.change(schema.approval_grants, where, project_id="q")
    else:
        world.change(schema.approval_grants, where, digest="v1:sha256:00")
    world.worker.drain()
    assert (world.job(job).status, world.job(job).error_code, world.calls) == ("cancelled", "grant_stale", [])
    assert world.grants()[0].uses_left == 1
    world.decide(world.approval())
    world.worker.drain()
    assert (world.job(job).status, world.calls, world.turn(turn).status) == ("completed", [("ask", 5)], "completed")
    assert [grant.uses_left for grant in world.grants()] == [1, 0]


def test_a_grant_is_tested_on_every_attempt(world: World) -> None:
    turn = asked(world)
    world.decide(world.approval())
    world.worker.on("ask", RetryableError("again", retry_after=1))
    world.worker.drain()
    (grant,) = world.grants()
    flow.revoke(world.program, RowKey(grant.tenant_id, grant.grant_id), "boris")
    world.clock.advance("2s")
    world.worker.drain()
    assert (world.job_of(turn, "a").error_code, world.item_statuses(turn)) == (
        "grant_stale",
        {"a": "awaiting_approval"},
    )
    assert world.grants()[0].uses_left == 0  # a first attempt had begun under it


def test_denying_the_second_question_fails_the_step(world: World) -> None:
    turn = asked(world)
    world.decide(world.approval())
    flow.revoke(world.program, RowKey("default", world.grants()[0].grant_id), "boris")
    world.worker.drain()
    world.decide(world.approval(), approve=False)
    assert (world.turn(turn).status, world.turn(turn).error_code) == ("failed", "approval_denied")
    assert world.job_of(turn, "a").status == "cancelled"


def test_a_grant_is_revoked_once(world: World) -> None:
    asked(world)
    world.decide(world.approval())
    key = RowKey("default", world.grants()[0].grant_id)
    flow.revoke(world.program, key, "boris")
    with pytest.raises(StateConflict):
        flow.revoke(world.program, key, "boris")
    with pytest.raises(NotFound):
        flow.revoke(world.program, RowKey("default", world.turn(world.submit(on_busy="queue")).turn_id), "boris")


def test_a_job_that_ends_unbegun_gives_its_use_back(world: World) -> None:
    turn = asked(world)
    world.decide(world.approval())
    world.cancel(world.job_of(turn, "a"))
    assert [grant.uses_left for grant in world.grants()] == [1]
    assert (world.turn(turn).status, world.turn(turn).error_code) == ("failed", "job_cancelled")


def test_a_job_that_has_begun_keeps_its_use_when_it_is_cancelled(world: World) -> None:
    turn = asked(world)
    world.decide(world.approval())
    (lease,) = world.running("ask")
    world.cancel(world.job_of(turn, "a"))
    world.settle(lease, flow.Released("released"))
    assert [grant.uses_left for grant in world.grants()] == [0]


# -- for a scope -------------------------------------------------------------------------------------------------------


def test_a_scope_lets_later_calls_pass_that_it_covers_and_no_others(world: World) -> None:
    world.planned(Step("a", "ask", n=5))
    world.decide(world.approval(), scope={"n": {"min": 1, "max": 10}}, scope_s=3600, uses=3)
    world.worker.drain()
    turn = world.submit(Step("b", "ask", n=10), Step("c", "ask", n=11), session="s")
    world.worker.drain()
    assert world.item_statuses(turn) == {"b": "completed", "c": "awaiting_approval"}
    assert world.calls == [("ask", 5), ("ask", 10)]
    (grant,) = world.grants()
    assert (grant.uses_left, grant.digest) == (1, None)


def test_a_scope_ends_with_its_uses(world: World) -> None:
    world.planned(Step("a", "ask", n=5))
    world.decide(world.approval(), scope={}, uses=2)
    world.worker.drain()
    turn = world.submit(Step("b", "ask"), Step("c", "ask"))
    world.worker.drain()
    assert sorted(world.item_statuses(turn).values()) == ["awaiting_approval", "completed"]
    assert [grant.uses_left for grant in world.grants()] == [0]


def test_a_scope_ends_with_its_time(world: World) -> None:
    world.planned(Step("a", "ask", n=5))
    world.decide(world.approval(), scope={}, scope_s=60)
    world.worker.drain()
    world.clock.advance("61s")
    turn = world.submit(Step("b", "ask"))
    world.worker.drain()
    assert world.item_statuses(turn) == {"b": "awaiting_approval"}
    assert [grant.uses_left for grant in world.grants()] == [None]


@pytest.mark.parametrize("other", [{"session": "t"}, {"project_id": "q"}], ids=str)
def test_a_scope_stays_within_its_session_and_project(world: World, other: dict[str, str]) -> None:
    world.planned(Step("a", "ask"), project_id="p")
    world.decide(world.approval(), scope={})
    world.worker.drain()
    turn = world.submit(Step("b", "ask"), **{"project_id": "p", **other})
    world.worker.drain()
    assert world.item_statuses(turn) == {"b": "awaiting_approval"}


def test_a_scope_is_for_one_tool_and_mode(world: World) -> None:
    world.planned(Step("a", "ask"))
    world.decide(world.approval(), scope={})
    world.worker.drain()
    turn = world.submit(Step("b", "ask_or_skip"))
    world.worker.drain()
    assert world.item_statuses(turn) == {"b": "awaiting_approval"}


@pytest.mark.parametrize(
    "scope", [{"n": 6}, {"n": {"above": 1}}, {"m": 1}, {"n": {"min": 6}}, {"n": [1, "5", 5.0]}], ids=str
)
def test_a_scope_that_leaves_out_what_was_asked_is_refused(world: World, scope: dict[str, Any]) -> None:
    asked(world, 5)
    with pytest.raises(InvalidInput):
        world.decide(world.approval(), scope=scope)
    assert world.approval().status == "pending"
    assert world.grants() == []


def test_a_revoked_scope_no_longer_counts(world: World) -> None:
    world.planned(Step("a", "ask"))
    world.decide(world.approval(), scope={})
    world.worker.drain()
    flow.revoke(world.program, RowKey("default", world.grants()[0].grant_id), "boris")
    turn = world.submit(Step("b", "ask"))
    world.worker.drain()
    assert world.item_statuses(turn) == {"b": "awaiting_approval"}
