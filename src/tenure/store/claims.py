"""Claiming: the oldest due jobs of the tools that a worker has, under a lease and a new fencing token.

A claim writes job rows only and waits for nothing. One statement on PostgreSQL; on SQLite three in one transaction
(candidates, counter, update), of which an idle poll runs only the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from tenure.db.clock import after, earlier, now, now_plus, seconds_until
from tenure.db.rows import pack, table_of
from tenure.db.schema import background_jobs
from tenure.db.tokens import draw, next_token
from tenure.db.tx import AnyRow, Tx
from tenure.db.types import Id, Key
from tenure.records import Held, Lease
from tenure.store.jobs import jobs

_leased = [
    jobs.tenant_id,
    jobs.job_id,
    jobs.tool,
    jobs.fencing_token,
    jobs.attempt,
    seconds_until(jobs.lease_expires_at).label("remaining_s"),
    jobs.lease_s,
    jobs.input,
    jobs.session_id,
    jobs.turn_id,
    jobs.item_id,
    jobs.round,
    jobs.project_id,
    jobs.user_id,
    jobs.grant_id,
    jobs.limit_key,
    jobs.user_limit_key,
    jobs.slot_key,
    jobs.max_attempts,
    jobs.refunds,
    jobs.traceparent,
]


def claim(tx: Tx, owner: str, leases: Mapping[str, float], count: int) -> list[Lease]:
    """Claims up to `count` jobs, oldest first, of the tools in `leases` (tool → lease in seconds).

    Only what is due, unblocked and claimable now; order is `claim_at`, then id. Needs `Database.single`.
    """
    if not leases or count < 1:
        return []
    tools = tuple(sorted(leases.items()))
    if tx.one_writer:
        rows = _claim_in_three(tx, owner, tools, count)
    else:
        rows = tx.rows(_one_statement(tools), {"owner": owner, "count": count})
    # UUIDv7 ids sort by age among equals; RETURNING has no order of its own.
    return [Lease(*row[1:]) for row in sorted(rows, key=lambda row: (row[0], row.job_id))]


def _candidates(tools: Sequence[str], *columns: Any) -> sa.Select[Any]:
    """The oldest claimable rows of each tool, one bounded index range a tool, merged."""
    limit = sa.bindparam("count", type_=sa.Integer(), literal_execute=True)
    ranges = [
        sa.select(*columns, jobs.claim_at, jobs.job_id)
        .where(jobs.tool == tool, jobs.status == _QUEUED, jobs.blocked_by.is_(None), jobs.claim_at <= now())
        .order_by(jobs.claim_at, jobs.job_id)
        .limit(limit)
        .with_for_update(key_share=True, skip_locked=True)
        .subquery()
        for tool in tools
    ]
    merged = sa.union_all(*(sa.select(each) for each in ranges)).subquery("merged")
    return sa.select(merged).order_by(merged.c.claim_at, merged.c.job_id).limit(limit)


# A literal, so that the planner sees that the partial index fits.
_QUEUED: sa.ColumnElement[str] = sa.literal_column("'queued'")


def _granted(tools: Sequence[tuple[str, float]]) -> dict[str, Any]:
    """What a claim writes. The lease never reaches beyond the job's `max_runtime`."""
    lease = sa.case(dict(tools), value=jobs.tool)
    first = sa.func.coalesce(jobs.first_claimed_at, now())
    return {
        "status": "running",
        "lease_owner": sa.bindparam("owner"),
        "lease_s": lease,
        "lease_expires_at": earlier(now_plus(lease), after(first, jobs.max_runtime_s)),
        "attempt": jobs.attempt + 1,
        "claimed_at": now(),
        "first_claimed_at": first,
    }


@lru_cache(maxsize=64)
def _one_statement(tools: tuple[tuple[str, float], ...]) -> sa.UpdateBase:
    # By physical place: an array of ids would be joined by a plan that turns quadratic or scans once it is generic.
    place: sa.ColumnElement[Any] = sa.literal_column("background_jobs.ctid")
    chosen = _candidates([tool for tool, _ in tools], place.label("place")).cte("chosen")
    places = sa.func.array(sa.select(chosen.c.place).scalar_subquery())
    return (
        sa.update(background_jobs)
        .where(place == sa.func.any(places))
        .values(fencing_token=next_token(), **_granted(tools))
        .returning(jobs.claim_at, *_leased)
    )


@lru_cache(maxsize=64)
def _read_candidates(tools: tuple[str, ...]) -> sa.Select[Any]:
    return _candidates(tools, jobs.tenant_id)


_drawn = table_of("drawn", {"tenant_id": Key(), "job_id": Id(), "token": sa.BigInteger()})


@lru_cache(maxsize=64)
def _write_claimed(tools: tuple[tuple[str, float], ...]) -> sa.UpdateBase:
    return (
        sa.update(background_jobs)
        .where(jobs.tenant_id == _drawn.c.tenant_id, jobs.job_id == _drawn.c.job_id, jobs.status == _QUEUED)
        .values(fencing_token=_drawn.c.token, **_granted(tools))
        .returning(jobs.claim_at, *_leased)
    )


def _claim_in_three(tx: Tx, owner: str, tools: tuple[tuple[str, float], ...], count: int) -> Sequence[AnyRow]:
    found = tx.rows(_read_candidates(tuple(tool for tool, _ in tools)), {"count": count})
    if not found:
        return []
    drawn = [[row.tenant_id, row.job_id, token] for row, token in zip(found, draw(tx, len(found)), strict=True)]
    return tx.rows(_write_claimed(tools), {"owner": owner, "drawn": pack(drawn)})


_of_owner = sa.select(jobs.tenant_id, jobs.job_id, jobs.fencing_token).where(
    jobs.status == sa.literal_column("'running'"), jobs.lease_owner == sa.bindparam("owner")
)


def held_by(tx: Tx, owner: str) -> list[Held]:
    """Everything that runs under this owner's name, known to it or not: what it never received are ghost claims."""
    return [Held(*row) for row in tx.rows(_of_owner, {"owner": owner})]
