"""Verbs of the flow that meet at one turn, session, key or question, in both orders."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tenure import flow
from tenure.errors import AlreadyDecided, ApprovalExpired, SessionBusy, StateConflict
from tenure.flow import BareJob, Completed, Failed, Program, Request, Settled, Settlement
from tenure.planner import Step
from tenure.records import Job, Lease, RowKey, Turn
from tenure.store import keys, turns
from tests.flow.opened import flow_database as flow_database
from tests.flow.opened import kept_databases as kept_databases
from tests.flow.opened import world as world
from tests.flow.world import World
from tests.races.order import Running, another, in_order, someone_waits, until
from tests.races.order import racing as racing

DONE = Completed('{"n":1}')
ORDERS = pytest.mark.parametrize("swapped", [False, True], ids=["one way", "the other way"])
SETTLE, CANCEL, SUBMIT = "flow.settle.settle", "flow.cancel.cancel_turn", "flow.submit.submit"
DECIDE, EXPIRE, ASSESS = "flow.decide.decide", "flow.decide.expire", "flow.assess._write"
ADMIT, ENQUEUE = "flow.admit._admit_at", "flow.enqueue.enqueue"


def settles(lease: Lease, outcome: flow.Outcome = DONE) -> Callable[[Program], Settled]:
    def verb(program: Program) -> Settled:
        settled = flow.settle(program, "w1", [Settlement(lease, outcome)])
        flow.follow(program, settled)
        return settled

    return verb


def cancels(turn: Turn) -> Callable[[Program], None]:
    return lambda program: flow.follow(program, flow.cancel_turn(program, turn.key, "anna"))


def admits(key: RowKey) -> Callable[[Program], int]:
    return lambda program: flow.admit(program, [key])


def live(world: World, turn: Turn) -> list[str]:
    return [job.tool for job in world.jobs(turn) if job.status in ("queued", "running")]


@ORDERS
def test_the_last_two_steps_of_a_round(racing: World, swapped: bool) -> None:
    turn = racing.planned(Step("a", "read"), Step("b", "read"))
    leases = racing.running("read")[:: -1 if swapped else 1]
    one, other = in_order(racing, settles(leases[0]), SETTLE, settles(leases[1]), waits=True)
    assert (one.accepted, other.accepted) == ({leases[0].held}, {leases[1].held})
    planning = [job for job in racing.jobs(turn) if job.tool == flow.PLAN]
    assert [(job.round, job.status) for job in planning] == [(1, "completed"), (2, "queued")]
    racing.worker.drain()
    assert racing.turn(turn).status == "completed"


@ORDERS
def test_two_steps_that_need_both_before_the_next_is_ready(racing: World, swapped: bool) -> None:
    turn = racing.planned(Step("a", "read"), Step("b", "read"), Step("c", "read").after("a", "b"))
    leases = racing.running("read")[:: -1 if swapped else 1]
    in_order(racing, settles(leases[0]), SETTLE, settles(leases[1]), waits=True)
    assert racing.item_statuses(turn)["c"] == "queued"


def limited(world: World) -> RowKey:
    world.tool("limited", limit=1)
    return keys.place("default", "limit/limited")


def waiting(world: World, number: int) -> list[Job]:
    """Jobs that nobody has admitted yet, as a caller's transaction leaves them."""
    request = BareJob(tool="limited", arguments={})
    return [world.database.write(lambda tx: flow.enqueue_on(world.program, tx, request))[0] for _ in range(number)]


def test_a_job_that_is_inserted_while_others_are_admitted(racing: World) -> None:
    key = limited(racing)
    waiting(racing, 1)

    def enqueues(program: Program) -> Job:
        return flow.enqueue(program, BareJob(tool="limited", arguments={}))[0]

    # The insert waits for nothing; its own admission does, behind the one that is under way.
    admission = Running(racing, admits(key), ADMIT)
    assert admission.stopped.wait(20)
    insert = Running(racing, enqueues)
    assert until(lambda: someone_waits(racing))
    assert admission.result() == 1
    assert racing.job(insert.result()).blocked_by == key.id
    # An admission that began before the insert was there to be seen is followed by the insert's own.
    job, admitted = in_order(racing, enqueues, ENQUEUE, admits(key), waits=False)
    assert (admitted, racing.job(job).blocked_by) == (0, key.id)
    for _ in range(3):
        racing.worker.drain()
    assert len(racing.calls) == 3


@ORDERS
def test_a_place_that_is_given_back_while_others_are_admitted(racing: World, swapped: bool) -> None:
    key = limited(racing)
    first, second = waiting(racing, 2)
    flow.admit(racing.program, [key])
    (lease,) = racing.running("limited")
    ends = settles(lease, Failed("x", "x", "terminal"))
    if swapped:
        # The admission counted before the end was there to be seen; the end is followed by one of its own.
        admission = Running(racing, admits(key), ADMIT)
        assert admission.stopped.wait(20)
        ending = Running(racing, ends)
        assert until(lambda: someone_waits(racing))
        assert admission.result() == 0
        ending.result()
    else:
        assert in_order(racing, ends, SETTLE, admits(key), waits=False)[1] == 0
    assert (racing.job(first).status, racing.job(second).blocked_by) == ("failed", None)


def test_two_admissions_never_give_one_place_twice(racing: World) -> None:
    key = limited(racing)
    jobs = waiting(racing, 3)
    one, other = in_order(racing, admits(key), ADMIT, admits(key), waits=True)
    assert (one, other) == (1, 0)
    assert [racing.job(job).blocked_by is None for job in jobs] == [True, False, False]


@ORDERS
def test_a_turn_is_cancelled_while_its_last_step_asks_for_another_round(racing: World, swapped: bool) -> None:
    turn = racing.planned(Step("a", "read"))
    (lease,) = racing.running("read")
    if swapped:
        in_order(racing, cancels(turn), CANCEL, settles(lease), waits=True)
    else:
        in_order(racing, settles(lease), SETTLE, cancels(turn), waits=True)
    assert (racing.turn(turn).status, live(racing, turn)) == ("cancelled", [])
    assert racing.item_statuses(turn) == {"a": "completed"}
    assert [job.round for job in racing.jobs(turn) if job.tool == flow.PLAN] == ([1] if swapped else [1, 2])


@ORDERS
def test_a_turn_is_cancelled_while_a_step_of_it_is_released(racing: World, swapped: bool) -> None:
    turn = racing.submit(Step("a", "read"))
    (lease,) = racing.running(flow.PLAN)
    racing.settle(lease, flow.ask(racing.program, lease), follow=False)

    def assesses(program: Program) -> set[RowKey]:
        return flow.assess_turn(program, turn.key)

    if swapped:
        in_order(racing, cancels(turn), CANCEL, assesses, waits=True)
    else:
        in_order(racing, assesses, ASSESS, cancels(turn), waits=True)
    assert (racing.turn(turn).status, racing.item_statuses(turn), live(racing, turn)) == (
        "cancelled",
        {"a": "cancelled"},
        [],
    )


def test_two_workers_that_assess_one_step_make_one_job(racing: World) -> None:
    turn = racing.submit(Step("a", "ask"), Step("b", "read"))
    (lease,) = racing.running(flow.PLAN)
    racing.settle(lease, flow.ask(racing.program, lease), follow=False)

    def assesses(program: Program) -> set[RowKey]:
        return flow.assess_turn(program, turn.key)

    in_order(racing, assesses, ASSESS, assesses, waits=True)
    assert [job.tool for job in racing.jobs(turn)] == [flow.PLAN, "read"]
    assert len(racing.approvals()) == 1


@ORDERS
@pytest.mark.parametrize("on_busy", ["queue", "reject"])
def test_a_request_meets_the_end_of_the_active_turn(racing: World, swapped: bool, on_busy: Any) -> None:
    active = racing.submit(Step("a", "read"))

    def submits(program: Program) -> Turn:
        return flow.submit(program, Request(session_id="s", input="next", on_busy=on_busy))[0]

    if swapped:
        _, turn = in_order(racing, cancels(active), CANCEL, submits, waits=True)
    elif on_busy == "queue":
        turn, _ = in_order(racing, submits, SUBMIT, cancels(active), waits=True)
    else:
        found = Running(racing, submits).outcome()
        assert isinstance(found, SessionBusy)
        return
    assert (racing.turn(active).status, racing.turn(turn).status) == ("cancelled", "planning")
    assert racing.card().active_turn_id == turn.turn_id


@ORDERS
def test_two_requests_for_one_session(racing: World, swapped: bool) -> None:
    def submits(on_busy: Any) -> Callable[[Program], Turn]:
        return lambda program: flow.submit(program, Request(session_id="s", on_busy=on_busy))[0]

    policies = ["reject", "queue"][:: -1 if swapped else 1]
    first, second = in_order(racing, submits(policies[0]), SUBMIT, submits(policies[1]), waits=True)
    assert racing.turn(first).status == "planning"
    if swapped:
        assert isinstance(second, SessionBusy)
    else:
        assert racing.turn(second).status == "created"


def test_one_key_at_once_is_one_turn(racing: World) -> None:
    racing.submit(session="s", input="so that the session is there")
    racing.cancel_turn(racing.database.read(lambda tx: turns.listed(tx, "default"))[0])

    def submits(program: Program) -> tuple[Turn, bool]:
        return flow.submit(program, Request(session_id="s", idempotency_key="k"))

    (first, replayed), (second, replayed_too) = in_order(racing, submits, SUBMIT, submits, waits=True)
    assert (first.turn_id, replayed, replayed_too) == (second.turn_id, False, True)


def test_fifty_equal_requests_at_once_are_one_turn(world: World) -> None:
    request = Request(session_id="new", project_id="new", input=1, idempotency_key="k")
    programs = [world.program, another(world)]  # two processes
    go = threading.Barrier(50)

    def submit(number: int) -> tuple[str, bool]:
        go.wait(20)
        turn, replayed = flow.submit(programs[number % 2], request)
        return turn.turn_id, replayed

    with ThreadPoolExecutor(50) as pool:
        found = list(pool.map(submit, range(50)))
    programs[1].database.dispose()
    assert len({turn_id for turn_id, _ in found}) == 1
    assert [replayed for _, replayed in found].count(False) == 1
    assert world.kinds("new") == ["turn_created", "turn_running", "round_started", "job_queued"]


@ORDERS
def test_two_people_answer_at_once(racing: World, swapped: bool) -> None:
    turn = racing.planned(Step("a", "ask"))
    approval = racing.approval()

    def decides(approve: bool, by: str) -> Callable[[Program], Any]:
        decision = flow.Decision(approval_id=approval.approval_id, approve=approve, by=by)
        return lambda program: flow.decide(program, decision)

    verbs = [decides(True, "anna"), decides(False, "boris")]
    first, second = verbs[::-1] if swapped else verbs
    one, other = in_order(racing, first, DECIDE, second, waits=True)
    assert one.status == ("denied" if swapped else "approved")
    assert isinstance(other, AlreadyDecided)
    assert other.status == one.status
    assert len(racing.grants()) == (not swapped)
    racing.worker.drain()
    assert racing.turn(turn).status == ("failed" if swapped else "completed")


@ORDERS
def test_an_answer_meets_the_end_of_its_time(racing: World, swapped: bool) -> None:
    turn = racing.planned(Step("a", "ask"))
    approval = racing.approval()
    key = RowKey(approval.tenant_id, approval.approval_id)

    def decides(program: Program) -> Any:
        return flow.decide(program, flow.Decision(approval_id=key.id, approve=True, by="anna"))

    def expires(program: Program) -> bool:
        racing.clock.advance(8 * 86400)
        return flow.decide.__globals__["expire"](program, key)  # type: ignore[no-any-return]

    if swapped:
        expired, decided = in_order(racing, expires, EXPIRE, decides, waits=True)
        assert (expired, type(decided)) == (True, ApprovalExpired)
        assert racing.turn(turn).status == "failed"
    else:
        # The statement that decides started in time: it counts although it commits later.
        decided, expired = in_order(racing, decides, DECIDE, expires, waits=True)
        assert (decided.status, expired) == ("approved", False)
        racing.worker.drain()
        assert racing.turn(turn).status == "completed"


@ORDERS
def test_a_completion_meets_a_cancel_of_its_job(racing: World, swapped: bool) -> None:
    turn = racing.planned(Step("a", "read"))
    (lease,) = racing.running("read")
    job = racing.job(lease)

    def cancels_job(program: Program) -> Settled:
        return flow.cancel_job(program, job.key, "anna")

    if swapped:
        in_order(racing, cancels_job, "flow.cancel.cancel_job", settles(lease), waits=True)
        assert (racing.job(job).status, racing.turn(turn).error_code) == ("cancelled", "job_cancelled")
    else:
        _, refused = in_order(racing, settles(lease), SETTLE, cancels_job, waits=True)
        assert isinstance(refused, StateConflict)
        assert (racing.job(job).status, refused.state) == ("completed", "completed")


@ORDERS
def test_a_settlement_meets_the_rescue_of_its_job(racing: World, swapped: bool) -> None:
    racing.planned(Step("a", "read"))
    (lease,) = racing.running("read")

    def rescues(program: Program) -> Settled:
        racing.clock.advance("91s")
        return flow.rescue(program)

    if swapped:
        rescued, settled = in_order(racing, rescues, "flow.rescue._rescue", settles(lease), waits=True)
        assert (len(rescued.accepted), settled.rejected) == (1, {lease.held})
    else:
        # It started in time; the row is locked, and rescue does not wait for it.
        settled, rescued = in_order(racing, settles(lease), SETTLE, rescues, waits=False)
        assert (settled.accepted, rescued.accepted) == ({lease.held}, set())
        assert racing.job(lease).status == "completed"
