"""A program with a few tools on a database whose clock the test moves; and what rows and events must agree on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from tenure import canon, flow
from tenure.db import schema
from tenure.db.engine import Database
from tenure.db.reading import columns_of
from tenure.db.tx import Tx
from tenure.flow import Program, Request, Settled
from tenure.flow.facts import sha256
from tenure.planner import Final, Planner, Recipe, Step, Steps, TurnView
from tenure.records import (
    Approval,
    Event,
    Grant,
    Held,
    Job,
    JobAttempt,
    Lease,
    PlanItem,
    RowKey,
    Session,
    SessionKey,
    Turn,
)
from tenure.runtime import Runtime
from tenure.settings import Settings
from tenure.states import ItemStatus, JobStatus, is_terminal
from tenure.store import approvals, events, jobs, journal, keys, plans, sessions, turns
from tenure.testing import Clock, Driver
from tenure.tools import Registry, declare
from tests.flow.fold import fold

TENANT = "default"
PEOPLE = ("anna", "boris")


@dataclass
class World:
    """`check` is called after every test of the flow: dense events that fold to the rows, and cards that are true."""

    program: Program
    clock: Clock
    worker: Driver
    planners: dict[str, Planner]
    calls: list[tuple[str, Any]] = field(default_factory=list)

    @property
    def database(self) -> Database:
        return self.program.database

    # -- making --------------------------------------------------------------------------------------------------------

    def tool(self, name: str, fn: Callable[..., Any] | None = None, **options: Any) -> None:
        """A tool that notes its calls; without `fn` it takes `n` and returns {"n": n}."""
        calls = self.calls

        def noted(n: int = 0) -> dict[str, int]:
            calls.append((name, n))
            return {"n": n}

        self.program.tools.add(declare(fn or noted, name=name, **options))

    def recipe(self, command: str, fn: Callable[[TurnView], Steps | Final]) -> None:
        self.planners[command] = Recipe(command, fn)

    def submit(self, *steps: Step, session: str = "s", **fields: Any) -> Turn:
        """A turn with a given plan, or with the `command` among the fields."""
        given = [step.stored() for step in steps] or None
        return flow.submit(self.program, Request(session_id=session, steps=given, **fields))[0]

    def planned(self, *steps: Step, **fields: Any) -> Turn:
        """A turn whose plan has been made and assessed; nothing of it has run."""
        turn = self.submit(*steps, **fields)
        self.worker.work(self.claim(flow.PLAN))
        return self.turn(turn)

    def claim(self, *tools: str, owner: str = "w1") -> list[Lease]:
        return Driver(self.program, owner, tools=tools or None).claim()

    def running(self, *tools: str, owner: str = "w1") -> list[Lease]:
        """Claimed and begun."""
        return self.worker_of(owner).begin(self.claim(*tools, owner=owner))

    def worker_of(self, owner: str) -> Driver:
        return self.worker if owner == self.worker.owner else Driver(self.program, owner)

    def follow(self, settled: Settled) -> None:
        flow.follow(self.program, settled)

    def settle(self, lease: Lease, outcome: flow.Outcome, owner: str = "w1", *, follow: bool = True) -> Settled:
        settled = flow.settle(self.program, owner, [flow.Settlement(lease, outcome)])
        if follow:
            self.follow(settled)
        return settled

    def decide(self, approval: Approval, *, approve: bool = True, by: str = "anna", **fields: Any) -> Approval:
        """Decides and follows."""
        decision = flow.Decision(approval_id=approval.approval_id, approve=approve, by=by, **fields)
        decided = flow.decide(self.program, decision)
        self.follow(Settled(turns={RowKey(decided.tenant_id, decided.turn_id)}))
        return decided

    def cancel(self, job: Job, by: str = "anna") -> None:
        self.follow(flow.cancel_job(self.program, job.key, by))

    def cancel_turn(self, turn: Turn, by: str = "anna") -> None:
        self.follow(flow.cancel_turn(self.program, turn.key, by))

    def change(self, table: sa.Table, where: sa.ColumnElement[bool], **values: Any) -> None:
        """Writes a row behind the program's back."""
        self.database.write(lambda tx: tx.execute(sa.update(table).where(where).values(**values)))

    # -- looking -------------------------------------------------------------------------------------------------------

    def turn(self, turn: Turn) -> Turn:
        found = self.database.read(lambda tx: turns.get(tx, turn.key))
        assert found is not None
        return found

    def turn_of(self, job: Job) -> Turn:
        found = self.database.read(lambda tx: turns.get(tx, job.turn) if job.turn else None)
        assert found is not None
        return found

    def items(self, turn: Turn) -> dict[str, PlanItem]:
        return {item.name: item for item in self.database.read(lambda tx: plans.of_turn(tx, turn.key))}

    def item_statuses(self, turn: Turn) -> dict[str, str]:
        return {name: str(item.status) for name, item in self.items(turn).items()}

    def job(self, named: Job | Lease | PlanItem | Held) -> Job:
        key = RowKey(named.tenant_id, named.job_id or "")
        found = self.database.read(lambda tx: jobs.get(tx, key))
        assert found is not None
        return found

    def job_of(self, turn: Turn, name: str) -> Job:
        return self.job(self.items(turn)[name])

    def jobs(self, turn: Turn) -> list[Job]:
        return self.database.read(lambda tx: jobs.of_turn(tx, turn.key))

    def journal(self, job: Job | Lease | PlanItem) -> list[JobAttempt]:
        return self.database.read(lambda tx: journal.of_job(tx, RowKey(job.tenant_id, job.job_id or "")))

    def approvals(self, status: str | None = "pending") -> list[Approval]:
        return self.database.read(lambda tx: approvals.listed(tx, TENANT, status=status))[::-1]

    def approval(self) -> Approval:
        (only,) = self.approvals()
        return only

    def grants(self) -> list[Grant]:
        return self.database.read(lambda tx: approvals.grants(tx, TENANT))[::-1]

    def card(self, session: str = "s") -> Session:
        found = self.database.read(lambda tx: sessions.get(tx, SessionKey(TENANT, session)))
        assert found is not None
        return found

    def events(self, session: str = "s", *types: str) -> list[Event]:
        key = SessionKey(TENANT, session)
        return self.database.read(lambda tx: events.page(tx, key, limit=100_000, types=types or None)).events

    def kinds(self, session: str = "s") -> list[str]:
        return [event.type for event in self.events(session)]

    # -- what must always hold -----------------------------------------------------------------------------------------

    def check(self) -> None:
        """The events of every session are dense and fold to its rows; cards and keys are true."""
        for session in self.database.read(lambda tx: sessions.listed(tx, TENANT, 1000)):
            check_session(self.database, session)
        check_keys(self.database)


def make(database: Database, **settings: Any) -> World:
    """A world with nothing in it but three tools."""
    runtime = Runtime(Settings(**settings), database)
    planners: dict[str, Planner] = {}
    program = Program(runtime, Registry(), planners)
    clock = Clock(program.database)
    world = World(program, clock, Driver(program), planners)
    world.tool("read", mode="read")
    world.tool("ask", approval="required")
    world.tool("ask_or_skip", approval="required", on_refusal="skip")
    return world


def check_session(database: Database, session: Session) -> None:
    """One snapshot: what the log says and what the rows say."""
    log, rows = database.read(lambda tx: (_log(tx, session.key), Rows.of(tx, session.key)))
    assert [event.event_seq for event in log] == list(range(1, len(log) + 1))
    assert rows.card.last_event_seq == len(log)
    found = fold(log)
    assert {key: (turn.status, turn.round) for key, turn in found.turns.items()} == {
        turn.turn_id: (turn.status, turn.round) for turn in rows.turns
    }
    assert {key: item.status for key, item in found.items.items()} == {item.item_id: item.status for item in rows.items}
    assert {key: approval.status for key, approval in found.approvals.items()} == {
        approval.approval_id: approval.status for approval in rows.approvals
    }
    assert found.uses == {grant.grant_id: grant.uses_left for grant in rows.grants}
    assert found.jobs.keys() == {job.job_id for job in rows.jobs}
    for job in rows.jobs:
        folded = found.jobs[job.job_id]
        if (folded.status, job.status) == (JobStatus.QUEUED, JobStatus.RUNNING):
            assert job.started_at is None or not folded.begun or job.attempt == folded.attempt + 1
            continue
        output = None if job.status != JobStatus.COMPLETED else sha256(canon.encode(job.output))
        assert (folded.status, folded.attempt, folded.output_sha256) == (job.status, job.attempt, output)
    _check_card(rows)


def _check_card(rows: Rows) -> None:
    pending = [approval.approval_id for approval in rows.approvals if approval.status == "pending"]
    assert [entry["approval_id"] for entry in rows.card.pending_approval] == sorted(pending)
    open_turns = [turn.turn_id for turn in rows.turns if not is_terminal(turn.status) and turn.status != "created"]
    assert open_turns == ([rows.card.active_turn_id] if rows.card.active_turn_id else [])
    for item in rows.items:
        turn = next(turn for turn in rows.turns if turn.turn_id == item.turn_id)
        if is_terminal(turn.status):
            assert item.status not in (ItemStatus.PENDING, ItemStatus.AWAITING_APPROVAL), item


def check_keys(database: Database) -> None:
    """No key ever holds more than its places."""

    def body(tx: Tx) -> list[tuple[str, int]]:
        found = tx.rows(sa.select(schema.job_keys.c.tenant_id, schema.job_keys.c.key).where(_not_held))
        held = [keys.get(tx, RowKey(row.tenant_id, row.key)) for row in found]
        return [(key.key, keys.room(tx, key)) for key in held if key is not None]

    assert [(key, room) for key, room in database.read(body) if room < 0] == []


_not_held = schema.job_keys.c.held_by.is_(None)


@dataclass
class Rows:
    """The rows of one session."""

    card: Session
    turns: list[Turn]
    items: list[PlanItem]
    jobs: list[Job]
    approvals: list[Approval]
    grants: list[Grant]

    @classmethod
    def of(cls, tx: Tx, key: SessionKey) -> Rows:
        card = sessions.get(tx, key)
        assert card is not None
        found = [Turn(*row) for row in tx.rows(_all(schema.agent_turns, Turn, key))]
        of_turns = [turn.turn_id for turn in found]
        items = schema.agent_plan_items
        return cls(
            card,
            found,
            [
                PlanItem(*row)
                for row in tx.rows(sa.select(*columns_of(items, PlanItem)).where(items.c.turn_id.in_(of_turns)))
            ],
            [Job(*row) for row in tx.rows(_all(schema.background_jobs, Job, key))],
            [Approval(*row) for row in tx.rows(_all(schema.approval_requests, Approval, key))],
            [Grant(*row) for row in tx.rows(_all(schema.approval_grants, Grant, key))],
        )


def _all(table: sa.Table, record: type[Any], key: SessionKey) -> sa.Select[Any]:
    where = [table.c.tenant_id == key.tenant_id, table.c.session_id == key.session_id]
    return sa.select(*columns_of(table, record)).where(*where)


def _log(tx: Tx, key: SessionKey) -> list[Event]:
    return events.page(tx, key, limit=100_000).events
