"""Worker presence: who is there and how busy. Recovery never depends on it."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from tenure.db.clock import now, now_plus
from tenure.db.inserting import insert_if_absent
from tenure.db.reading import columns_of, many
from tenure.db.schema import worker_heartbeats
from tenure.db.tx import Tx
from tenure.records import Worker

PRESENT_S = 60.0
_w = worker_heartbeats.c


def beat(tx: Tx, owner: str, facts: dict[str, Any], changing: dict[str, Any]) -> None:
    """Says that a worker is here: `facts` once, `changing` (status, busy, stuck_threads) each time."""
    statement = sa.update(worker_heartbeats).where(_w.owner == owner).values(**changing, beat_at=now())
    if tx.count(statement) == 0:
        row = {"owner": owner, **facts, **changing, "started_at": now(), "beat_at": now()}
        tx.execute(insert_if_absent(worker_heartbeats).values(row))


def present(tx: Tx, within_s: float = PRESENT_S) -> list[Worker]:
    """Workers that said so within the last seconds and have not stopped, by name."""
    statement = (
        sa.select(*columns_of(worker_heartbeats, Worker))
        .where(_w.beat_at > now_plus(-within_s), _w.status != "stopped")
        .order_by(_w.name, _w.owner)
    )
    return many(Worker, tx.rows(statement))


def forget(tx: Tx, after_s: float) -> int:
    """Deletes the rows of workers that have been silent for so long."""
    return tx.count(sa.delete(worker_heartbeats).where(_w.beat_at < now_plus(-after_s)))
