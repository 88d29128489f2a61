"""Artifacts as rows: events and outputs hold only their ids."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import sqlalchemy as sa

from tenure.db.clock import now
from tenure.db.reading import columns_of, many, one
from tenure.db.schema import artifacts
from tenure.db.tx import Tx
from tenure.records import Artifact, RowKey

_a = artifacts.c


@dataclass(frozen=True, slots=True)
class NewArtifact:
    """A stored file. The caller holds the job's row under the predicate when a job publishes it."""

    tenant_id: str
    artifact_id: str
    name: str
    media_type: str
    bytes: int
    sha256: str
    location: str
    session_id: str | None = None
    turn_id: str | None = None
    job_id: str | None = None
    project_id: str | None = None
    user_id: str | None = None
    fencing_token: int | None = None


def insert(tx: Tx, new: NewArtifact) -> None:
    """Inserts the row of a file that is in the store."""
    tx.execute(sa.insert(artifacts).values(**asdict(new), created_at=now()))


def get(tx: Tx, key: RowKey) -> Artifact | None:
    """The artifact's row."""
    statement = sa.select(*columns_of(artifacts, Artifact)).where(
        _a.tenant_id == key.tenant_id, _a.artifact_id == key.id
    )
    return one(Artifact, tx.first(statement))


def of_job(tx: Tx, key: RowKey) -> list[Artifact]:
    """What a job published, oldest first."""
    statement = (
        sa.select(*columns_of(artifacts, Artifact))
        .where(_a.tenant_id == key.tenant_id, _a.job_id == key.id)
        .order_by(_a.artifact_id)
    )
    return many(Artifact, tx.rows(statement))


def of_turn(tx: Tx, turn: RowKey) -> list[Artifact]:
    """What a turn's jobs published, oldest first."""
    statement = (
        sa.select(*columns_of(artifacts, Artifact))
        .where(_a.tenant_id == turn.tenant_id, _a.turn_id == turn.id)
        .order_by(_a.artifact_id)
    )
    return many(Artifact, tx.rows(statement))
