"""Any row in any state, by plain inserts: a test of a verb does not depend on other verbs to reach its state.

Instants are given as seconds from the database's now: `lease_in=60.0` is a live lease, `lease_in=-1.0` an expired one.
What a status demands is filled in (a running job has an owner, a token drawn from the source, and a lease); any column
can be named to say otherwise. Each function returns the row as its record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from itertools import count
from typing import Any, TypeVar

import sqlalchemy as sa

from tenure.canon import uuid7
from tenure.db import schema
from tenure.db.clock import now_plus
from tenure.db.engine import Database
from tenure.db.tx import Tx
from tenure.records import (
    DEFAULT_TENANT,
    Approval,
    Grant,
    Held,
    HeldKey,
    Job,
    PlanItem,
    Project,
    RowKey,
    Session,
    SessionKey,
    Turn,
    Worker,
)

R = TypeVar("R")
OWNER = "worker-a"
LEASE_S = 60.0
_positions = count(1)


def session(database: Database, session_id: str = "s", *, tenant: str = DEFAULT_TENANT, **columns: Any) -> Session:
    """A session without a turn."""
    values = {"tenant_id": tenant, "session_id": session_id, "epoch": uuid7(), "created_in": 0.0, "updated_in": 0.0}
    return _insert(database, schema.session_contexts, Session, {**values, **columns})


def project(database: Database, project_id: str = "p", *, tenant: str = DEFAULT_TENANT, **columns: Any) -> Project:
    """A project with no settings."""
    values = {"tenant_id": tenant, "project_id": project_id, "created_in": 0.0, "updated_in": 0.0}
    return _insert(database, schema.project_contexts, Project, {**values, **columns})


def turn(database: Database, of: SessionKey, *, status: str = "planning", active: bool = True, **columns: Any) -> Turn:
    """A turn of an existing session; an open one is its active turn unless `active=False`."""
    ended = status in ("completed", "failed", "cancelled")
    values = {
        **of._asdict(),
        "turn_id": uuid7(),
        "status": status,
        "created_in": 0.0,
        "started_in": None if status == "created" else 0.0,
        "finished_in": 0.0 if ended else None,
        "error_code": "broken" if status == "failed" else None,
    }
    made = _insert(database, schema.agent_turns, Turn, {**values, **columns})
    if active and not ended and status != "created":
        cards = schema.session_contexts
        _run(
            database,
            sa.update(cards)
            .where(cards.c.tenant_id == of.tenant_id, cards.c.session_id == of.session_id)
            .values(active_turn_id=made.turn_id),
        )
    return made


def item(database: Database, of: Turn, *, status: str = "pending", **columns: Any) -> PlanItem:
    """A plan item of an existing turn."""
    number = next(_positions)
    values = {
        "tenant_id": of.tenant_id,
        "turn_id": of.turn_id,
        "item_id": uuid7(),
        "round": 1,
        "position": number,
        "name": f"item{number}",
        "tool": "a",
        "mode": "write",
        "status": status,
        "arguments": {},
        "approval_id": uuid7() if status == "awaiting_approval" else None,
        "job_id": uuid7() if status in ("queued", "running", "completed") else None,
        "created_in": 0.0,
        "finished_in": 0.0 if status in ("completed", "failed", "skipped", "cancelled") else None,
    }
    return _insert(database, schema.agent_plan_items, PlanItem, {**values, **columns})


def approval(
    database: Database, of: Turn, *, status: str = "pending", expires_in: float = 3600.0, **columns: Any
) -> Approval:
    """An approval request of an existing turn."""
    values = {
        "tenant_id": of.tenant_id,
        "turn_id": of.turn_id,
        "session_id": of.session_id,
        "approval_id": uuid7(),
        "items": [],
        "tools": ["a"],
        "status": status,
        "expires_in": expires_in,
        "decided_by": "someone" if status in ("approved", "denied") else None,
        "decided_in": None if status == "pending" else 0.0,
        "created_in": 0.0,
    }
    return _insert(database, schema.approval_requests, Approval, {**values, **columns})


def grant(database: Database, of: Approval, *, expires_in: float | None = None, **columns: Any) -> Grant:
    """A grant of an existing approval: by digest and with one use, unless said otherwise."""
    values = {
        "tenant_id": of.tenant_id,
        "approval_id": of.approval_id,
        "session_id": of.session_id,
        "grant_id": uuid7(),
        "tool": "a",
        "mode": "write",
        "digest": None if columns.get("scope") is not None else "v1:sha256:00",
        "uses_left": 1,
        "granted_by": "someone",
        "expires_in": expires_in,
        "created_in": 0.0,
    }
    return _insert(database, schema.approval_grants, Grant, {**values, **columns})


def job(
    database: Database,
    *,
    status: str = "queued",
    tenant: str = DEFAULT_TENANT,
    of: Turn | None = None,
    owner: str | None = None,
    token: int | None = None,
    lease_in: float = LEASE_S,
    **columns: Any,
) -> Job:
    """A job; bare unless it is `of` a turn. Other than queued ones have been claimed, unless `owner` is ''."""
    was_claimed = owner != "" and (status != "queued" or owner is not None or token is not None)
    values: dict[str, Any] = {
        "tenant_id": tenant,
        "job_id": uuid7(),
        "tool": "a",
        "status": status,
        "input": {},
        "claim_in": -1.0,
        "max_attempts": 3,
        "max_runtime_s": 3600.0,
        "created_in": -1.0,
        "error_code": "broken" if status == "failed" else None,
        "finished_in": 0.0 if status in ("completed", "failed", "cancelled") else None,
    }
    if was_claimed:
        values |= {
            "lease_owner": owner or OWNER,
            "fencing_token": draw_token(database) if token is None else token,
            "attempt": 1,
            "lease_s": LEASE_S,
            "claimed_in": min(0.0, lease_in - LEASE_S),
            "first_claimed_in": min(0.0, lease_in - LEASE_S),
        }
    if status == "running":
        values["lease_expires_in"] = lease_in
    if of is not None:
        place = {"round": 1, "position": next(_positions)}
        values |= {"tenant_id": of.tenant_id, "session_id": of.session_id, "turn_id": of.turn_id, **place}
    return _insert(database, schema.background_jobs, Job, {**values, **columns})


def key(database: Database, name: str, *, tenant: str = "*", places: int = 1, **columns: Any) -> HeldKey:
    """A key; with `held_by` a person holds it."""
    held = columns.get("held_by") is not None
    values = {
        "tenant_id": tenant,
        "key": name,
        "places": places,
        "reason": "because" if held else None,
        "held_in": 0.0 if held else None,
        "created_in": 0.0,
    }
    return _insert(database, schema.job_keys, HeldKey, {**values, **columns})


def events(database: Database, of: SessionKey, number: int, *, turn_id: str | None = None) -> None:
    """Events 1 … `number` of a session that has none, counted on its card."""
    rows = [
        {**of._asdict(), "event_seq": seq, "type": "progress", "turn_id": turn_id, "payload": {"n": seq}}
        for seq in range(1, number + 1)
    ]
    table, cards = schema.agent_events, schema.session_contexts

    def write(tx: Tx) -> None:
        for row in rows:
            tx.execute(sa.insert(table).values(**row, created_at=now_plus(0.0)))
        tx.execute(
            sa.update(cards)
            .where(cards.c.tenant_id == of.tenant_id, cards.c.session_id == of.session_id)
            .values(last_event_seq=number)
        )

    database.write(write)


def worker(database: Database, owner: str = OWNER, *, beat_in: float = 0.0, **columns: Any) -> Worker:
    """The presence of a worker."""
    values = {
        "owner": owner,
        "name": "worker",
        "host": "here",
        "pid": 1,
        "version": "0",
        "status": "running",
        "tools": ["a"],
        "slots": 1,
        "busy": 0,
        "started_in": beat_in,
        "beat_in": beat_in,
    }
    return _insert(database, schema.worker_heartbeats, Worker, {**values, **columns})


def held(of: Job) -> Held:
    """What the job's holder names."""
    assert of.fencing_token is not None
    return Held(of.tenant_id, of.job_id, of.fencing_token)


def draw_token(database: Database) -> int:
    """A fencing token from the database's own source."""
    counter = schema.fencing_token_counter

    def draw(tx: Tx) -> int:
        if tx.one_writer:
            raised = sa.update(counter).values(last=counter.c.last + 1).returning(counter.c.last)
            return int(tx.execute(raised).scalar_one())
        return int(tx.execute(sa.select(schema.fencing_token_sequence.next_value())).scalar_one())

    return database.write(draw)


# -- looking -----------------------------------------------------------------------------------------------------------


def rows(database: Database, table: sa.Table, *where: sa.ColumnElement[bool]) -> list[dict[str, Any]]:
    """Every row of a table as a dict, in the order of its primary key."""
    statement = sa.select(table).where(*where).order_by(*table.primary_key.columns)
    return database.read(lambda tx: [dict(row._mapping) for row in tx.rows(statement)])


def job_now(database: Database, key: RowKey) -> Job:
    """The job as it is in the table."""
    jobs = schema.background_jobs
    return _one(database, jobs, Job, [jobs.c.tenant_id == key.tenant_id, jobs.c.job_id == key.id])


# -- inserting ---------------------------------------------------------------------------------------------------------


def _insert(database: Database, table: sa.Table, record: Callable[..., R], values: dict[str, Any]) -> R:
    """Inserts; a value for `x_in` is stored in the column `x_at`, as that many seconds from now."""
    prepared = {name: value for name, value in values.items() if name in table.c}
    instants = {name.removesuffix("_in") + "_at": value for name, value in values.items() if name not in table.c}
    prepared |= {name: None if value is None else now_plus(value) for name, value in instants.items()}
    _run(database, sa.insert(table).values(prepared))
    identity = [column == prepared[column.name] for column in table.primary_key.columns]
    return _one(database, table, record, identity)


def _one(database: Database, table: sa.Table, record: Callable[..., R], where: list[sa.ColumnElement[bool]]) -> R:
    columns = [table.c[field.name] for field in fields(record)]  # type: ignore[arg-type]  # records are dataclasses
    return database.read(lambda tx: record(*tx.execute(sa.select(*columns).where(*where)).one()))


def _run(database: Database, statement: sa.Executable) -> None:
    database.write(lambda tx: tx.execute(statement))
