"""Manual retry: a failed or cancelled job is opened again under the same id, hence with its stages and effect keys."""

from __future__ import annotations

from tenure import canon
from tenure.db.tx import Tx
from tenure.errors import NotFound, SessionBusy, StateConflict
from tenure.flow import facts
from tenure.flow.program import PLAN, Program
from tenure.flow.settle import Settled
from tenure.records import Job, RowKey, Turn
from tenure.states import ItemStatus, JobStatus, TurnStatus, is_terminal
from tenure.store import jobs, keys, plans, sessions, turns

REOPENS = (JobStatus.FAILED, JobStatus.CANCELLED)


def reopen(program: Program, key: RowKey, by: str) -> Settled:
    """Queues the job again with attempt 0. A job of a failed turn reopens item and turn.

    StateConflict when it is neither failed nor cancelled, or its turn was completed or cancelled; SessionBusy when the
    session works on another turn.
    """

    by = canon.label(by, "by")

    def body(tx: Tx) -> Settled:
        job = jobs.lock(tx, key)
        if job is None:
            raise NotFound(f"no job {key.id!r}")
        if job.status not in REOPENS:
            raise StateConflict(
                f"job {key.id} is {job.status}; only a failed or cancelled one is opened again", job.status
            )
        turn = None if job.turn is None else turns.lock_one(tx, job.turn)
        if turn is None:
            return _reopen_bare(tx, job, by)
        return _reopen_in_turn(tx, turn, job, by)

    return program.database.write(body)


def _reopen_bare(tx: Tx, job: Job, by: str) -> Settled:
    names = sorted(name for name in (job.limit_key, job.user_limit_key) if name)
    jobs.reopen(tx, job.key, grant_id=None, blocked_by=next(iter(names), None))
    tx.wake()
    return Settled(keys={keys.place(job.tenant_id, name) for name in names})


def _reopen_in_turn(tx: Tx, turn: Turn, job: Job, by: str) -> Settled:
    if turn.status in (TurnStatus.COMPLETED, TurnStatus.CANCELLED):
        raise StateConflict(f"turn {turn.turn_id} is {turn.status}: submit a new one", turn.status)
    item = None if job.item_id is None else plans.get(tx, RowKey(job.tenant_id, job.item_id))
    if item is not None and not is_terminal(item.status):
        raise StateConflict(f"step {item.name!r} of job {job.job_id} is {item.status}", item.status)
    session = sessions.lock(tx, [turn.session])[turn.session]
    if turn.status == TurnStatus.FAILED:
        if session.active_turn_id is not None:
            raise SessionBusy(f"session {turn.session_id!r} works on another turn", session.active_turn_id)
        if jobs.live_of_turn(tx, turn.key):
            raise StateConflict(
                f"turn {turn.turn_id} still has jobs that are ending: retry when they have", turn.status
            )
        status = TurnStatus.RUNNING if turn.round > 0 else TurnStatus.PLANNING
        turns.change(tx, turn.key, status=status, finished_at=None, error_code=None, error_text=None)
        sessions.change(tx, turn.session, active_turn_id=turn.turn_id)
        facts.of_turn(tx, turn, "turn_running", reopened=True)
    if job.tool == PLAN:
        jobs.reopen(tx, job.key, grant_id=None, blocked_by=None)
        facts.of_job(tx, job, "job_reopened", by=by)
        tx.wake()
        return Settled()
    _reopen_items(tx, turn, job, by)
    return Settled(turns={turn.key})


def _reopen_items(tx: Tx, turn: Turn, job: Job, by: str) -> None:
    """The item goes through release again, with its grant and keys; so do those that ended only with the turn, or were
    skipped only because of it."""
    able: set[str] = set()
    for item in plans.of_turn(tx, turn.key):
        again = item.item_id == job.item_id or item.status == ItemStatus.CANCELLED
        skipped_with_it = item.error_code == "dependency_skipped" and able.issuperset(item.depends_on)
        if again or not is_terminal(item.status) or item.status == ItemStatus.COMPLETED or skipped_with_it:
            able.add(item.name)
        if again or skipped_with_it:
            plans.change(
                tx, item.key, ItemStatus.PENDING, grant_id=None, approval_id=None, error_code=None, error_text=None
            )
            facts.of_item(tx, turn, item, "item_reopened", by=by)
