"""Cancelling: a job, a turn, and what still lives of a turn that has ended."""

from __future__ import annotations

from functools import partial

from tenure import canon
from tenure.db.tx import Tx
from tenure.errors import NotFound, StateConflict
from tenure.flow import facts
from tenure.flow.program import PLAN, Program
from tenure.flow.settle import Settled, cancel_item, give_back_unused
from tenure.flow.turns import end, judge
from tenure.records import Job, RowKey, Turn
from tenure.states import JobStatus, TurnStatus, is_terminal
from tenure.store import jobs, keys, plans, turns


def cancel_job(program: Program, key: RowKey, by: str) -> Settled:
    """Ends a queued job at once, asks a running one to end. StateConflict with its status when it has ended."""

    by = canon.label(by, "by")

    def body(tx: Tx) -> Settled:
        job = jobs.lock(tx, key)
        if job is None:
            raise NotFound(f"no job {key.id!r}")
        if is_terminal(job.status):
            raise StateConflict(f"job {key.id} is {job.status} already", job.status)
        return _cancel(tx, program, job, by)

    return program.database.write(body)


def cancel_turn(program: Program, key: RowKey, by: str) -> Settled:
    """Ends the turn at once; its live jobs follow one by one. StateConflict when it has ended."""

    by = canon.label(by, "by")

    def body(tx: Tx) -> None:
        turn = turns.lock_one(tx, key)
        if turn is None:
            raise NotFound(f"no turn {key.id!r}")
        if is_terminal(turn.status):
            raise StateConflict(f"turn {key.id} is {turn.status} already", turn.status)
        end(tx, program, turn, TurnStatus.CANCELLED)

    program.database.write(body)
    return end_live_jobs(program, key, by)


def end_live_jobs(program: Program, turn: RowKey, by: str) -> Settled:
    """Cancels what is still queued or running of a turn that has ended, one transaction a job."""
    settled = Settled()
    for key in program.database.read(lambda tx: jobs.live_of_turn(tx, turn)):
        settled.add(program.database.write(partial(_cancel_live, program=program, key=key, by=by)))
    return settled


def _cancel_live(tx: Tx, program: Program, key: RowKey, by: str) -> Settled:
    job = jobs.lock(tx, key)
    if job is None or is_terminal(job.status) or job.cancel_requested_at is not None:
        return Settled()
    return _cancel(tx, program, job, by)


def _cancel(tx: Tx, program: Program, job: Job, by: str) -> Settled:
    turn = None if job.turn is None else turns.lock_one(tx, job.turn)
    if job.status == JobStatus.RUNNING:
        jobs.request_cancel(tx, job.key, by)
        facts.of_job(tx, job, "job_cancel_requested", by=by)
        return Settled()
    jobs.cancel_queued(tx, job.key, by)
    give_back_unused(tx, job, JobStatus.CANCELLED)
    facts.of_job(tx, job, "job_cancelled", attempt=job.attempt, code="cancelled", by=by)
    if turn is not None:
        _move_turn(tx, program, turn, job, by)
    names = [name for name in (job.limit_key, job.user_limit_key, job.slot_key) if name]
    followed = set() if job.turn is None else {job.turn}
    return Settled(turns=followed, keys={keys.place(job.tenant_id, name) for name in names})


def _move_turn(tx: Tx, program: Program, turn: Turn, job: Job, by: str) -> None:
    if job.item_id is not None:
        item = plans.get(tx, RowKey(job.tenant_id, job.item_id))
        if item is not None and not is_terminal(item.status):
            cancel_item(tx, turn, item, f"cancelled by {by}")
    if is_terminal(turn.status):
        return
    if job.tool == PLAN:
        end(tx, program, turn, TurnStatus.CANCELLED)
    else:
        judge(tx, program, turn)
