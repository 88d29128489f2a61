"""5. Keys: limits and slots, who waits at them and who is next."""

from __future__ import annotations

from typing import Any

import pytest

from tenure import flow
from tenure.errors import IdempotencyConflict, InputTooLarge, InvalidInput, NeedsTurn, NotFound, RetryableError
from tenure.flow import BareJob, Completed, Failed, Released
from tenure.planner import Step
from tenure.records import Job, RowKey
from tenure.store import keys
from tests.flow.world import World

DONE = Completed('{"n":1}')


def enqueue(world: World, tool: str, **fields: Any) -> Job:
    """Makes a bare job."""
    arguments = fields.pop("arguments", {})
    job = flow.enqueue(world.program, BareJob(tool=tool, arguments=arguments, **fields))[0]
    return world.job(job)


def blocked(world: World, *listed: Job) -> list[str | None]:
    return [world.job(job).blocked_by for job in listed]


def hold(world: World, key: RowKey) -> None:
    assert world.database.write(lambda tx: keys.hold(tx, key, "operator", "maintenance"))


def resume(world: World, key: RowKey) -> None:
    assert world.database.write(lambda tx: keys.resume(tx, key))


# -- bare jobs ---------------------------------------------------------------------------------------------------------


def test_a_bare_job_is_made_once_for_a_key(world: World) -> None:
    request = BareJob(tool="read", arguments={"n": 1}, idempotency_key="k", project_id="p")
    job, replayed = flow.enqueue(world.program, request)
    assert not replayed
    world.worker.drain()
    assert flow.enqueue(world.program, request) == (world.job(job), True)
    for other in ({"arguments": {"n": 2}}, {"project_id": "q"}, {"tool": "other"}):
        if "tool" in other:
            world.tool("other")
        fields: dict[str, Any] = {"tool": "read", "arguments": {"n": 1}, "project_id": "p", **other}
        with pytest.raises(IdempotencyConflict):
            flow.enqueue(world.program, BareJob(idempotency_key="k", **fields))


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"tool": "nobody"}, NotFound),
        ({"tool": "ask"}, NeedsTurn),
        ({"tool": "writer"}, NeedsTurn),
        ({"arguments": {"n": "x"}}, InvalidInput),
        ({"arguments": {"m": 1}}, InvalidInput),
        ({"project_id": "a/b"}, InvalidInput),
        ({"priority": 11}, InvalidInput),
        ({"tool": "text", "arguments": {"text": "x" * 1_000_001}}, InputTooLarge),
    ],
)
def test_what_cannot_be_a_bare_job_is_refused_at_the_door(world: World, fields: Any, error: type[Exception]) -> None:
    def text(text: str) -> None: ...

    world.tool("writer", writes="output")
    world.tool("text", text)
    with pytest.raises(error):
        flow.enqueue(world.program, BareJob(**{"tool": "read", "arguments": {}, **fields}))
    assert world.claim() == []


def test_priority_moves_a_job_forward_by_its_minutes_and_no_further(world: World) -> None:
    early = enqueue(world, "read")
    world.clock.advance("90s")
    one, two = enqueue(world, "read", priority=1), enqueue(world, "read", priority=2)
    assert [lease.job_id for lease in world.claim("read")] == [two.job_id, early.job_id, one.job_id]


def test_a_delayed_job_is_due_when_it_says_whatever_its_priority(world: World) -> None:
    job = enqueue(world, "read", delay_s=60, priority=10)
    assert world.claim("read") == []
    world.clock.advance("61s")
    assert [lease.job_id for lease in world.claim("read")] == [job.job_id]


def test_failing_jobs_do_not_stand_in_the_way_of_others(world: World) -> None:
    world.tool("bad")
    for _ in range(5):
        enqueue(world, "bad")
    good = [enqueue(world, "read") for _ in range(5)]
    world.worker.on("bad", *[RetryableError("no", retry_after=0)] * 10)
    world.worker.batch = 5
    world.worker.step()
    world.worker.step()
    assert [world.job(job).status for job in good] == ["completed"] * 5


# -- limits ------------------------------------------------------------------------------------------------------------


def test_a_limit_admits_so_many_and_then_the_oldest(world: World) -> None:
    world.tool("limited", limit=2)
    made = [enqueue(world, "limited") for _ in range(5)]
    assert blocked(world, *made) == [None, None, *["limit/limited"] * 3]
    first, second = world.running("limited")
    world.settle(second, DONE)
    assert blocked(world, *made[2:]) == [None, "limit/limited", "limit/limited"]
    world.settle(first, Failed("x", "x", "terminal"))
    assert blocked(world, *made[3:]) == [None, "limit/limited"]
    world.worker.drain()
    assert [world.job(job).status for job in made[2:]] == ["completed"] * 3


def test_a_retry_gives_its_limit_back_and_waits_again(world: World) -> None:
    world.tool("limited", limit=1)
    first, second = enqueue(world, "limited"), enqueue(world, "limited")
    (lease,) = world.running("limited")
    world.settle(lease, Failed("x", "x", "retryable", 30.0))
    assert blocked(world, first, second) == ["limit/limited", None]
    world.clock.advance("31s")
    flow.maintain(world.program)
    assert blocked(world, first) == ["limit/limited"]
    (lease,) = world.running("limited")
    assert lease.job_id == second.job_id
    world.settle(lease, Released("released"))
    # The first is due since a second ago, the second only now.
    assert blocked(world, first, second) == [None, "limit/limited"]


def test_a_limit_for_each_user_binds_only_that_user(world: World) -> None:
    world.tool("fair", limit=3, limit_per_user=1)
    anna = [enqueue(world, "fair", user_id="anna") for _ in range(2)]
    boris = [enqueue(world, "fair", user_id="boris") for _ in range(2)]
    nobody = [enqueue(world, "fair") for _ in range(2)]
    assert blocked(world, *anna) == [None, "limit/fair/user/anna"]
    assert blocked(world, *boris) == [None, "limit/fair/user/boris"]
    assert blocked(world, *nobody) == [None, "limit/fair"]
    leases = {lease.job_id: lease for lease in world.running("fair")}
    world.settle(leases[boris[0].job_id], DONE)
    world.worker.maintain()
    # One place came free: never anna's, who has hers.
    assert world.job(anna[1]).blocked_by is not None
    assert blocked(world, boris[1], nobody[1]).count(None) == 1
    world.settle(leases[anna[0].job_id], DONE)
    world.worker.maintain()
    world.worker.drain()
    world.clock.advance("91s")
    world.worker.drain()
    assert [world.job(job).status for job in (*anna, *boris, *nobody)] == ["completed"] * 6


def test_a_crashed_holder_frees_its_limit_at_rescue(world: World) -> None:
    world.tool("limited", limit=1, max_attempts=1)
    first, second = enqueue(world, "limited"), enqueue(world, "limited")
    world.running("limited")
    world.clock.advance("91s")
    world.worker.maintain()
    assert (world.job(first).status, blocked(world, second)) == ("failed", [None])


def test_a_cancelled_waiter_frees_no_place_and_a_cancelled_holder_does(world: World) -> None:
    world.tool("limited", limit=1)
    first, second, third = (enqueue(world, "limited") for _ in range(3))
    world.cancel(second)
    assert blocked(world, first, third) == [None, "limit/limited"]
    world.cancel(first)
    assert blocked(world, third) == [None]


def test_a_paused_tool_admits_nobody_and_ends_nobody(world: World) -> None:
    world.tool("limited", limit=2)
    running, waiting = enqueue(world, "limited"), None
    (lease,) = world.running("limited")
    hold(world, keys.place("default", "limit/limited"))
    waiting = enqueue(world, "limited")
    assert blocked(world, waiting) == ["limit/limited"]
    world.settle(lease, DONE)
    world.worker.maintain()
    assert (world.job(running).status, blocked(world, waiting)) == ("completed", ["limit/limited"])
    resume(world, keys.place("default", "limit/limited"))
    world.worker.drain()
    assert world.job(waiting).status == "completed"


# -- slots -------------------------------------------------------------------------------------------------------------


def writers(world: World, *sessions: str, project: str | None = "p", tool: str = "report") -> list[Job]:
    """One writing job a session, in order."""
    made = []
    for session in sessions:
        turn = world.submit(Step("a", tool), session=session, project_id=project)
        world.worker.work(world.claim(flow.PLAN))
        made.append(world.job_of(turn, "a"))
    return made


def test_one_at_a_time_writes_a_slot_first_come_first_served(world: World) -> None:
    world.tool("report", writes="output")
    world.tool("merge", writes="output")
    first, second = writers(world, "s", "t")
    (third,) = writers(world, "u", tool="merge")
    slot = "slot/p/output"
    assert blocked(world, first, second, third) == [None, slot, slot]
    (lease,) = world.running("report", "merge")
    world.settle(lease, DONE)
    assert blocked(world, second, third) == [None, slot]
    (lease,) = world.running("report", "merge")
    world.settle(lease, Failed("x", "x", "terminal"))
    assert blocked(world, third) == [None]
    world.worker.drain()
    assert world.job(third).status == "completed"


def test_other_slots_projects_tenantless_sessions_and_readers_pass(world: World) -> None:
    world.tool("report", writes="output")
    world.tool("index", writes="index")
    jobs = [
        *writers(world, "s"),
        *writers(world, "t", tool="index"),
        *writers(world, "u", project="q"),
        *writers(world, "v", "w", project=None),
        *writers(world, "x", tool="read"),
    ]
    assert blocked(world, *jobs) == [None] * 6
    assert [job.slot_key for job in jobs] == [
        "slot/p/output",
        "slot/p/index",
        "slot/q/output",
        "slot/session/v/output",
        "slot/session/w/output",
        None,
    ]


def test_a_retry_keeps_the_slot(world: World) -> None:
    world.tool("report", writes="output", limit=5)
    first, second = writers(world, "s", "t")
    (lease,) = world.running("report")
    world.settle(lease, Failed("x", "x", "retryable", 30.0))
    world.worker.maintain()
    assert world.job(first).slot_held_at is not None
    assert blocked(world, second) == ["slot/p/output"]
    world.clock.advance("31s")
    world.worker.maintain()
    assert blocked(world, first, second) == [None, "slot/p/output"]
    world.worker.drain()
    assert [world.job(job).status for job in (first, second)] == ["completed", "completed"]


@pytest.mark.parametrize("how", ["completed", "failed", "cancelled", "killed"])
def test_a_slot_is_free_when_its_job_has_ended_by_whichever_way(world: World, how: str) -> None:
    world.tool("report", writes="output", max_attempts=1)
    first, second = writers(world, "s", "t")
    (lease,) = world.running("report")
    if how == "killed":
        world.clock.advance("91s")
        world.worker.maintain()
    else:
        if how == "cancelled":
            world.cancel(first)
        world.settle(lease, Failed("x", "x", "terminal") if how == "failed" else DONE)
    assert (world.job(first).slot_held_at, blocked(world, second)) == (None, [None])


def test_a_late_end_frees_nothing_of_the_new_holder(world: World) -> None:
    world.tool("report", writes="output", max_attempts=1)
    _, second, third = writers(world, "s", "t", "u")
    (late,) = world.running("report")
    world.clock.advance("91s")
    world.worker.maintain()
    (current,) = world.running("report", owner="w2")
    assert current.job_id == second.job_id
    assert world.settle(late, DONE).rejected == {late.held}
    world.worker.maintain()
    assert blocked(world, third) == ["slot/p/output"]


@pytest.mark.parametrize("how", ["completed", "failed", "cancelled", "killed"])
def test_a_persons_hold_survives_every_end(world: World, how: str) -> None:
    world.tool("report", writes="output", max_attempts=1)
    first, second = writers(world, "s", "t")
    (lease,) = world.running("report")
    slot = RowKey("default", "slot/p/output")
    hold(world, slot)
    if how == "killed":
        world.clock.advance("91s")
    else:
        if how == "cancelled":
            world.cancel(first)
        world.settle(lease, Failed("x", "x", "terminal") if how == "failed" else DONE)
    world.worker.maintain()
    held = world.database.read(lambda tx: keys.get(tx, slot))
    assert held is not None
    assert (held.held_by, held.reason, blocked(world, second)) == ("operator", "maintenance", ["slot/p/output"])
    resume(world, slot)
    world.worker.drain()
    assert world.job(second).status == "completed"


def test_who_will_not_wait_for_a_slot_fails_at_once(world: World) -> None:
    world.tool("report", writes="output", on_conflict="reject")
    (first,) = writers(world, "s")
    other = world.submit(Step("a", "report"), Step("b", "read").after("a"), session="t", project_id="p")
    world.worker.work(world.claim(flow.PLAN))
    assert (world.turn(other).status, world.turn(other).error_code) == ("failed", "slot_busy")
    world.worker.drain()
    assert world.job(first).status == "completed"
    third = world.submit(Step("a", "report"), session="t", project_id="p")
    world.worker.drain()
    assert world.turn(third).status == "completed"


def test_one_that_needs_several_keys_takes_all_or_none(world: World) -> None:
    world.tool("report", writes="output", limit=1)
    world.tool("other", writes="output")
    (holder,) = writers(world, "s", tool="other")
    (second,) = writers(world, "t")  # has the limit's place, not the slot's
    (third,) = writers(world, "u", project="q")
    assert blocked(world, holder, second, third) == [None, "slot/p/output", None]
    leases = {lease.job_id: lease for lease in world.running("report", "other")}
    world.settle(leases[holder.job_id], DONE)
    assert blocked(world, second) == ["limit/report"]
    world.settle(leases[third.job_id], DONE)
    assert blocked(world, second) == [None]


def test_a_refused_grant_frees_the_keys_of_its_job(world: World) -> None:
    world.tool("report", writes="output", approval="required")
    first = world.planned(Step("a", "report"), session="s", project_id="p")
    second = world.planned(Step("a", "report"), session="t", project_id="p")
    for approval in world.approvals():
        world.decide(approval)
    jobs = [world.job_of(turn, "a") for turn in (first, second)]
    assert blocked(world, *jobs) == [None, "slot/p/output"]
    flow.revoke(world.program, RowKey("default", str(jobs[0].grant_id)), "boris")
    world.worker.step()
    world.worker.drain()
    assert [world.job(job).status for job in jobs] == ["cancelled", "completed"]
    world.decide(world.approval())
    world.worker.drain()
    assert [world.turn(turn).status for turn in (first, second)] == ["completed", "completed"]
