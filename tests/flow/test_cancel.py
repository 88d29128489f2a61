"""8. What a person asks for: cancel, and opening again."""

from __future__ import annotations

from typing import Any

import pytest

from tenure import flow
from tenure.errors import NotFound, RetryableError, SessionBusy, StateConflict, TerminalError
from tenure.flow import Completed, Failed, Released
from tenure.flow.facts import sha256
from tenure.planner import Step
from tenure.records import Job, RowKey, Turn
from tests.flow.world import World

DONE = Completed('{"n":1}')
ENDINGS: dict[str, flow.Outcome | None] = {
    "returns": DONE,
    "fails retryably": Failed("x", "x", "retryable", 1.0),
    "fails for good": Failed("x", "x", "terminal"),
    "is released": Released("released"),
    "is killed": None,
}


def bare(world: World) -> Job:
    return flow.enqueue(world.program, flow.BareJob(tool="read", arguments={}))[0]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("kind", ["bare", "optional step", "step"])
def test_a_running_job_that_is_cancelled_ends_cancelled_whatever_it_does(world: World, kind: str, ending: str) -> None:
    turn = None
    if kind == "bare":
        job = bare(world)
    else:
        step = Step("a", "read")
        turn = world.planned(step.optional() if kind == "optional step" else step)
        job = world.job_of(turn, "a")
    (lease,) = world.running("read")
    world.cancel(job)
    asked = world.job(job)
    assert (asked.status, asked.cancel_requested_by, asked.lease_owner) == ("running", "anna", "w1")
    outcome = ENDINGS[ending]
    if outcome is None:
        world.clock.advance("91s")
        world.follow(flow.rescue(world.program))
    else:
        assert world.settle(lease, outcome).accepted == {lease.held}
    world.clock.advance("10m")
    world.worker.drain()
    ended = world.job(job)
    assert (ended.status, ended.error_code, ended.output, ended.attempt) == ("cancelled", "cancelled", None, 1)
    assert world.calls == []
    (entry,) = world.journal(job)
    assert entry.outcome == "cancelled"
    assert entry.result_sha256 == (sha256(DONE.output) if outcome is DONE else None)
    if turn is not None:
        events = [event.type for event in world.events() if event.job_id == job.job_id]
        assert [kind for kind in events if kind in ("job_completed", "job_failed", "job_cancelled")] == [
            "job_cancelled"
        ]
        expected = {"optional step": ("completed", "skipped"), "step": ("failed", "failed")}[kind]
        assert (world.turn(turn).status, world.items(turn)["a"].status) == expected


def test_a_queued_job_is_cancelled_at_once(world: World) -> None:
    job = bare(world)
    world.cancel(job)
    assert (world.job(job).status, world.job(job).cancel_requested_by) == ("cancelled", "anna")
    assert world.claim("read") == []


def test_a_waiting_retry_is_cancelled_at_once(world: World) -> None:
    turn = world.planned(Step("a", "read"))
    world.worker.on("read", RetryableError("later", retry_after=60))
    world.worker.drain()
    world.cancel(world.job_of(turn, "a"))
    assert (world.job_of(turn, "a").status, world.turn(turn).error_code) == ("cancelled", "job_cancelled")


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_what_has_ended_cannot_be_cancelled(world: World, status: str) -> None:
    job = bare(world)
    if status == "failed":
        world.worker.on("read", TerminalError("no"))
    if status == "cancelled":
        world.cancel(job)
    world.worker.drain()
    with pytest.raises(StateConflict) as caught:
        world.cancel(job)
    assert caught.value.state == status
    assert world.job(job).status == status


def test_what_does_not_exist_cannot_be_cancelled_or_opened(world: World) -> None:
    key = RowKey("default", "01990000-0000-7000-8000-000000000000")
    for verb in (flow.cancel_job, flow.cancel_turn, flow.reopen):
        with pytest.raises(NotFound):
            verb(world.program, key, "anna")


def test_cancel_may_be_asked_for_twice(world: World) -> None:
    job = bare(world)
    (lease,) = world.running("read")
    world.cancel(job, by="anna")
    world.cancel(job, by="boris")
    assert world.job(job).cancel_requested_by == "anna"
    world.settle(lease, DONE)
    assert world.job(job).status == "cancelled"


def test_cancelling_a_planning_job_cancels_its_turn(world: World) -> None:
    for run_first in (False, True):
        turn = world.submit(Step("a", "read"))
        leases = world.running(flow.PLAN) if run_first else []
        world.cancel(world.jobs(turn)[0])
        for lease in leases:
            world.settle(lease, flow.ask(world.program, lease))
        assert (world.turn(turn).status, world.items(turn)) == ("cancelled", {})


# -- a turn ------------------------------------------------------------------------------------------------------------


def busy_turn(world: World) -> Turn:
    """One step runs, one is queued, one waits for a person, one for the first."""
    turn = world.planned(
        Step("runs", "read"), Step("asks", "ask"), Step("later", "read").after("runs"), Step("waits", "read")
    )
    world.worker.begin(world.worker.claim(1))
    assert world.item_statuses(turn) == {
        "runs": "running",
        "asks": "awaiting_approval",
        "later": "pending",
        "waits": "queued",
    }
    return turn


def test_a_turn_that_is_cancelled_ends_at_once_and_its_jobs_after_it(world: World) -> None:
    turn = busy_turn(world)
    follower = world.submit(Step("a", "read"), on_busy="queue")
    world.cancel_turn(turn)
    assert world.turn(turn).status == "cancelled"
    assert world.item_statuses(turn) == {
        "runs": "running",
        "asks": "cancelled",
        "later": "cancelled",
        "waits": "cancelled",
    }
    assert [approval.status for approval in world.approvals(None)] == ["voided"]
    running = world.job_of(turn, "runs")
    assert (running.status, running.cancel_requested_by) == ("running", "anna")
    assert world.turn(follower).status == "planning"  # the next may start meanwhile
    world.worker.drain()
    world.clock.advance("91s")
    world.worker.drain()
    assert (world.item_statuses(turn)["runs"], world.job(running).status) == ("cancelled", "cancelled")
    assert [world.turn(each).status for each in (turn, follower)] == ["cancelled", "completed"]
    with pytest.raises(StateConflict):
        world.cancel_turn(turn)


def test_a_late_result_of_a_cancelled_turn_goes_to_the_journal(world: World) -> None:
    turn = busy_turn(world)
    lease = world.job_of(turn, "runs")
    world.cancel_turn(turn)
    (held,) = [each for each in world.database.read(lambda tx: _held(tx)) if each.job_id == lease.job_id]
    settled = flow.settle(world.program, "w1", [flow.Settlement(_lease_of(world, held), DONE)])
    assert settled.accepted == {held}
    assert (world.job(held).status, world.job(held).output) == ("cancelled", None)
    (entry,) = world.journal(lease)
    assert (entry.outcome, entry.result, entry.result_sha256) == ("cancelled", {"n": 1}, sha256(DONE.output))
    assert world.turn(turn).status == "cancelled"


def test_a_job_that_settles_before_it_was_asked_keeps_its_ending(world: World) -> None:
    turn = world.planned(Step("a", "read"), Step("b", "read"))
    first, second = world.running("read")
    # Cancelled, but the worker died before it asked the live jobs to end.
    original = flow.cancel_turn.__globals__["end_live_jobs"]
    flow.cancel_turn.__globals__["end_live_jobs"] = lambda *_: flow.Settled()
    try:
        flow.cancel_turn(world.program, turn.key, "anna")
    finally:
        flow.cancel_turn.__globals__["end_live_jobs"] = original
    world.settle(first, DONE, follow=False)
    world.settle(second, Failed("x", "x", "retryable", 5), follow=False)
    assert world.item_statuses(turn) == {"a": "completed", "b": "queued"}
    flow.maintain(world.program)
    assert [job.status for job in world.jobs(turn)] == ["completed", "completed", "cancelled"]
    assert world.item_statuses(turn) == {"a": "completed", "b": "cancelled"}
    assert world.turn(turn).status == "cancelled"


def test_a_job_claimed_before_its_turn_was_cancelled_and_begun_after_it_ends_cancelled(world: World) -> None:
    turn = world.planned(Step("a", "read"))
    leases = world.claim("read")
    world.cancel_turn(turn)
    (lease,) = world.worker.begin(leases)
    assert world.turn(turn).status == "cancelled"
    world.settle(lease, DONE)
    assert (world.item_statuses(turn), world.turn(turn).status) == ({"a": "cancelled"}, "cancelled")


def _held(tx: Any) -> list[Any]:
    from tenure.store import claims

    return claims.held_by(tx, "w1")


def _lease_of(world: World, held: Any) -> Any:
    from dataclasses import fields

    from tenure.records import Lease

    job = world.job(held)
    values = {field.name: getattr(job, field.name) for field in fields(Lease) if field.name != "remaining_s"}
    return Lease(**values, remaining_s=1.0)


# -- opening again -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_bare_job_is_opened_again_under_its_id(world: World, status: str) -> None:
    world.tool("limited", limit=1)
    job = flow.enqueue(world.program, flow.BareJob(tool="limited", arguments={}))[0]
    if status == "failed":
        world.worker.on("limited", TerminalError("no"))
    else:
        world.cancel(job)
    world.worker.drain()
    first = world.job(job)
    assert first.status == status
    world.follow(flow.reopen(world.program, job.key, "anna"))
    opened = world.job(job)
    assert (opened.status, opened.attempt, opened.error_code, opened.blocked_by) == ("queued", 0, None, None)
    world.worker.drain()
    done = world.job(job)
    assert (done.status, done.attempt) == ("completed", 1)
    assert (done.fencing_token or 0) > (first.fencing_token or 0)


def test_only_what_failed_or_was_cancelled_is_opened_again(world: World) -> None:
    job = bare(world)
    for status in ("queued", "running", "completed"):
        leases = world.running("read") if status == "running" else []
        if status == "completed":
            world.clock.advance("91s")
            world.worker.drain()
        with pytest.raises(StateConflict) as caught:
            flow.reopen(world.program, job.key, "anna")
        assert caught.value.state == status == world.job(job).status
        assert len(leases) == (status == "running")


def test_the_job_of_a_failed_turn_opens_step_and_turn(world: World) -> None:
    turn = world.submit(Step("a", "read", n=1), Step("b", "read", n=2).after("a"), Step("c", "ask", n=3))
    world.worker.on("read", TerminalError("no"))
    world.worker.drain()
    job = world.job_of(turn, "a")
    assert (world.turn(turn).status, job.status) == ("failed", "failed")
    world.follow(flow.reopen(world.program, job.key, "anna"))
    assert (world.turn(turn).status, world.card().active_turn_id) == ("running", turn.turn_id)
    world.worker.drain()
    assert world.item_statuses(turn) == {"a": "completed", "b": "completed", "c": "awaiting_approval"}
    assert world.job_of(turn, "a").job_id == job.job_id
    world.decide(world.approval())
    world.worker.drain()
    assert world.turn(turn).status == "completed"
    assert world.calls == [("read", 1), ("read", 2), ("ask", 3)]


def test_steps_whose_jobs_ended_with_the_turn_are_opened_too(world: World) -> None:
    turn = world.planned(Step("a", "read"), Step("b", "read"), Step("c", "read").after("a", "b"))
    leases = {world.items(turn)[name].job_id: name for name in "ab"}
    first, second = sorted(world.running("read"), key=lambda lease: leases[lease.job_id])
    world.settle(first, Failed("x", "x", "terminal"))
    job = world.job_of(turn, "a")
    with pytest.raises(StateConflict):  # b is still ending
        flow.reopen(world.program, job.key, "anna")
    world.settle(second, DONE)
    assert world.item_statuses(turn) == {"a": "failed", "b": "cancelled", "c": "cancelled"}
    world.follow(flow.reopen(world.program, job.key, "anna"))
    world.worker.drain()
    assert world.item_statuses(turn) == {"a": "completed", "b": "completed", "c": "completed"}
    assert world.turn(turn).status == "completed"


def test_an_optional_step_is_opened_with_what_was_skipped_because_of_it(world: World) -> None:
    world.tool("slow")
    turn = world.planned(
        Step("a", "read").optional(), Step("b", "read").after("a"), Step("c", "read").after("b"), Step("d", "slow")
    )
    (slow,) = world.running("slow")
    world.worker.on("read", TerminalError("no"))
    world.worker.drain()
    assert world.item_statuses(turn) == {"a": "skipped", "b": "skipped", "c": "skipped", "d": "running"}
    world.follow(flow.reopen(world.program, world.job_of(turn, "a").key, "anna"))
    world.worker.drain()
    assert world.item_statuses(turn) == {"a": "completed", "b": "completed", "c": "completed", "d": "running"}
    world.settle(slow, DONE)
    world.worker.drain()
    assert world.turn(turn).status == "completed"


def test_a_failed_planning_job_is_opened_again(world: World) -> None:
    turn = world.submit(Step("a", "read"))
    world.worker.on(flow.PLAN, TerminalError("no"))
    world.worker.drain()
    world.follow(flow.reopen(world.program, world.jobs(turn)[0].key, "anna"))
    assert world.turn(turn).status == "planning"
    world.worker.drain()
    assert world.turn(turn).status == "completed"


def test_nothing_is_opened_in_a_turn_that_was_cancelled_or_completed(world: World) -> None:
    cancelled = world.planned(Step("a", "read"))
    world.cancel_turn(cancelled)
    completed = world.submit(Step("a", "read").optional())
    world.worker.on("read", TerminalError("no"))
    world.worker.drain()
    for turn in (cancelled, completed):
        with pytest.raises(StateConflict) as caught:
            flow.reopen(world.program, world.job_of(turn, "a").key, "anna")
        assert caught.value.state == world.turn(turn).status


def test_nothing_is_opened_while_the_session_works_on_another_turn(world: World) -> None:
    failed = world.submit(Step("a", "read"))
    world.worker.on("read", TerminalError("no"))
    world.worker.drain()
    other = world.submit(Step("a", "ask"))
    with pytest.raises(SessionBusy) as caught:
        flow.reopen(world.program, world.job_of(failed, "a").key, "anna")
    assert caught.value.turn_id == other.turn_id
    assert world.turn(failed).status == "failed"


def test_a_step_that_was_approved_is_asked_about_again_when_it_is_opened(world: World) -> None:
    turn = world.planned(Step("a", "ask", n=4))
    world.decide(world.approval())
    world.worker.on("ask", TerminalError("no"))
    world.worker.drain()
    world.follow(flow.reopen(world.program, world.job_of(turn, "a").key, "anna"))
    assert world.turn(turn).status == "awaiting_approval"
    world.decide(world.approval())
    world.worker.drain()
    assert (world.turn(turn).status, world.calls) == ("completed", [("ask", 4)])


def test_a_job_that_waits_for_a_new_answer_is_not_opened_by_hand(world: World) -> None:
    turn = world.planned(Step("a", "ask"))
    world.decide(world.approval())
    flow.revoke(world.program, RowKey("default", world.grants()[0].grant_id), "boris")
    world.worker.drain()
    with pytest.raises(StateConflict):
        flow.reopen(world.program, world.job_of(turn, "a").key, "anna")
    assert len(world.approvals()) == 1
