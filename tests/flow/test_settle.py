"""7. and 8. How attempts end, and what that makes of their jobs and turns."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from tenure import flow
from tenure.db import schema
from tenure.errors import CommitUnknown, RetryableError, TerminalError
from tenure.flow import Completed, Failed, Released, Settlement
from tenure.flow.facts import sha256
from tenure.leases import REFUND_CAP
from tenure.planner import Step
from tenure.records import Held, Job, Lease, RowKey
from tenure.store import artifacts, projects
from tenure.store.artifacts import NewArtifact
from tenure.testing import VANISH, Driver
from tests.flow.world import World

DONE = Completed('{"n":1}')


@pytest.fixture(params=["bare", "of a turn"])
def lone(request: pytest.FixtureRequest, world: World) -> Callable[..., Job]:
    """A function that makes one queued job of the tool `work`, and never a second one in its turn."""

    def make(**options: Any) -> Job:
        world.tool("work", **options)
        if request.param == "bare":
            return flow.enqueue(world.program, flow.BareJob(tool="work", arguments={}))[0]
        return world.job_of(world.planned(Step("a", "work")), "a")

    return make


def test_a_retry_is_queued_with_its_due_time(world: World, lone: Callable[..., Job]) -> None:
    job = lone()
    world.worker.on("work", RetryableError("busy", retry_after=30))
    world.worker.drain()
    waiting = world.job(job)
    assert (waiting.status, waiting.attempt, waiting.error_code, waiting.error_kind) == (
        "queued",
        1,
        "retryable",
        "retryable",
    )
    world.clock.advance("29s")
    assert world.claim("work") == []
    world.clock.advance("2s")
    world.worker.drain()
    done = world.job(job)
    assert (done.status, done.attempt, done.output, done.error_code) == ("completed", 2, {"n": 0}, None)
    assert [(entry.outcome, entry.attempt, entry.error_text) for entry in world.journal(job)] == [("retry", 1, "busy")]


def test_attempts_are_bounded(world: World, lone: Callable[..., Job]) -> None:
    job = lone(max_attempts=2)
    world.worker.on("work", *[ConnectionError("no route")] * 3)
    for _ in range(3):
        world.worker.drain()
        world.clock.advance("10m")
    ended = world.job(job)
    assert (ended.status, ended.attempt, ended.error_code, ended.error_kind) == ("failed", 2, "connection", "retryable")
    assert [entry.outcome for entry in world.journal(job)] == ["retry", "failed"]
    assert world.worker.ran.count("work") == 2


def test_a_terminal_failure_is_not_tried_again(world: World, lone: Callable[..., Job]) -> None:
    job = lone()
    world.worker.on("work", TerminalError("bad key", code="bad_key"))
    world.worker.drain()
    ended = world.job(job)
    assert (ended.status, ended.attempt, ended.error_code, ended.error_kind) == ("failed", 1, "bad_key", "terminal")


def test_an_uncharged_retry_costs_no_attempt_until_the_refunds_are_used_up(
    world: World, lone: Callable[..., Job]
) -> None:
    job = lone(max_attempts=2)
    limited = RetryableError("slow down", retry_after=1, charge=False)
    world.worker.on("work", *[limited] * (REFUND_CAP + 3))
    for _ in range(REFUND_CAP):
        world.worker.step()
        world.clock.advance("2s")
    assert (world.job(job).attempt, world.job(job).refunds, world.job(job).status) == (0, REFUND_CAP, "queued")
    for _ in range(3):
        world.worker.step()
        world.clock.advance("2s")
    assert (world.job(job).attempt, world.job(job).refunds, world.job(job).status) == (2, REFUND_CAP, "failed")


@pytest.mark.parametrize("reason", ["released", "away", "ghost"])
def test_what_is_given_back_costs_no_attempt(world: World, lone: Callable[..., Job], reason: Any) -> None:
    job = lone(max_attempts=1)
    for _ in range(3):
        (lease,) = world.running("work")
        if reason == "released":
            assert world.settle(lease, Released("released")).accepted == {lease.held}
        else:
            world.clock.advance("91s")  # expired or not
            given = flow.give_back(world.program, "w1", [lease.held], reason)
            assert given.accepted == {lease.held}
            world.follow(given)
        assert (world.job(job).status, world.job(job).attempt) == ("queued", 0)
    assert world.job(job).refunds == 3
    word = "away" if reason == "away" else "released"
    assert [(entry.outcome, entry.note) for entry in world.journal(job)] == [(word, reason)] * 3
    world.worker.drain()
    assert world.job(job).status == "completed"


def test_giving_back_names_owner_and_token(world: World, lone: Callable[..., Job]) -> None:
    lone()
    (lease,) = world.running("work")
    other = Held(lease.tenant_id, lease.job_id, lease.fencing_token + 1)
    assert flow.give_back(world.program, "w2", [lease.held], "ghost").accepted == set()
    assert flow.give_back(world.program, "w1", [other], "ghost").accepted == set()
    world.settle(lease, DONE)
    assert flow.give_back(world.program, "w1", [lease.held], "away").accepted == set()


def test_a_job_that_is_given_back_for_ever_ends(world: World, lone: Callable[..., Job]) -> None:
    job = lone(max_attempts=1)
    for _ in range(REFUND_CAP + 1):
        (lease,) = world.running("work")
        world.settle(lease, Released("released"))
    ended = world.job(job)
    assert (ended.status, ended.error_code) == ("failed", "released")
    assert f"given back unfinished, {REFUND_CAP} times" in str(ended.error_text)


# -- rescue (B04) ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 3])
def test_a_job_that_kills_its_workers_is_given_up(world: World, lone: Callable[..., Job], most: int) -> None:
    job = lone(max_attempts=most)
    world.worker.on("work", *[VANISH] * (most + 1))
    for _ in range(most + 1):
        world.worker.drain()
        world.clock.advance("91s")
    ended = world.job(job)
    assert (ended.status, ended.attempt, ended.error_code) == ("failed", most, "lease_expired")
    assert f"worker lost {most} time" in str(ended.error_text)
    assert world.worker.ran.count("work") == most
    assert [entry.outcome for entry in world.journal(job)] == ["lease_expired"] * most


def test_an_exhausted_job_is_ended_by_workers_that_do_not_have_its_tool(world: World, lone: Callable[..., Job]) -> None:
    job = lone(max_attempts=1)
    world.worker.on("work", VANISH)
    world.worker.drain()
    world.clock.advance("91s")
    Driver(world.program, "w2", tools=["read"]).step()
    assert world.job(job).status == "failed"


def test_what_is_not_expired_is_not_rescued(world: World, lone: Callable[..., Job]) -> None:
    job = lone()
    world.running("work")
    world.clock.advance("89s")
    flow.rescue(world.program)
    assert world.job(job).status == "running"
    world.clock.advance("2s")
    flow.rescue(world.program)
    assert (world.job(job).status, world.job(job).attempt) == ("queued", 1)


def test_max_runtime_ends_a_job_at_rescue(world: World, lone: Callable[..., Job]) -> None:
    job = lone(max_attempts=9, timeout_s=100, max_runtime_s=100)
    world.worker.on("work", VANISH, VANISH, VANISH)
    world.worker.drain()
    world.clock.advance("91s")
    world.worker.drain()
    assert world.job(job).status == "running"
    world.clock.advance("10s")  # the second lease ends with the runtime, not 90 s after its claim
    world.worker.drain()
    ended = world.job(job)
    assert (ended.status, ended.error_code, ended.attempt) == ("failed", "max_runtime_exceeded", 2)
    assert "(100s)" in str(ended.error_text)


def test_max_runtime_ends_a_retry_that_would_be_due_beyond_it(world: World, lone: Callable[..., Job]) -> None:
    job = lone(timeout_s=100, max_runtime_s=100)
    world.worker.on("work", RetryableError("later", retry_after=101))
    world.worker.drain()
    ended = world.job(job)
    assert (ended.status, ended.error_code) == ("failed", "max_runtime_exceeded")
    assert "later" in str(ended.error_text)


def test_a_row_that_cannot_be_judged_is_quarantined_and_stops_no_other(
    world: World, lone: Callable[..., Job], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bad = lone()
    good = flow.enqueue(world.program, flow.BareJob(tool="read", arguments={}))[0]
    earlier = flow.enqueue(world.program, flow.BareJob(tool="read", arguments={}))[0]
    world.worker.on("work", VANISH).on("read", VANISH, VANISH)
    world.worker.drain()
    world.clock.advance("91s")
    decide = flow.settle.__globals__["decide"]

    def breaks(job: Job, *rest: Any) -> Any:
        if job.job_id == bad.job_id:
            raise ZeroDivisionError("a bad row")
        return decide(job, *rest)

    monkeypatch.setitem(flow.settle.__globals__, "decide", breaks)
    with caplog.at_level(logging.CRITICAL, "tenure.flow"):
        world.worker.maintain()
    assert (world.job(bad).status, world.job(bad).error_code) == ("failed", "quarantined")
    assert [world.job(job).status for job in (good, earlier)] == ["queued", "queued"]
    if bad.turn is not None:
        turn = world.turn_of(bad)
        assert (turn.status, turn.error_code) == ("failed", "quarantined")
        assert world.card().active_turn_id is None


def test_a_bad_question_stops_no_other_in_the_expiry_sweep(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    turns = [world.planned(Step("a", "ask"), session=session) for session in ("s", "t", "u")]
    bad = world.approvals()[1].approval_id
    world.clock.advance(8 * 86400)
    refuse = flow.decide.__globals__["_refuse"]

    def breaks(tx: Any, program: Any, turn: Any, approval: Any, *rest: Any) -> None:
        if approval.approval_id == bad:
            raise ZeroDivisionError("a bad row")
        refuse(tx, program, turn, approval, *rest)

    monkeypatch.setitem(flow.decide.__globals__, "_refuse", breaks)
    with caplog.at_level(logging.CRITICAL, "tenure.flow"):
        flow.maintain(world.program)
    assert [world.turn(turn).status for turn in turns] == ["failed", "awaiting_approval", "failed"]


# -- late settlements --------------------------------------------------------------------------------------------------


def test_a_late_result_is_rejected_recorded_once_and_changes_nothing(world: World, lone: Callable[..., Job]) -> None:
    job = lone()
    (late,) = world.running("work")
    world.clock.advance("91s")
    flow.rescue(world.program)
    (current,) = world.running("work", owner="w2")
    for _ in range(2):
        settled = world.settle(late, Completed('{"n":13}'))
        assert (settled.accepted, settled.rejected) == (set(), {late.held})
    assert world.job(job).fencing_token == current.fencing_token
    assert world.settle(current, DONE, "w2").accepted == {current.held}
    assert world.settle(late, Completed('{"n":13}')).rejected == {late.held}
    assert world.job(job).output == {"n": 1}
    entries = world.journal(job)
    assert [(entry.outcome, entry.fencing_token) for entry in entries] == [
        ("lease_expired", late.fencing_token),
        ("result_rejected", late.fencing_token),
    ]
    assert (entries[1].result, entries[1].result_sha256) == ({"n": 13}, sha256('{"n":13}'))
    if not late.is_bare:
        events = world.events("s", "result_rejected")
        assert [(event.job_id, event.fencing_token) for event in events] == [(job.job_id, late.fencing_token)]
        assert events[0].payload["result_sha256"] == sha256('{"n":13}')


@pytest.mark.parametrize("outcome", [DONE, Failed("x", "broken", "terminal"), Failed("x", "broken", "retryable")])
def test_expired_is_lost_even_when_nobody_else_has_claimed(
    world: World, lone: Callable[..., Job], outcome: flow.Outcome
) -> None:
    job = lone()
    (lease,) = world.running("work")
    world.clock.advance("91s")
    assert world.settle(lease, outcome).rejected == {lease.held}
    assert world.job(job).status == "running"
    assert [entry.outcome for entry in world.journal(job)] == ["result_rejected"]


@pytest.mark.parametrize(
    "outcome",
    [DONE, Failed("x", "x", "terminal"), Failed("x", "x", "retryable", 5.0), Released("released")],
    ids=lambda outcome: type(outcome).__name__ + getattr(outcome, "kind", ""),
)
def test_an_own_settlement_is_found_again(world: World, lone: Callable[..., Job], outcome: flow.Outcome) -> None:
    job = lone()
    (lease,) = world.running("work")
    for _ in range(2):
        settled = world.settle(lease, outcome)
        assert (settled.accepted, settled.rejected) == ({lease.held}, set())
    assert "result_rejected" not in [entry.outcome for entry in world.journal(job)]


@pytest.mark.parametrize("outcome", [DONE, Failed("x", "x", "retryable", 5.0)], ids=["completed", "failed"])
def test_a_settlement_whose_answer_was_lost_at_the_commit_is_accepted(
    world: World, lone: Callable[..., Job], outcome: flow.Outcome
) -> None:
    job = lone()
    (lease,) = world.running("work")
    lost: list[str] = []

    def reach(when: str, what: str) -> None:
        if when == "after" and not lost:
            lost.append(what)
            raise CommitUnknown(what)

    world.database.checkpoint = reach
    settled = world.settle(lease, outcome)
    world.database.checkpoint = None
    assert len(lost) == 1
    assert settled.accepted == {lease.held}
    assert world.job(job).status == ("completed" if outcome is DONE else "queued")
    assert len(world.journal(job)) == (outcome is not DONE)


def test_a_result_that_came_after_rescue_gave_the_job_up_is_kept_as_a_record(
    world: World, lone: Callable[..., Job]
) -> None:
    job = lone(max_attempts=1)
    (lease,) = world.running("work")
    world.clock.advance("91s")
    world.follow(flow.rescue(world.program))
    assert world.settle(lease, DONE).rejected == {lease.held}
    assert [entry.outcome for entry in world.journal(job)] == ["lease_expired", "result_rejected"]


@pytest.mark.parametrize("how", ["away", "max_runtime", "cancel"])
def test_what_others_wrote_into_the_journal_is_not_taken_for_ones_own_result(
    world: World, lone: Callable[..., Job], how: str
) -> None:
    job = lone(timeout_s=60, max_runtime_s=60)
    (lease,) = world.running("work")
    if how == "away":
        world.follow(flow.give_back(world.program, "w1", [lease.held], "away"))
    else:
        if how == "cancel":
            world.cancel(job)
        world.clock.advance("91s")
        world.follow(flow.rescue(world.program))
    assert world.settle(lease, DONE).rejected == {lease.held}
    assert world.journal(job)[-1].outcome == "result_rejected"


def test_jobs_that_end_together_are_judged_one_by_one(world: World) -> None:
    turn = world.planned(*(Step(name, "read") for name in "abc"))
    leases = world.running("read")
    stale = leases[1]
    world.change(
        schema.background_jobs,
        schema.background_jobs.c.job_id == stale.job_id,
        lease_owner="w9",
    )
    settled = flow.settle(
        world.program,
        "w1",
        [Settlement(leases[0], DONE), Settlement(stale, DONE), Settlement(leases[2], Failed("x", "x", "retryable", 9))],
    )
    assert (settled.accepted, settled.rejected) == ({leases[0].held, leases[2].held}, {stale.held})
    assert sorted(world.item_statuses(turn).values()) == ["completed", "queued", "running"]


def test_two_that_fail_together_fail_their_turn_once(world: World) -> None:
    turn = world.planned(Step("a", "read"), Step("b", "read"), Step("c", "read").after("a"))
    leases = world.running("read")
    settled = flow.settle(world.program, "w1", [Settlement(lease, Failed("x", "x", "terminal")) for lease in leases])
    world.follow(settled)
    assert world.item_statuses(turn) == {"a": "failed", "b": "failed", "c": "cancelled"}
    assert world.kinds().count("turn_failed") == 1


def test_bare_jobs_complete_in_one_statement_and_write_no_event(world: World) -> None:
    job = flow.enqueue(world.program, flow.BareJob(tool="read", arguments={"n": 4}))[0]
    reached: list[str] = []
    (lease,) = world.running("read")
    world.database.checkpoint = lambda when, what: reached.append(f"{when} {what}")
    world.settle(lease, DONE)
    assert reached == ["before flow.settle._complete_bare", "after flow.settle._complete_bare"]
    assert world.job(job).output == {"n": 1}
    assert world.journal(job) == []


# -- the project's latest output ---------------------------------------------------------------------------------------


def test_what_a_writing_job_published_last_is_the_projects_output(world: World) -> None:
    world.tool("report", writes="output")
    project = RowKey("default", "p")

    def publish(lease: Lease, number: int) -> str:
        artifact_id = f"0199{number:04d}-0000-7000-8000-000000000000"
        file = NewArtifact("default", artifact_id, "x", "text/plain", 1, "00", "x", job_id=lease.job_id)
        world.database.write(lambda tx: artifacts.insert(tx, file))
        return artifact_id

    def latest() -> str | None:
        found = world.database.read(lambda tx: projects.get(tx, project))
        assert found is not None
        return found.latest_output_file_id

    world.planned(Step("a", "report"), project_id="p")
    (lease,) = world.running("report")
    publish(lease, 1)
    second = publish(lease, 2)
    assert latest() is None
    world.settle(lease, DONE)
    assert latest() == second
    world.worker.drain()
    # A reader, and a writer that fails, change nothing.
    world.planned(Step("a", "read"), Step("b", "report"), project_id="p")
    reader, writer = sorted(world.running("read", "report"), key=lambda lease: lease.tool)
    for number, lease in enumerate((reader, writer), start=3):
        publish(lease, number)
    world.settle(reader, DONE)
    world.settle(writer, Failed("x", "x", "terminal"))
    assert latest() == second
