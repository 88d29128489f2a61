"""What an operator asks of the database as a whole: read-only, across tenants."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from tenure.db.clock import now, now_plus
from tenure.db.reading import columns_of, many
from tenure.db.schema import agent_turns, background_jobs, job_stages
from tenure.db.tx import Tx
from tenure.records import RowKey, Stage

_j = background_jobs.c
_g = job_stages.c
_t = agent_turns.c


@dataclass(frozen=True, slots=True)
class Build:
    """The database program: its version, and on SQLite the journal mode, on PostgreSQL the time zone of sessions."""

    version: str
    mode: str


@dataclass(frozen=True, slots=True)
class Mark:
    """That a stage was saved, by which token and when, without what it holds."""

    name: str
    part: str
    fencing_token: int
    started_at: datetime
    finished_at: datetime | None


def marks(tx: Tx, job: RowKey) -> list[Mark]:
    """The stages and effects of a job, oldest first."""
    statement = (
        sa.select(*columns_of(job_stages, Mark))
        .where(_g.tenant_id == job.tenant_id, _g.job_id == job.id)
        .order_by(_g.started_at, _g.name, _g.part)
    )
    return many(Mark, tx.rows(statement))


def build(tx: Tx) -> Build:
    """What the database says of itself."""
    if tx.one_writer:
        return Build(_scalar(tx, "SELECT sqlite_version()"), _scalar(tx, "PRAGMA journal_mode"))
    return Build(_scalar(tx, "SHOW server_version"), _scalar(tx, "SHOW timezone"))


def _scalar(tx: Tx, text: str) -> str:
    return str(tx.connection.exec_driver_sql(text).scalar_one())


def database_time(tx: Tx) -> datetime:
    """The database's clock."""
    found: datetime = tx.execute(sa.select(now())).scalar_one()
    return found


def abandoned(tx: Tx, for_s: float) -> dict[str, int]:
    """Running jobs by tool whose lease has been over for so many seconds: nobody rescues them."""
    over = sa.and_(_j.status == sa.literal_column("'running'"), _j.lease_expires_at <= now_plus(-for_s))
    return _counts(tx, sa.select(_j.tool, sa.func.count()).where(over).group_by(_j.tool))


def waiting(tx: Tx) -> dict[str, int]:
    """Queued jobs by the key that they wait for."""
    wanted = sa.select(_j.blocked_by, sa.func.count()).where(_j.blocked_by.is_not(None)).group_by(_j.blocked_by)
    return _counts(tx, wanted)


def _counts(tx: Tx, statement: sa.Select[Any]) -> dict[str, int]:
    return {row[0]: row[1] for row in tx.rows(statement.order_by(sa.literal_column("1")))}


def open_turns(tx: Tx, besides: str) -> int:
    """How many turns have not ended, but for those of sessions whose names begin so."""
    wanted = sa.and_(_t.finished_at.is_(None), sa.not_(_t.session_id.startswith(besides, autoescape=True)))
    return int(tx.execute(sa.select(sa.func.count()).select_from(agent_turns).where(wanted)).scalar_one())


def in_review(tx: Tx, limit: int) -> list[Stage]:
    """Effects of unknown outcome whose job has ended: a person must say what happened outside."""
    ended = sa.and_(_j.tenant_id == _g.tenant_id, _j.job_id == _g.job_id, _j.finished_at.is_not(None))
    statement = (
        sa.select(*columns_of(job_stages, Stage))
        .join(background_jobs, ended)
        # Literals, so that the partial index is seen to fit.
        .where(sa.literal_column("kind = 'effect' AND state IN ('started', 'unknown')"))
        .order_by(_g.started_at, _g.job_id, _g.name, _g.part)
        .limit(limit)
    )
    return many(Stage, tx.rows(statement))
