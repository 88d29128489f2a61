"""What the product's SQL is made of, seen in every statement that the verbs of the store send.

The table below runs each of them once. A verb that is missing in it fails the last test.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import tenure
from tenure import store
from tenure.canon import uuid7
from tenure.db.engine import Database
from tenure.db.tx import Tx
from tenure.records import Held, NewJob, RowKey, SessionKey
from tenure.states import ApprovalStatus, ItemStatus, JobStatus, TurnStatus
from tenure.store import (
    approvals,
    artifacts,
    claims,
    cursors,
    endings,
    events,
    holding,
    jobs,
    journal,
    keys,
    plans,
    projects,
    sessions,
    stages,
    turns,
    views,
    workers,
)
from tenure.store import (
    database as facts,
)
from tests import factory

OWNER = factory.OWNER


class World:
    """Rows for every verb to be run on."""

    def __init__(self, database: Database) -> None:
        self.session = factory.session(database).key
        self.turn = factory.turn(database, self.session)
        self.item = factory.item(database, self.turn)
        self.approval = factory.approval(database, self.turn)
        self.grant = factory.grant(database, self.approval)
        self.queued = factory.job(database, blocked_by="limit/a", limit_key="limit/a", slot_key="slot/p/x")
        self.running = factory.job(database, status="running")
        self.expired = factory.job(database, status="running", lease_in=-5.0)
        self.failed = factory.job(database, status="failed")
        self.limit = factory.key(database, "limit/a")
        self.slot = factory.key(database, "slot/p/x", tenant="default")
        self.project = RowKey("default", factory.project(database).project_id)
        factory.events(database, self.session, 3)

    @property
    def held(self) -> Held:
        return factory.held(self.running)

    @property
    def asked(self) -> RowKey:
        return RowKey("default", self.approval.approval_id)

    @property
    def granted(self) -> RowKey:
        return RowKey("default", self.grant.grant_id)

    @property
    def candidate(self) -> keys.Candidate:
        job = self.queued
        return keys.Candidate(job.tenant_id, job.job_id, job.limit_key, job.user_limit_key, job.slot_key, False)


def _new_job(**columns: Any) -> NewJob:
    return NewJob("default", uuid7(), "a", {}, 3, 60.0, **columns)


def _new_turn() -> turns.NewTurn:
    return turns.NewTurn("default", uuid7(), "s", {})


def _new_item(w: World) -> plans.NewItem:
    return plans.NewItem("default", uuid7(), w.turn.turn_id, 1, 999, "n", "a", "write", {}, [])


def _new_approval(w: World) -> approvals.NewApproval:
    return approvals.NewApproval("default", uuid7(), "s", w.turn.turn_id, [], ["a"], 60.0)


def _new_grants(w: World) -> list[approvals.NewGrant]:
    times = (None, 60.0)
    ids = (w.approval.approval_id, "a", "write", "u")
    return [approvals.NewGrant("default", uuid7(), *ids, digest="d", expires_in_s=each) for each in times]


def _record(tx: Tx, w: World) -> None:
    for session in (w.session, SessionKey("default", "second")):
        sessions.ensure(tx, session)
        events.record(tx, events.NewEvent(session, "progress"))


def _beat(tx: Tx, w: World) -> None:
    facts = {"name": "n", "host": "h", "pid": 1, "version": "0", "tools": ["a"], "slots": 1, "app": None}
    for _ in range(2):
        workers.beat(tx, OWNER, facts, {"status": "running", "busy": 0, "stuck_threads": 0})


def _save(tx: Tx, w: World) -> None:
    for _ in range(2):
        stages.save(tx, w.held, "n", "", "d", "1")


def _start(tx: Tx, held: Held) -> None:
    for _ in range(2):
        stages.start_effect(tx, held, "e", "", digest="d", effect_key="k", resource="r", repeat="never")


def _change_item(tx: Tx, key: RowKey) -> None:
    for status in (ItemStatus.FAILED, ItemStatus.PENDING):
        plans.change(tx, key, status)


def _put(tx: Tx, w: World) -> None:
    for seq in range(2):
        cursors.put(tx, w.session, "c", uuid7(), seq)


def _pages(tx: Tx, w: World) -> None:
    events.page(tx, w.session, 1)
    events.page(tx, w.session, 1, turn_id=w.turn.turn_id, types=["x"], epoch=uuid7())


def _retry(w: World) -> endings.Ending:
    return endings.Ending(w.held, JobStatus.QUEUED, 1, 0, due_in_s=30.0)


VERBS: dict[str, Callable[[Tx, World], Any]] = {
    "approvals.expired": lambda tx, w: approvals.expired(tx, 5),
    "approvals.get": lambda tx, w: approvals.get(tx, w.asked),
    "approvals.grants": lambda tx, w: approvals.grants(tx, "default"),
    "approvals.insert": lambda tx, w: approvals.insert(tx, _new_approval(w)),
    "approvals.insert_grants": lambda tx, w: approvals.insert_grants(tx, _new_grants(w)),
    "approvals.listed": lambda tx, w: approvals.listed(tx, "default"),
    "approvals.lock_grant": lambda tx, w: approvals.lock_grant(tx, w.granted),
    "approvals.is_usable": lambda tx, w: approvals.is_usable(tx, RowKey("default", uuid7())),
    "approvals.lock_usable": lambda tx, w: approvals.lock_usable(tx, "default", "s", "a", "write"),
    "approvals.pending_of_session": lambda tx, w: approvals.pending_of_session(tx, w.session),
    "approvals.pending_of_turn": lambda tx, w: approvals.pending_of_turn(tx, w.turn.key),
    "approvals.revoke": lambda tx, w: approvals.revoke(tx, w.granted, "u"),
    "approvals.settle": lambda tx, w: [
        approvals.settle(tx, w.asked, status, by="u") for status in ApprovalStatus if status != "pending"
    ],
    "approvals.spend": lambda tx, w: approvals.spend(tx, w.granted),
    "artifacts.get": lambda tx, w: artifacts.get(tx, w.running.key),
    "artifacts.insert": lambda tx, w: artifacts.insert(
        tx, artifacts.NewArtifact("default", uuid7(), "n", "m", 1, "s", "l")
    ),
    "artifacts.of_job": lambda tx, w: artifacts.of_job(tx, w.running.key),
    "artifacts.of_turn": lambda tx, w: artifacts.of_turn(tx, w.turn.key),
    "claims.claim": lambda tx, w: [claims.claim(tx, OWNER, {"a": 30.0, "b": 60.0}, n) for n in (1, 10)],
    "claims.held_by": lambda tx, w: claims.held_by(tx, OWNER),
    "cursors.get": lambda tx, w: cursors.get(tx, w.session, "c"),
    "cursors.put": _put,
    "database.identity": lambda tx, w: facts.identity(tx),
    "endings.apply": lambda tx, w: endings.apply(tx, [_retry(w)]),
    "endings.complete_bare": lambda tx, w: endings.complete_bare(tx, OWNER, {w.held: "1"}),
    "endings.expired": lambda tx, w: endings.expired(tx, 5),
    "endings.quarantine": lambda tx, w: endings.quarantine(tx, w.expired.key),
    "endings.runtime_left": lambda tx, w: endings.runtime_left(tx, w.running.key),
    "endings.status_under": lambda tx, w: endings.status_under(tx, [w.held]),
    "endings.take_expired": lambda tx, w: endings.take_expired(tx, w.expired.key),
    "endings.take_own": lambda tx, w: endings.take_own(tx, OWNER, [w.held]),
    "endings.take_sweep": lambda tx, w: endings.take_sweep(tx),
    "events.page": _pages,
    "events.record": _record,
    "holding.begin": lambda tx, w: holding.begin(tx, OWNER, [w.held]),
    "holding.extend": lambda tx, w: holding.extend(tx, OWNER, w.held),
    "holding.guard": lambda tx, w: holding.guard(tx, OWNER, [w.held]),
    "holding.renew": lambda tx, w: holding.renew(tx, OWNER, [w.held]),
    "holding.report": lambda tx, w: holding.report(tx, OWNER, {w.held: {"n": 1}}),
    "holding.still_held": lambda tx, w: holding.still_held(tx, OWNER, [w.held]),
    "jobs.by_idempotency_key": lambda tx, w: jobs.by_idempotency_key(tx, "default", "k"),
    "jobs.cancel_queued": lambda tx, w: jobs.cancel_queued(tx, w.queued.key, "u"),
    "jobs.get": lambda tx, w: jobs.get(tx, w.queued.key),
    "jobs.insert": lambda tx, w: jobs.insert(tx, [_new_job(), _new_job(due_in_s=5.0), _new_job(priority=3)]),
    "jobs.listed": lambda tx, w: jobs.listed(tx, jobs.Filter("default", status="queued", after=uuid7())),
    "jobs.live_of_turn": lambda tx, w: jobs.live_of_turn(tx, w.turn.key),
    "jobs.lock": lambda tx, w: jobs.lock(tx, w.queued.key),
    "jobs.of_turn": lambda tx, w: jobs.of_turn(tx, w.turn.key),
    "jobs.reopen": lambda tx, w: jobs.reopen(tx, w.failed.key, grant_id=None, blocked_by=None),
    "jobs.request_cancel": lambda tx, w: jobs.request_cancel(tx, w.running.key, "u"),
    "jobs.unknown_tools": lambda tx, w: jobs.unknown_tools(tx, ["a"]),
    "journal.of_job": lambda tx, w: journal.of_job(tx, w.running.key),
    "journal.outcomes": lambda tx, w: journal.outcomes(tx, [w.held]),
    "journal.write": lambda tx, w: journal.write(tx, [journal.Entry(w.held, "retry", OWNER, 1)]),
    "keys.blocking": lambda tx, w: keys.blocking(tx, 5),
    "keys.set_places": lambda tx, w: keys.set_places(tx, "b", 2, 3),
    "keys.ensure": lambda tx, w: keys.ensure(tx, {RowKey("*", "limit/b"): 1}),
    "keys.get": lambda tx, w: keys.get(tx, RowKey("*", "limit/a")),
    "keys.hold": lambda tx, w: keys.hold(tx, RowKey("*", "limit/a"), "u", "r"),
    "keys.lock": lambda tx, w: keys.lock(tx, [RowKey("*", "limit/a")]),
    "keys.move": lambda tx, w: keys.move(tx, [(w.candidate, None)]),
    "keys.resume": lambda tx, w: keys.resume(tx, RowKey("*", "limit/a")),
    "keys.room": lambda tx, w: [keys.room(tx, key) for key in (w.limit, w.slot)],
    "keys.slot_holders": lambda tx, w: keys.slot_holders(tx, "default", "slot/p/x"),
    "keys.waiting_at": lambda tx, w: [
        keys.waiting_at(tx, key, 5, lock=lock) for key in w.candidate.needs for lock in (False, True)
    ],
    "plans.change": lambda tx, w: _change_item(tx, w.item.key),
    "plans.get": lambda tx, w: plans.get(tx, w.item.key),
    "plans.insert": lambda tx, w: plans.insert(tx, [_new_item(w)]),
    "plans.of_turn": lambda tx, w: plans.of_turn(tx, w.turn.key),
    "plans.turns_with_ready_items": lambda tx, w: plans.turns_with_ready_items(tx, 5),
    "projects.ensure": lambda tx, w: projects.ensure(tx, w.project),
    "projects.get": lambda tx, w: projects.get(tx, w.project),
    "projects.listed": lambda tx, w: projects.listed(tx, "default"),
    "projects.set_latest_output": lambda tx, w: projects.set_latest_output(tx, w.project, uuid7()),
    "projects.set_settings": lambda tx, w: projects.set_settings(tx, w.project, {}),
    "sessions.change": lambda tx, w: sessions.change(tx, w.session, summary="x"),
    "sessions.ensure": lambda tx, w: sessions.ensure(tx, SessionKey("default", "new")),
    "sessions.get": lambda tx, w: sessions.get(tx, w.session),
    "sessions.listed": lambda tx, w: sessions.listed(tx, "default", 5),
    "sessions.lock": lambda tx, w: sessions.lock(tx, [w.session]),
    "stages.adopt_effect": lambda tx, w: stages.adopt_effect(tx, w.held, "e", ""),
    "stages.effect": lambda tx, w: stages.effect(tx, w.running.key, "e", ""),
    "stages.finish_effect": lambda tx, w: stages.finish_effect(tx, w.held, "e", "", "done", answer="1"),
    "stages.of_job": lambda tx, w: stages.of_job(tx, w.running.key),
    "stages.save": _save,
    "stages.start_effect": lambda tx, w: _start(tx, w.held),
    "turns.by_idempotency_key": lambda tx, w: turns.by_idempotency_key(tx, w.session, "k"),
    "turns.change": lambda tx, w: turns.change(tx, w.turn.key, round=2),
    "turns.end": lambda tx, w: turns.end(tx, w.turn.key, TurnStatus.COMPLETED, output={}),
    "turns.get": lambda tx, w: turns.get(tx, w.turn.key),
    "turns.has_open_work": lambda tx, w: turns.has_open_work(tx, w.turn.key),
    "turns.insert": lambda tx, w: turns.insert(tx, _new_turn()),
    "turns.listed": lambda tx, w: turns.listed(tx, "default", session_id="s", status="planning"),
    "turns.lock": lambda tx, w: turns.lock(tx, [w.turn.key]),
    "turns.lock_oldest_created": lambda tx, w: turns.lock_oldest_created(tx, w.session),
    "turns.lock_one": lambda tx, w: turns.lock_one(tx, w.turn.key),
    "turns.sessions_waiting_to_start": lambda tx, w: turns.sessions_waiting_to_start(tx, 5),
    "turns.stalled": lambda tx, w: turns.stalled(tx, 5),
    "turns.start": lambda tx, w: turns.start(tx, w.turn.key),
    "turns.with_live_jobs_after_end": lambda tx, w: turns.with_live_jobs_after_end(tx, 5),
    "views.abandoned": lambda tx, w: views.abandoned(tx, 60.0),
    "views.build": lambda tx, w: views.build(tx),
    "views.database_time": lambda tx, w: views.database_time(tx),
    "views.in_review": lambda tx, w: views.in_review(tx, 5),
    "views.marks": lambda tx, w: views.marks(tx, RowKey("default", uuid7())),
    "views.open_turns": lambda tx, w: views.open_turns(tx, "demo-"),
    "views.waiting": lambda tx, w: views.waiting(tx),
    "workers.beat": _beat,
    "workers.forget": lambda tx, w: workers.forget(tx, 60.0),
    "workers.present": lambda tx, w: workers.present(tx),
}
# Run by another verb: the last act of a transaction that recorded something.
WITHIN = {"events.write_all"}

Sent = list[tuple[str, Any]]


@pytest.fixture
def sent(database: Database) -> Iterator[Callable[[str], Sent]]:
    """Runs a verb and gives the statements that it sent, with their parameters."""
    world = World(database)
    seen: Sent = []

    def note(connection: Any, cursor: Any, statement: str, parameters: Any, *rest: Any) -> None:
        seen.append((statement, parameters))

    def run(verb: str) -> Sent:
        seen.clear()
        database.write(lambda tx: VERBS[verb](tx, world))
        return seen

    sa.event.listen(database.engine, "before_cursor_execute", note)
    yield run
    sa.event.remove(database.engine, "before_cursor_execute", note)


FORBIDDEN: dict[str, re.Pattern[str]] = {
    "the transaction's start, or a clock that runs within the statement": re.compile(
        r"(?<!\w)(now|clock_timestamp|transaction_timestamp|timeofday|datetime|unixepoch)\s*\("
        r"|\b(current_timestamp|localtimestamp|current_time|current_date)\b",
        re.IGNORECASE,
    ),
    "a shifted clock": re.compile(r"test_clock|make_interval\(secs => \(?select|'now', ", re.IGNORECASE),
    "state in the database session": re.compile(
        r"^\s*(set|reset|discard|prepare|listen)\b|temp(orary)?\s+table", re.IGNORECASE
    ),
    "an advisory lock": re.compile(r"advisory", re.IGNORECASE),
    "a lock that foreign keys wait for": re.compile(r"for update\b|for share\b", re.IGNORECASE),
}
INSTANT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")


def times_in(value: Any) -> list[Any]:
    """What of a parameter looks like an instant: also inside packed rows, also as seconds since 1970."""
    if isinstance(value, datetime | date | time):
        return [value]
    if isinstance(value, float) and value > 1e9:
        return [value]
    if isinstance(value, dict):
        return [found for each in value.values() for found in times_in(each)]
    if isinstance(value, list | tuple):
        return [found for each in value for found in times_in(each)]
    if isinstance(value, str) and value.startswith("["):
        return times_in(json.loads(value))
    return [value] if isinstance(value, str) and INSTANT.search(value) else []


@pytest.mark.parametrize("verb", VERBS)
def test_the_sql_of_a_verb(sent: Callable[[str], Sent], verb: str) -> None:
    statements = sent(verb)
    assert [text for text, _ in statements if not text.startswith("BEGIN")], f"{verb} sent nothing"
    for text, parameters in statements:
        for what, pattern in FORBIDDEN.items():
            assert not pattern.search(text), f"{verb} has {what}: {text}"
        assert times_in(parameters) == [], f"{verb} sends an application's time: {text} {parameters}"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("SELECT now()", "the transaction's start"),
        ("WHERE x > CURRENT_TIMESTAMP", "the transaction's start"),
        ("strftime('%f', 'now', (SELECT seconds FROM t))", "a shifted clock"),
        ("(statement_timestamp() + make_interval(secs => (SELECT 1)))", "a shifted clock"),
        ("SET lock_timeout = 1", "state in the database session"),
        ("SELECT pg_advisory_lock(1)", "an advisory lock"),
        ("SELECT 1 FROM t FOR UPDATE", "a lock that foreign keys"),
    ],
)
def test_the_patterns_find_what_they_forbid(text: str, what: str) -> None:
    [pattern] = [pattern for name, pattern in FORBIDDEN.items() if name.startswith(what)]
    assert pattern.search(text)
    assert not pattern.search("SELECT statement_timestamp() FOR NO KEY UPDATE")


@pytest.mark.parametrize("value", [datetime(2026, 1, 1, tzinfo=UTC), {"a": '[["x","2026-01-01T00:00:00Z"]]'}, (1.7e9,)])
def test_times_are_found_in_parameters(value: Any) -> None:
    assert times_in(value)


def test_only_tests_set_a_shift() -> None:
    """Nobody in the product assigns one, the floor of clocks and `tenure.testing` apart."""
    root = Path(tenure.__file__).parent
    allowed = {root / "db" / "engine.py", root / "db" / "clock.py", *root.joinpath("testing").rglob("*.py")}
    naming = {path for path in root.rglob("*.py") if re.search(r"clock_shift", path.read_text("utf-8"))}
    assert naming <= allowed


def test_every_verb_is_in_the_table() -> None:
    found = set()
    for info in pkgutil.iter_modules(store.__path__):
        module = importlib.import_module(f"tenure.store.{info.name}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            first = next(iter(inspect.signature(function).parameters), None)
            if function.__module__ == module.__name__ and not name.startswith("_") and first == "tx":
                found.add(f"{info.name}.{name}")
    assert set(VERBS) | WITHIN == found
