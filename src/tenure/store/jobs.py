"""Jobs as rows: made, found, listed, cancelled before they run, reopened."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tenure.db.clock import after, now
from tenure.db.inserting import insert_if_absent
from tenure.db.reading import columns_of, many, one
from tenure.db.rows import pack, table_of
from tenure.db.schema import background_jobs
from tenure.db.tx import Tx
from tenure.db.types import Id, Json, Key, encode_json
from tenure.records import Job, NewJob, RowKey

PRIORITY_STEP_S = 60

jobs = background_jobs.c
this = sa.and_(jobs.tenant_id == sa.bindparam("tenant"), jobs.job_id == sa.bindparam("job", type_=Id()))
_all = columns_of(background_jobs, Job)
_get = sa.select(*_all).where(this)
_lock = _get.with_for_update(key_share=True)
_by_key = sa.select(*_all).where(
    jobs.tenant_id == sa.bindparam("tenant"), jobs.idempotency_key == sa.bindparam("idempotency_key")
)

_new = table_of(
    "new",
    {
        "tenant_id": Key(),
        "job_id": Id(),
        "tool": Key(),
        "input": Json(),
        "max_attempts": sa.Integer(),
        "max_runtime_s": sa.Float(53),
        "session_id": Key(),
        "turn_id": Id(),
        "item_id": Id(),
        "round": sa.Integer(),
        "position": sa.Integer(),
        "project_id": Key(),
        "user_id": Key(),
        "grant_id": Id(),
        "digest": sa.Text(),
        "due_in_s": sa.Float(53),
        "priority": sa.Integer(),
        "limit_key": Key(),
        "user_limit_key": Key(),
        "slot_key": Key(),
        "blocked_by": Key(),
        "idempotency_key": Key(),
        "request_digest": sa.Text(),
        "traceparent": sa.Text(),
    },
)
_copied = [column for column in _new.c if column.name != "due_in_s"]
# A job that is due at creation is moved forward by its priority; one with a delay carries its due time alone.
_due = after(now(), sa.func.coalesce(_new.c.due_in_s, -PRIORITY_STEP_S * _new.c.priority))
_insert = (
    insert_if_absent(background_jobs)
    .from_select(
        [*(column.name for column in _copied), "status", "claim_at", "created_at"],
        # WHERE: SQLite would read ON CONFLICT as the ON of a join.
        sa.select(*_copied, sa.literal("queued"), _due, now()).where(sa.true()),
    )
    .returning(jobs.tenant_id, jobs.job_id)
)


def names(key: RowKey) -> dict[str, str]:
    """The parameters of `this`."""
    return {"tenant": key.tenant_id, "job": key.id}


def insert(tx: Tx, new: Sequence[NewJob]) -> set[RowKey]:
    """Inserts jobs that are absent by id, idempotency key and place in their turn; returns those inserted.

    A job that needs keys waits at the first of them until it is admitted.
    """
    rows = [_row(job) for job in new]
    return {RowKey(row[0], row[1]) for row in tx.rows(_insert, {"new": pack(rows)})}


def _row(job: NewJob) -> list[Any]:
    return [
        job.tenant_id,
        job.job_id,
        job.tool,
        encode_json(job.input),
        job.max_attempts,
        job.max_runtime_s,
        job.session_id,
        job.turn_id,
        job.item_id,
        job.round,
        job.position,
        job.project_id,
        job.user_id,
        job.grant_id,
        job.digest,
        job.due_in_s,
        job.priority,
        job.limit_key,
        job.user_limit_key,
        job.slot_key,
        next(iter(job.keys), None),
        job.idempotency_key,
        job.request_digest,
        job.traceparent,
    ]


def get(tx: Tx, key: RowKey) -> Job | None:
    """The job as it is, without a lock."""
    return one(Job, tx.first(_get, names(key)))


def lock(tx: Tx, key: RowKey) -> Job | None:
    """Locks one job to the end of the transaction; waits for whoever holds the row."""
    return one(Job, tx.first(_lock, names(key)))


def by_idempotency_key(tx: Tx, tenant_id: str, idempotency_key: str) -> Job | None:
    """The job that was made with this key."""
    return one(Job, tx.first(_by_key, {"tenant": tenant_id, "idempotency_key": idempotency_key}))


def live_of_turn(tx: Tx, turn: RowKey) -> list[RowKey]:
    """Queued and running jobs of a turn, in lock order."""
    statement = (
        sa.select(jobs.tenant_id, jobs.job_id)
        .where(jobs.tenant_id == turn.tenant_id, jobs.turn_id == turn.id, jobs.status.in_(["queued", "running"]))
        .order_by(jobs.job_id)
    )
    return [RowKey(*row) for row in tx.rows(statement)]


def of_turn(tx: Tx, turn: RowKey) -> list[Job]:
    """Every job of a turn, by round and position."""
    statement = (
        sa.select(*_all)
        .where(jobs.tenant_id == turn.tenant_id, jobs.turn_id == turn.id)
        .order_by(jobs.round, jobs.position)
    )
    return many(Job, tx.rows(statement))


@dataclass(frozen=True, slots=True)
class Filter:
    """Which jobs a list shows; None does not narrow. `after` is the last job id of the page before."""

    tenant_id: str
    status: str | None = None
    tool: str | None = None
    session_id: str | None = None
    turn_id: str | None = None
    after: str | None = None
    limit: int = 50


def listed(tx: Tx, wanted: Filter) -> list[Job]:
    """Jobs newest first, at most `limit`."""
    statement = sa.select(*_all).where(jobs.tenant_id == wanted.tenant_id)
    for column in ("status", "tool", "session_id", "turn_id"):
        value = getattr(wanted, column)
        if value is not None:
            statement = statement.where(background_jobs.c[column] == value)
    if wanted.after is not None:
        statement = statement.where(jobs.job_id < wanted.after)
    return many(Job, tx.rows(statement.order_by(jobs.job_id.desc()).limit(wanted.limit)))


_end_queued = (
    sa.update(background_jobs)
    .where(this, jobs.status == "queued")
    .values(
        status="cancelled",
        finished_at=now(),
        blocked_by=None,
        slot_held_at=None,
        cancel_requested_at=sa.func.coalesce(jobs.cancel_requested_at, now()),
        cancel_requested_by=sa.func.coalesce(jobs.cancel_requested_by, sa.bindparam("by")),
        error_code=sa.bindparam("code"),
    )
)
_request_cancel = (
    sa.update(background_jobs)
    .where(this, jobs.status == "running")
    .values(
        cancel_requested_at=sa.func.coalesce(jobs.cancel_requested_at, now()),
        cancel_requested_by=sa.func.coalesce(jobs.cancel_requested_by, sa.bindparam("by")),
    )
)


def cancel_queued(tx: Tx, key: RowKey, by: str, code: str = "cancelled") -> bool:
    """Ends a queued job at once. False: it is not queued."""
    return tx.count(_end_queued, {**names(key), "by": by, "code": code}) == 1


def request_cancel(tx: Tx, key: RowKey, by: str) -> bool:
    """Asks a running job to end; it keeps its lease and keys until it settles. False: it is not running."""
    return tx.count(_request_cancel, {**names(key), "by": by}) == 1


def reopen(
    tx: Tx,
    key: RowKey,
    *,
    grant_id: str | None,
    blocked_by: str | None,
    final: tuple[dict[str, Any], str | None] | None = None,
) -> bool:
    """`failed | cancelled → queued` under the same id: attempt 0, tokens go on. False: it is neither.

    `final`: the input and digest that were permitted anew; without it the input stays.
    """
    permitted = {} if final is None else {"input": final[0], "digest": final[1]}
    statement = (
        sa.update(background_jobs)
        .where(this, jobs.status.in_(["failed", "cancelled"]))
        .values(
            status="queued",
            claim_at=now(),
            attempt=0,
            refunds=0,
            fence_conflicts=0,
            grant_id=grant_id,
            blocked_by=blocked_by,
            first_claimed_at=None,
            claimed_at=None,
            started_at=None,
            finished_at=None,
            cancel_requested_at=None,
            cancel_requested_by=None,
            error_code=None,
            error_kind=None,
            error_text=None,
            **permitted,
        )
    )
    return tx.count(statement, names(key)) == 1


def unknown_tools(tx: Tx, offered: Iterable[str]) -> dict[str, int]:
    """Queued jobs by tool that nobody in `offered` runs."""
    statement = (
        sa.select(jobs.tool, sa.func.count())
        .where(jobs.status == "queued", jobs.tool.not_in(list(offered)))
        .group_by(jobs.tool)
    )
    return {row[0]: row[1] for row in tx.rows(statement)}
