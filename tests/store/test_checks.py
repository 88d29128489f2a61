"""What the tables themselves refuse, whoever writes: every CHECK of the schema, by plain SQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError

from tenure.canon import uuid7
from tenure.db import schema
from tenure.db.clock import now
from tenure.db.engine import Database
from tenure.db.schema import (
    api_keys,
    conversation_messages,
    event_cursors,
    job_attempts,
    job_stages,
    receiver_requests,
)
from tenure.db.types import Json
from tests import factory

Base = Callable[[Database], Any]


def _turn(database: Database, **columns: Any) -> Any:
    return factory.turn(database, factory.session(database).key, **columns)


def _completed_turn(database: Database) -> Any:
    return _turn(database, status="completed")


def _approval(database: Database, **columns: Any) -> Any:
    return factory.approval(database, _turn(database), **columns)


def _grant(database: Database, **columns: Any) -> Any:
    return factory.grant(database, _approval(database), **columns)


def _insert(database: Database, table: sa.Table, **values: Any) -> None:
    database.write(lambda tx: tx.execute(sa.insert(table).values(tenant_id="default", **values)))


def _attempt(database: Database) -> None:
    held = factory.held(factory.job(database, status="running"))
    _insert(
        database,
        job_attempts,
        job_id=held.job_id,
        fencing_token=held.fencing_token,
        outcome="retry",
        owner="w",
        attempt=1,
        ended_at=now(),
        result={},
    )


def _stage(database: Database, **columns: Any) -> None:
    job = factory.job(database, status="running")
    given = {"kind": "stage", "state": "done", "answer": {}}
    common = {"job_id": job.job_id, "name": "n", "fencing_token": 1, "digest": "d", "started_at": now()}
    _insert(database, job_stages, **{**common, **given, **columns})


def _effect(database: Database) -> None:
    _stage(database, kind="effect", state="started", effect_key="k")


def _event(database: Database) -> None:
    factory.events(database, factory.session(database).key, 1)


def _cursor(database: Database) -> None:
    session = factory.session(database)
    _insert(database, event_cursors, session_id="s", consumer="c", epoch=session.epoch, event_seq=0, updated_at=now())


def _message(database: Database) -> None:
    factory.session(database)
    values = {"session_id": "s", "position": 1, "turn_id": uuid7(), "round": 1, "role": "user", "content": {}}
    _insert(database, conversation_messages, **values, created_at=now())


def _artifact(database: Database) -> None:
    values = {"artifact_id": uuid7(), "name": "n", "media_type": "m", "bytes": 1, "sha256": "s", "location": "l"}
    _insert(database, schema.artifacts, **values, created_at=now())


def _api_key(database: Database) -> None:
    _insert(database, api_keys, key_id=uuid7(), key_sha256="s", role="user", created_at=now())


def _request(database: Database) -> None:
    values = {"idempotency_key": "k", "operation": "o", "resource": "r", "fence": 1, "body_sha256": "b", "answer": {}}
    row = {**values, "state": "running", "created_at": now()}
    database.write(lambda tx: tx.execute(sa.insert(receiver_requests).values(row)))


def _nothing(database: Database) -> None:
    """The row is there from the beginning."""


def _running(database: Database) -> None:
    factory.job(database, status="running")


def _of_turn(database: Database) -> None:
    factory.job(database, of=_turn(database))


def _key(database: Database) -> None:
    factory.key(database, "limit/a")


def _item(database: Database) -> None:
    factory.item(database, _turn(database), final_arguments={}, digest="d", output={})


_LEASED = "status = 'running', lease_expires_at = created_at, first_claimed_at = created_at, attempt = 1"
# table.check → [(a row that is right, what makes it wrong in that one respect)]
ATTEMPTS: dict[str, list[tuple[Base, str]]] = {
    "session_contexts.events_counted": [
        (factory.session, "last_event_seq = -1"),
        (factory.session, "oldest_event_seq = 0"),
    ],
    "agent_turns.status_known": [(_turn, "status = 'paused'")],
    "agent_turns.finished_when_terminal": [
        (_turn, "status = 'completed'"),
        (_turn, "status = 'cancelled'"),
        (_turn, "finished_at = created_at"),
    ],
    "agent_turns.started_when_open": [
        (_turn, f"started_at = NULL, status = '{status}'") for status in ("planning", "awaiting_approval", "running")
    ]
    + [(_completed_turn, "started_at = NULL")],
    "agent_turns.failed_with_code": [
        (_turn, "status = 'failed', finished_at = created_at"),
        (_turn, "error_code = 'c'"),
    ],
    "agent_turns.key_with_digest": [(_turn, "idempotency_key = 'k'"), (_turn, "request_digest = 'd'")],
    "agent_plan_items.status_known": [(_item, "status = 'paused'")],
    "agent_plan_items.finished_when_terminal": [
        (_item, "status = 'failed'"),
        (_item, "status = 'skipped'"),
        (_item, "finished_at = created_at"),
    ],
    "agent_plan_items.final_with_digest": [(_item, "digest = NULL"), (_item, "final_arguments = NULL")],
    "agent_plan_items.job_when_queued": [
        (_item, "status = 'queued'"),
        (_item, "status = 'running'"),
        (_item, "status = 'completed', finished_at = created_at"),
    ],
    "agent_plan_items.asked_with_approval": [(_item, "status = 'awaiting_approval'")],
    "approval_requests.status_known": [(_approval, "status = 'asked', decided_at = created_at")],
    "approval_requests.on_expiry_known": [(_approval, "on_expiry = 'wait'")],
    "approval_requests.decided_when_settled": [
        (_approval, "status = 'expired'"),
        (_approval, "decided_at = created_at"),
    ],
    "approval_requests.decided_by_someone": [
        (_approval, "status = 'approved', decided_at = created_at"),
        (_approval, "status = 'denied', decided_at = created_at"),
    ],
    "approval_grants.digest_or_scope": [(_grant, "digest = NULL"), (_grant, "scope = '{}'")],
    "approval_grants.uses_not_negative": [(_grant, "uses_left = -1")],
    "approval_grants.revoked_by_someone": [(_grant, "revoked_at = created_at"), (_grant, "revoked_by = 'u'")],
    "background_jobs.status_known": [(factory.job, "status = 'paused'")],
    "background_jobs.finished_when_terminal": [
        (factory.job, "status = 'completed'"),
        (factory.job, "status = 'cancelled'"),
        (factory.job, "finished_at = created_at"),
    ],
    "background_jobs.leased_when_running": [
        (factory.job, "lease_expires_at = created_at"),
        (factory.job, "status = 'running'"),
        (factory.job, f"{_LEASED}, lease_s = 1"),
        (factory.job, f"{_LEASED}, lease_s = 1, lease_owner = 'w', fencing_token = 0"),
        (factory.job, f"{_LEASED}, lease_s = 0, lease_owner = 'w', fencing_token = 1"),
        (factory.job, f"{_LEASED}, lease_owner = 'w', fencing_token = 1"),
        (_running, "lease_expires_at = NULL"),
        (_running, "lease_s = NULL"),
        (_running, "first_claimed_at = NULL"),
        (_running, "lease_owner = NULL, fencing_token = NULL"),
    ],
    "background_jobs.owner_with_token": [
        (factory.job, "lease_owner = 'w'"),
        (factory.job, "fencing_token = 1"),
    ],
    "background_jobs.blocked_when_queued": [(_running, "blocked_by = 'limit/a'")],
    "background_jobs.slot_held_while_live": [
        (factory.job, "slot_held_at = created_at"),
        (
            factory.job,
            "slot_key = 'slot/p/x', slot_held_at = created_at, status = 'cancelled', finished_at = created_at",
        ),
    ],
    "background_jobs.failed_with_code": [(factory.job, "status = 'failed', finished_at = created_at")],
    "background_jobs.output_when_completed": [(factory.job, "output = '{}'"), (_running, "output = '1'")],
    "background_jobs.attempts_counted": [
        (factory.job, "attempt = -1"),
        (factory.job, "max_attempts = 0"),
        (factory.job, "refunds = -1"),
        (factory.job, "attempt = max_attempts + 1"),
    ],
    "background_jobs.of_session_with_turn": [(factory.job, "session_id = 's'"), (_of_turn, "session_id = NULL")],
    "background_jobs.place_with_turn": [
        (factory.job, "round = 1"),
        (factory.job, "position = 1"),
        (_of_turn, "round = NULL"),
        (_of_turn, "position = NULL"),
    ],
    "background_jobs.priority_range": [(factory.job, "priority = -1"), (factory.job, "priority = 11")],
    "background_jobs.key_with_digest": [
        (factory.job, "idempotency_key = 'k'"),
        (factory.job, "request_digest = 'd'"),
    ],
    "job_keys.places_positive": [(_key, "places = 0")],
    "job_keys.held_with_reason": [
        (_key, "held_by = 'u'"),
        (_key, "reason = 'r'"),
        (_key, "held_at = created_at"),
        (_key, "held_by = 'u', reason = 'r'"),
    ],
    "job_attempts.outcome_known": [(_attempt, "outcome = 'completed'")],
    "job_stages.kind_known": [(_stage, "kind = 'step'")],
    "job_stages.state_known": [(_effect, "state = 'waiting'")],
    "job_stages.effect_with_key": [(_stage, "effect_key = 'k'"), (_effect, "effect_key = NULL")],
    "job_stages.stage_is_done": [(_stage, "state = 'started'"), (_stage, "state = 'unknown'")],
    "job_stages.settled_with_reason": [(_effect, "settled_by = 'u'"), (_effect, "settled_reason = 'r'")],
    "agent_events.counted_from_one": [(_event, "event_seq = 0")],
    "event_cursors.counted_from_zero": [(_cursor, "event_seq = -1")],
    "conversation_messages.role_known": [(_message, "role = 'person'")],
    "artifacts.bytes_not_negative": [(_artifact, "bytes = -1")],
    "api_keys.role_known": [(_api_key, "role = 'root'")],
    "receiver_requests.state_known": [(_request, "state = 'waiting'")],
    "tenure_meta.one_row": [(_nothing, "singleton = 2")],
    "worker_heartbeats.status_known": [(factory.worker, "status = 'gone'")],
}
# A row of each table that has a column for JSON.
WITH_JSON: dict[str, Base] = {
    "session_contexts": factory.session,
    "project_contexts": factory.project,
    "agent_turns": _turn,
    "agent_plan_items": _item,
    "approval_requests": _approval,
    "approval_grants": lambda database: _grant(database, scope={}),
    "background_jobs": lambda database: factory.job(database, status="completed"),
    "job_attempts": _attempt,
    "job_stages": _stage,
    "agent_events": _event,
    "conversation_messages": _message,
    "receiver_requests": _request,
    "worker_heartbeats": factory.worker,
}
JSON_COLUMNS = [
    (table.name, column.name)
    for table in schema.metadata.sorted_tables
    for column in table.c
    if isinstance(column.type, Json)
]


def update(database: Database, table: str, change: str) -> None:
    name = table if database.is_sqlite else f"tenure.{table}"
    database.write(lambda tx: tx.execute(sa.text(f"UPDATE {name} SET {change}")))


@pytest.mark.parametrize(
    ("check", "number"), [(check, number) for check, tries in ATTEMPTS.items() for number in range(len(tries))]
)
def test_the_table_refuses(database: Database, check: str, number: int) -> None:
    base, change = ATTEMPTS[check][number]
    base(database)
    table, name = check.split(".")
    with pytest.raises(IntegrityError) as refused:
        update(database, table, change)
    diagnosis = getattr(refused.value.orig, "diag", None)
    said = diagnosis.constraint_name if diagnosis else str(refused.value.orig).rpartition(": ")[2]
    assert said == name


@pytest.mark.parametrize(("table", "column"), JSON_COLUMNS)
def test_what_is_not_json_is_refused(database: Database, table: str, column: str) -> None:
    WITH_JSON[table](database)
    with pytest.raises(DBAPIError) as refused:
        update(database, table, f"{column} = '{{'")
    assert ("invalid input syntax for type json" in str(refused.value)) or (
        f"CHECK constraint failed: {column}_json" in str(refused.value)
    )


def checks() -> set[str]:
    """Every CHECK of the metadata, by table and name, but those that hold JSON columns on SQLite."""
    return {
        f"{table.name}.{constraint.name}"
        for table in schema.metadata.sorted_tables
        for constraint in table.constraints
        if isinstance(constraint, sa.CheckConstraint) and not str(constraint.name).endswith("_json")
    }


def test_every_check_is_tried() -> None:
    assert set(ATTEMPTS) == checks()


def test_every_json_column_is_checked() -> None:
    named = {
        f"{table.name}.{constraint.name}"
        for table in schema.metadata.sorted_tables
        for constraint in table.constraints
        if isinstance(constraint, sa.CheckConstraint) and str(constraint.name).endswith("_json")
    }
    assert named == {f"{table}.{column}_json" for table, column in JSON_COLUMNS}


def test_the_database_has_these_checks(database: Database) -> None:
    """The CHECKs are in the database that a migration made, not in the metadata alone."""
    inspector = sa.inspect(database.engine)
    found = {
        f"{table.name}.{check['name']}"
        for table in schema.metadata.sorted_tables
        for check in inspector.get_check_constraints(table.name, schema=database.schema)
    }
    assert {check for check in found if not check.endswith("_json")} == checks()
