"""What the holder of a lease writes while it holds it, each write under the one predicate.

tenant and job, `status = 'running'`, the owner, the fencing token, and a lease that ends after the database's now.
Zero rows: not the owner. Each row of a batch has its own verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.types import TypeEngine

from tenure.db.clock import after, earlier, now, now_plus, seconds_until
from tenure.db.reading import columns_of, many
from tenure.db.rows import pack, table_of
from tenure.db.schema import background_jobs
from tenure.db.tx import AnyRow, Tx
from tenure.db.types import Id, Json, Key, encode_json
from tenure.records import Held, Job, Renewal
from tenure.store.jobs import jobs

PAIR: dict[str, TypeEngine[Any]] = {"tenant_id": Key(), "job_id": Id(), "token": sa.BigInteger()}
_pairs = table_of("pairs", PAIR)

# The status is hidden from PostgreSQL's planner: it would join the few running rows to the batch in a nested loop once
# the plan is generic, which is batch × batch work.
_is_running = jobs.status.concat(sa.literal_column("''")) == "running"


def holds(pairs: sa.CTE) -> sa.ColumnElement[bool]:
    """The holder's predicate over a table with the columns of `PAIR`; bind `owner`."""
    return sa.and_(
        jobs.tenant_id == pairs.c.tenant_id,
        jobs.job_id == pairs.c.job_id,
        _is_running,
        jobs.lease_owner == sa.bindparam("owner"),
        jobs.fencing_token == pairs.c.token,
        jobs.lease_expires_at > now(),
    )


def named(owner: str, pairs: Iterable[Held]) -> dict[str, Any]:
    """The parameters of the predicate."""
    return {"owner": owner, "pairs": pack(sorted(pairs))}


_held = [jobs.tenant_id, jobs.job_id, jobs.fencing_token]
_status = [seconds_until(jobs.lease_expires_at), jobs.cancel_requested_at.is_not(None)]
# A locked row must not stop the renewal of the others: it is skipped, and read without a lock by `still_held`.
_renewable = (
    sa.select(jobs.tenant_id, jobs.job_id, jobs.fencing_token.label("token"))
    .join(_pairs, holds(_pairs))
    .with_for_update(key_share=True, skip_locked=True, of=background_jobs)
    .cte("renewable")
)
_renew = (
    sa.update(background_jobs)
    .where(holds(_renewable))
    .values(lease_expires_at=earlier(now_plus(jobs.lease_s), after(jobs.first_claimed_at, jobs.max_runtime_s)))
    .returning(*_held, *_status)
)
_still_held = sa.select(*_held, *_status).join(_pairs, holds(_pairs))


def renew(tx: Tx, owner: str, pairs: Iterable[Held]) -> list[Renewal]:
    """Extends each lease by its full length, never beyond `max_runtime`; what is missing was not renewed.

    Waits for no lock. One statement, for `Database.single`.
    """
    return _renewals(tx.rows(_renew, named(owner, pairs)))


def still_held(tx: Tx, owner: str, pairs: Iterable[Held]) -> list[Renewal]:
    """Reads, without a lock, which of the pairs the owner still holds."""
    return _renewals(tx.rows(_still_held, named(owner, pairs)))


def _renewals(rows: Sequence[AnyRow]) -> list[Renewal]:
    return [Renewal(Held(row[0], row[1], row[2]), row[3], bool(row[4])) for row in rows]


_guard = (
    sa.select(*columns_of(background_jobs, Job))
    .join(_pairs, holds(_pairs))
    .order_by(jobs.tenant_id, jobs.job_id)
    .with_for_update(key_share=True, of=background_jobs)
)


def guard(tx: Tx, owner: str, pairs: Iterable[Held]) -> dict[Held, Job]:
    """Locks, in lock order, the jobs that the owner holds now; until the commit the row lock is the ownership.

    Every write to another table on a job's behalf begins with it. What is missing is not owned.
    """
    found = many(Job, tx.rows(_guard, named(owner, pairs)))
    return {Held(job.tenant_id, job.job_id, job.fencing_token or 0): job for job in found}


_reports = table_of("reports", {**PAIR, "progress": Json()})
_report = (
    sa.update(background_jobs)
    .where(holds(_reports))
    .values(progress=_reports.c.progress, progress_seq=jobs.progress_seq + 1)
    .returning(*_held, jobs.progress_seq)
)


def report(tx: Tx, owner: str, progress: dict[Held, Any]) -> dict[Held, int]:
    """Stores the latest progress of each job (JSON values, sanitized by the caller); returns its `progress_seq`."""
    rows = [[*held, encode_json(value)] for held, value in sorted(progress.items())]
    stored = tx.rows(_report, {"owner": owner, "reports": pack(rows)})
    return {Held(row[0], row[1], row[2]): row[3] for row in stored}


_begin = sa.update(background_jobs).where(holds(_pairs)).values(started_at=now()).returning(*_held)


def begin(tx: Tx, owner: str, pairs: Iterable[Held]) -> set[Held]:
    """Stamps `started_at` of each job that the owner holds."""
    return {Held(*row) for row in tx.rows(_begin, named(owner, pairs))}


_extend = (
    sa.update(background_jobs)
    .where(holds(_pairs))
    .values(
        lease_expires_at=earlier(now_plus(jobs.lease_s), after(jobs.first_claimed_at, jobs.max_runtime_s)),
        progress_seq=jobs.progress_seq + 1,
    )
    .returning(*_held, *_status)
)


def extend(tx: Tx, owner: str, held: Held) -> Renewal | None:
    """The guard of a saved stage: locks the job, renews its lease for its full length and counts as progress.

    None: not the owner, and nothing may be written on the job's behalf.
    """
    return next(iter(_renewals(tx.rows(_extend, named(owner, [held])))), None)
