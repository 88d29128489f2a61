"""How a running job stops being one: completed, ended, requeued or given back.

`complete_bare` is the hot path, one statement under the holder's predicate. All other endings are written by `apply`
to rows that the transaction has locked before: by the holder's guard, by rescue, or by the return of a process that
was away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tenure.db.clock import after, now, now_plus, seconds_until
from tenure.db.reading import columns_of, many, one
from tenure.db.rows import pack, table_of
from tenure.db.schema import background_jobs, tenure_meta
from tenure.db.tx import Tx
from tenure.db.types import Id, Json, Key
from tenure.records import Held, Job, RowKey
from tenure.states import JobStatus
from tenure.store.holding import PAIR, holds
from tenure.store.jobs import jobs

_results = table_of("results", {**PAIR, "output": Json()})
_complete = (
    sa.update(background_jobs)
    .where(holds(_results), jobs.turn_id.is_(None), jobs.cancel_requested_at.is_(None))
    .values(
        status="completed",
        output=_results.c.output,
        lease_expires_at=None,
        finished_at=now(),
        error_code=None,
        error_kind=None,
        error_text=None,
    )
    .returning(jobs.tenant_id, jobs.job_id, jobs.fencing_token)
)


def complete_bare(tx: Tx, owner: str, results: Mapping[Held, str]) -> set[Held]:
    """Completes bare jobs without a cancel request; `results` are encoded JSON outputs.

    Returns those that it completed; each of the others is judged by the transaction that settles one at a time.
    """
    rows = [[*held, output] for held, output in results.items()]
    return {Held(*row) for row in tx.rows(_complete, {"owner": owner, "results": pack(rows)})}


@dataclass(frozen=True, slots=True)
class Ending:
    """What becomes of a locked running job. `output` is encoded JSON; `due_in_s` is for a retry (`queued`)."""

    held: Held
    status: JobStatus
    attempt: int
    refunds: int
    output: str | None = None
    due_in_s: float = 0.0
    blocked_by: str | None = None
    error_code: str | None = None
    error_kind: str | None = None
    error_text: str | None = None
    fence_conflicts: int = 0


_endings = table_of(
    "endings",
    {
        **PAIR,
        "status": sa.Text(),
        "attempt": sa.Integer(),
        "refunds": sa.Integer(),
        "output": Json(),
        "due_in_s": sa.Float(53),
        "blocked_by": Key(),
        "error_code": sa.Text(),
        "error_kind": sa.Text(),
        "error_text": sa.Text(),
        "fence_conflicts": sa.Integer(),
    },
)
_queued_again = _endings.c.status == "queued"
_apply = (
    sa.update(background_jobs)
    .where(
        jobs.tenant_id == _endings.c.tenant_id,
        jobs.job_id == _endings.c.job_id,
        jobs.fencing_token == _endings.c.token,
        jobs.status == "running",
    )
    .values(
        status=_endings.c.status,
        attempt=_endings.c.attempt,
        refunds=_endings.c.refunds,
        output=_endings.c.output,
        blocked_by=_endings.c.blocked_by,
        error_code=_endings.c.error_code,
        error_kind=_endings.c.error_kind,
        error_text=_endings.c.error_text,
        fence_conflicts=_endings.c.fence_conflicts,
        lease_expires_at=None,
        claim_at=sa.case((_queued_again, now_plus(_endings.c.due_in_s)), else_=jobs.claim_at),
        finished_at=sa.case((_queued_again, sa.null()), else_=now()),
        slot_held_at=sa.case((_queued_again, jobs.slot_held_at), else_=sa.null()),
    )
    .returning(jobs.tenant_id, jobs.job_id, jobs.fencing_token)
)


def apply(tx: Tx, endings: Sequence[Ending]) -> set[Held]:
    """Writes the endings of jobs that this transaction has locked; returns those written."""
    if not endings:
        return set()
    return {Held(*row) for row in tx.rows(_apply, {"endings": pack([_row(ending) for ending in endings])})}


def _row(ending: Ending) -> list[Any]:
    return [
        *ending.held,
        ending.status,
        ending.attempt,
        ending.refunds,
        ending.output,
        ending.due_in_s,
        ending.blocked_by,
        ending.error_code,
        ending.error_kind,
        ending.error_text,
        ending.fence_conflicts,
    ]


_columns = columns_of(background_jobs, Job)
_sweep = (
    sa.update(tenure_meta)
    .where(tenure_meta.c.swept_at <= now_plus(sa.bindparam("ago", type_=sa.Float(53))))
    .values(swept_at=now())
)


def take_sweep(tx: Tx, every_s: float = 1.0) -> bool:
    """Whether it is this worker's turn to sweep: one sweep per `every_s` in the whole database."""
    return tx.count(_sweep, {"ago": -every_s}) == 1


_over = sa.and_(jobs.status == sa.literal_column("'running'"), jobs.lease_expires_at <= now())
_expired = (
    sa.select(jobs.tenant_id, jobs.job_id)
    .where(_over)
    # The order of the partial index: in that of the primary key SQLite would read every job there ever was.
    .order_by(jobs.lease_owner, jobs.tenant_id, jobs.job_id)
    .limit(sa.bindparam("count", type_=sa.Integer(), literal_execute=True))
)
_this = sa.and_(jobs.tenant_id == sa.bindparam("tenant"), jobs.job_id == sa.bindparam("job", type_=Id()))
_take_expired = sa.select(*_columns).where(_this, _over).with_for_update(key_share=True, skip_locked=True)


def expired(tx: Tx, count: int) -> list[RowKey]:
    """Running jobs whose lease is over, at most `count`, in lock order."""
    return sorted(RowKey(*row) for row in tx.rows(_expired, {"count": count}))


def take_expired(tx: Tx, key: RowKey) -> Job | None:
    """Locks one such job if it still is one and nobody else is at it; None otherwise."""
    return one(Job, tx.first(_take_expired, {"tenant": key.tenant_id, "job": key.id}))


_given = table_of("given", PAIR)
_own = (
    sa.select(*_columns)
    .join(
        _given,
        sa.and_(
            jobs.tenant_id == _given.c.tenant_id,
            jobs.job_id == _given.c.job_id,
            jobs.fencing_token == _given.c.token,
        ),
    )
    .where(jobs.status == "running", jobs.lease_owner == sa.bindparam("owner"))
    .order_by(jobs.tenant_id, jobs.job_id)
    .with_for_update(key_share=True, skip_locked=True, of=background_jobs)
)


def take_own(tx: Tx, owner: str, pairs: Iterable[Held]) -> list[Job]:
    """Locks what still runs under these tokens, expired or not: for ghost claims and a process that was away."""
    return many(Job, tx.rows(_own, {"owner": owner, "given": pack(sorted(pairs))}))


_settled_here = sa.select(jobs.tenant_id, jobs.job_id, jobs.fencing_token, jobs.status).join(
    _given,
    sa.and_(jobs.tenant_id == _given.c.tenant_id, jobs.job_id == _given.c.job_id, jobs.fencing_token == _given.c.token),
)


def status_under(tx: Tx, pairs: Iterable[Held]) -> dict[Held, JobStatus]:
    """The status of jobs that nobody claimed since these tokens: how one's own settlement is found again."""
    rows = tx.rows(_settled_here, {"given": pack(sorted(pairs))})
    return {Held(row[0], row[1], row[2]): JobStatus(row[3]) for row in rows}


def runtime_left(tx: Tx, key: RowKey) -> float:
    """Seconds of the job's `max_runtime` that are left, negative when it is used up."""
    statement = sa.select(seconds_until(after(jobs.first_claimed_at, jobs.max_runtime_s))).where(_this)
    left: float = tx.execute(statement, {"tenant": key.tenant_id, "job": key.id}).scalar_one()
    return left


def quarantine(tx: Tx, key: RowKey) -> bool:
    """Ends a running job whose row breaks the program that would judge it, so that it stops no other."""
    statement = (
        sa.update(background_jobs)
        .where(_this, jobs.status == "running")
        .values(
            status="failed",
            error_code="quarantined",
            error_text="the row could not be judged; see the worker's log",
            lease_expires_at=None,
            slot_held_at=None,
            finished_at=now(),
        )
    )
    return tx.count(statement, {"tenant": key.tenant_id, "job": key.id}) == 1
