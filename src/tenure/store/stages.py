"""Stages: checkpoints inside a job, kept under its id across attempts."""

from __future__ import annotations

import sqlalchemy as sa

from tenure.db.clock import now
from tenure.db.inserting import insert_if_absent
from tenure.db.reading import columns_of, many, one
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


def save(tx: Tx, held: Held, name: str, part: str, digest: str, answer: str) -> bool:
    """Stores a finished stage; `answer` is encoded JSON. The caller holds the job's row under the predicate.

    False: an effect of the job has this name.
    """
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
        return True
    row = {
        "tenant_id": held.tenant_id,
        "job_id": held.job_id,
        "name": name,
        "part": part,
        "kind": "stage",
        "started_at": now(),
        **values,
    }
    return tx.count(insert_if_absent(job_stages).values(_encoded(row))) == 1


def _encoded(values: dict[str, object]) -> dict[str, object]:
    return {**values, "answer": sa.cast(values["answer"], Json())}


# -- effects: stages that reach outside -------------------------------------------------------------------------------


def effect(tx: Tx, key: RowKey, name: str, part: str) -> Stage | None:
    """The effect of this name as it is; the caller holds the job's row."""
    statement = sa.select(*columns_of(job_stages, Stage)).where(_effect(key, name, part))
    return one(Stage, tx.first(statement))


def start_effect(
    tx: Tx, held: Held, name: str, part: str, *, digest: str, effect_key: str, resource: str, repeat: str
) -> None:
    """Marks the effect as started under this token; its request is about to leave."""
    values = {
        "fencing_token": held.fencing_token,
        "state": "started",
        "answer": None,
        "error_code": None,
        "error_text": None,
        "finished_at": None,
    }
    where = _effect(RowKey(held.tenant_id, held.job_id), name, part)
    if tx.count(sa.update(job_stages).where(where).values(**values)) == 1:
        return
    statement = insert_if_absent(job_stages).values(
        tenant_id=held.tenant_id,
        job_id=held.job_id,
        name=name,
        part=part,
        kind="effect",
        digest=digest,
        effect_key=effect_key,
        resource=resource,
        repeat=repeat,
        started_at=now(),
        **values,
    )
    tx.execute(statement)


def adopt_effect(tx: Tx, held: Held, name: str, part: str) -> None:
    """What an earlier token left in doubt is this token's to finish: it has looked."""
    where = _effect(RowKey(held.tenant_id, held.job_id), name, part)
    tx.execute(sa.update(job_stages).where(where).values(fencing_token=held.fencing_token))


def finish_effect(
    tx: Tx,
    held: Held,
    name: str,
    part: str,
    state: str,
    *,
    answer: str | None = None,
    external_id: str | None = None,
    error_code: str | None = None,
    error_text: str | None = None,
) -> bool:
    """Records what became of the effect that this token started; `answer` is encoded JSON."""
    where = sa.and_(_effect(RowKey(held.tenant_id, held.job_id), name, part), _g.fencing_token == held.fencing_token)
    values = {
        "state": state,
        "answer": None if answer is None else sa.cast(sa.literal(answer, sa.Text()), Json()),
        "external_id": external_id,
        "error_code": error_code,
        "error_text": error_text,
        "finished_at": now(),
    }
    return tx.count(sa.update(job_stages).where(where).values(**values)) == 1


def _effect(key: RowKey, name: str, part: str) -> sa.ColumnElement[bool]:
    return sa.and_(
        _g.tenant_id == key.tenant_id, _g.job_id == key.id, _g.name == name, _g.part == part, _g.kind == "effect"
    )
