"""The journal: what became of every attempt that did not complete its job, and every late result that was rejected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tenure.db.clock import now
from tenure.db.inserting import insert_if_absent
from tenure.db.reading import columns_of, many
from tenure.db.rows import pack, table_of
from tenure.db.schema import background_jobs, job_attempts
from tenure.db.tx import Tx
from tenure.db.types import Id, Json, Key, encode_json
from tenure.records import Held, JobAttempt, RowKey

_a = job_attempts.c


@dataclass(frozen=True, slots=True)
class Entry:
    """One ended attempt. `result` is a sanitized, bounded JSON value; `result_sha256` is of the exact one."""

    held: Held
    outcome: str
    owner: str
    attempt: int
    error_code: str | None = None
    error_kind: str | None = None
    error_text: str | None = None
    result: Any = None
    result_sha256: str | None = None
    note: str | None = None


_entries = table_of(
    "entries",
    {
        "tenant_id": Key(),
        "job_id": Id(),
        "fencing_token": sa.BigInteger(),
        "outcome": sa.Text(),
        "owner": sa.Text(),
        "attempt": sa.Integer(),
        "error_code": sa.Text(),
        "error_kind": sa.Text(),
        "error_text": sa.Text(),
        "result": Json(),
        "result_sha256": sa.Text(),
        "note": sa.Text(),
    },
)
_jobs = background_jobs.c
# The claim's stamp belongs to the attempt only while the row still carries its token.
_claimed_at = sa.case((_jobs.fencing_token == _entries.c.fencing_token, _jobs.claimed_at), else_=sa.null())
_insert = insert_if_absent(job_attempts).from_select(
    [*_entries.c.keys(), "claimed_at", "ended_at"],
    sa.select(*_entries.c, _claimed_at, now())
    .join(
        background_jobs,
        sa.and_(_jobs.tenant_id == _entries.c.tenant_id, _jobs.job_id == _entries.c.job_id),
    )
    .where(sa.true()),
)


def write(tx: Tx, entries: Sequence[Entry]) -> None:
    """Inserts the entries that are absent."""
    if entries:
        tx.execute(_insert, {"entries": pack([_row(entry) for entry in entries])})


def _row(entry: Entry) -> list[Any]:
    return [
        *entry.held,
        entry.outcome,
        entry.owner,
        entry.attempt,
        entry.error_code,
        entry.error_kind,
        entry.error_text,
        None if entry.result is None else encode_json(entry.result),
        entry.result_sha256,
        entry.note,
    ]


_pairs = table_of("pairs", {"tenant_id": Key(), "job_id": Id(), "token": sa.BigInteger()})
_found = sa.select(_a.tenant_id, _a.job_id, _a.fencing_token, _a.outcome).join(
    _pairs,
    sa.and_(_a.tenant_id == _pairs.c.tenant_id, _a.job_id == _pairs.c.job_id, _a.fencing_token == _pairs.c.token),
)


def outcomes(tx: Tx, pairs: Iterable[Held]) -> dict[Held, set[str]]:
    """What the journal says of these attempts."""
    found: dict[Held, set[str]] = {}
    for row in tx.rows(_found, {"pairs": pack(sorted(pairs))}):
        found.setdefault(Held(row[0], row[1], row[2]), set()).add(row[3])
    return found


def of_job(tx: Tx, key: RowKey) -> list[JobAttempt]:
    """The journal of a job, oldest first."""
    statement = (
        sa.select(*columns_of(job_attempts, JobAttempt))
        .where(_a.tenant_id == key.tenant_id, _a.job_id == key.id)
        .order_by(_a.fencing_token, _a.ended_at, _a.outcome)
    )
    return many(JobAttempt, tx.rows(statement))
