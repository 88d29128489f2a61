"""Stages: checkpoints inside a job, kept under its id across attempts."""

from __future__ import annotations

import sqlalchemy as sa

from tenure.db.clock import now
from tenure.db.inserting import insert_if_absent
from tenure.db.reading import columns_of, many
from tenure.db.schema import job_stages
from tenure.db.tx import Tx
from tenure.db.types import Json
from tenure.records import Held, RowKey, Stage

_g = job_stages.c


def of_job(tx: Tx, key: RowKey) -> list[Stage]:
    """Every stage and effect of a job, oldest first."""
    statement = (
        sa.select(*columns_of(job_stages, Stage))
        .where(_g.tenant_id == key.tenant_id, _g.job_id == key.id)
        .order_by(_g.started_at, _g.name, _g.part)
    )
    return many(Stage, tx.rows(statement))


def save(tx: Tx, held: Held, name: str, part: str, digest: str, answer: str) -> None:
    """Stores a finished stage; `answer` is encoded JSON. The caller holds the job's row under the predicate."""
    values = {
        "fencing_token": held.fencing_token,
        "digest": digest,
        "state": "done",
        "answer": sa.literal(answer, sa.Text()),
        "finished_at": now(),
    }
    where = sa.and_(
        _g.tenant_id == held.tenant_id, _g.job_id == held.job_id, _g.name == name, _g.part == part, _g.kind == "stage"
    )
    if tx.count(sa.update(job_stages).where(where).values(_encoded(values))) == 1:
        return
    row = {
        "tenant_id": held.tenant_id,
        "job_id": held.job_id,
        "name": name,
        "part": part,
        "kind": "stage",
        "started_at": now(),
        **values,
    }
    tx.execute(insert_if_absent(job_stages).values(_encoded(row)))


def _encoded(values: dict[str, object]) -> dict[str, object]:
    return {**values, "answer": sa.cast(values["answer"], Json())}
