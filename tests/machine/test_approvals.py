"""Approvals: questions, answers, expiry, grants and their uses, in any order, against a model of who may run what."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import sqlalchemy as sa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tenure import flow
from tenure.db.engine import Database
from tenure.db.schema import agent_plan_items, approval_grants, approval_requests, background_jobs
from tenure.db.tx import Tx
from tenure.errors import AlreadyDecided, ApprovalExpired, StateConflict
from tenure.flow import Completed, Failed, Settled, Settlement
from tenure.planner import Step
from tenure.records import Approval, Lease, RowKey
from tests.flow.opened import flow_database as flow_database
from tests.flow.opened import kept_databases as kept_databases
from tests.flow.world import TENANT, World, check_session, make
from tests.machine.worlds import empty, outcome, run

LIFE, STEP = 10_000.0, 4_000.0  # a question lives for two and a half steps of time
PICK = st.integers(0, 99)


@dataclass
class Question:
    """One request as the protocol says that it must be."""

    asked_at: float
    status: str = "pending"
    by: str | None = None


@dataclass
class Permission:
    """A grant: `once` it covers one call, whose arguments are `n`."""

    n: int
    uses: int = 1
    revoked: bool = False


@dataclass
class Asked:
    """One step of a turn of its own."""

    n: int
    item: str
    questions: list[str] = field(default_factory=list)
    grants: list[str] = field(default_factory=list)
    status: str = "awaiting_approval"
    input: int = 0
    begun: bool = False
    ran: list[int] = field(default_factory=list)


class ApprovalMachine(RuleBasedStateMachine):
    world: World

    def __init__(self) -> None:
        super().__init__()
        empty(self.world.database)
        self.now = 0.0
        self.asked: dict[str, Asked] = {}
        self.questions: dict[str, Question] = {}
        self.permissions: dict[str, Permission] = {}
        self.leases: dict[str, Lease] = {}

    def _pick(self, statuses: tuple[str, ...], pick: int) -> Asked | None:
        found = [asked for asked in self.asked.values() if asked.status in statuses]
        return found[pick % len(found)] if found else None

    # -- steps ---------------------------------------------------------------------------------------------------------

    @rule(n=st.integers(0, 3))
    def ask(self, n: int) -> None:
        session = f"s{len(self.asked)}"
        turn = self.world.submit(Step("a", "ask", n=n), session=session)
        self.world.worker.work(self.world.claim(flow.PLAN))
        item = self.world.items(turn)["a"]
        self.asked[session] = Asked(n, item.item_id, input=n)
        self._new_question(self.asked[session], str(item.approval_id))

    def _new_question(self, asked: Asked, approval_id: str) -> None:
        assert approval_id not in self.questions
        asked.questions.append(approval_id)
        asked.status = "awaiting_approval"
        self.questions[approval_id] = Question(self.now)

    @precondition(lambda self: self.questions)
    @rule(pick=PICK, approve=st.sampled_from([True, True, True, False]), by=st.sampled_from(["anna", "boris"]))
    def decide(self, pick: int, approve: bool, by: str) -> None:
        listed = list(self.questions)
        self._decide(listed[-1 - pick % min(len(listed), 4)], approve, by)

    def _decide(self, approval_id: str, approve: bool, by: str) -> None:
        question = self.questions[approval_id]
        answer = "approved" if approve else "denied"
        decision = flow.Decision(approval_id=approval_id, approve=approve, by=by)
        decided = outcome(lambda: flow.decide(self.world.program, decision), ApprovalExpired, AlreadyDecided)
        if isinstance(decided, ApprovalExpired):
            assert self._is_expired(question)
            if question.status == "pending":
                self._refused(approval_id, "expired")
        elif isinstance(decided, AlreadyDecided):
            assert decided.status == question.status != "pending"
            assert (question.status, question.by) != (answer, by)
        else:
            assert isinstance(decided, Approval)
            assert decided.status == answer
            if question.status == "pending":
                assert not self._is_expired(question)
                self._answered(approval_id, decided.turn_id, approve, by)
            assert (question.status, question.by) == (answer, by)

    def _is_expired(self, question: Question) -> bool:
        return question.status == "expired" or (question.status == "pending" and self.now - question.asked_at > LIFE)

    def _answered(self, approval_id: str, turn_id: str, approve: bool, by: str) -> None:
        asked = self._of(approval_id)
        self.questions[approval_id].by = by
        if not approve:
            self._refused(approval_id, "denied")
            return
        self.questions[approval_id].status = "approved"
        self.world.follow(Settled(turns={RowKey(TENANT, turn_id)}))
        (grant,) = self._grants_of(approval_id)
        # Released at once: the use is taken.
        self.permissions[grant] = Permission(asked.input, uses=0)
        asked.grants.append(grant)
        asked.status, asked.begun = "queued", False

    def _refused(self, approval_id: str, status: str) -> None:
        self.questions[approval_id].status = status
        self._of(approval_id).status = "failed"

    def _of(self, approval_id: str) -> Asked:
        return next(asked for asked in self.asked.values() if approval_id in asked.questions)

    def _grants_of(self, approval_id: str) -> list[str]:
        table = approval_grants.c
        statement = sa.select(table.grant_id).where(table.approval_id == approval_id)
        return [row.grant_id for row in self.world.database.read(lambda tx: tx.rows(statement))]

    @rule()
    def time_passes(self) -> None:
        self.now += STEP
        self.world.clock.advance(STEP)

    @rule()
    def sweep(self) -> None:
        self.world.worker.maintain()
        for approval_id, question in self.questions.items():
            if question.status == "pending" and self._is_expired(question):
                self._refused(approval_id, "expired")
        self._forget_lost()

    def _forget_lost(self) -> None:
        """Rescue has queued what no worker renewed: any step of time is longer than a lease."""
        running = {row.job_id for row in self.world.database.read(lambda tx: tx.rows(_RUNNING))}
        for session, lease in list(self.leases.items()):
            if lease.job_id not in running:
                self.asked[session].status = "queued"
                del self.leases[session]

    @rule()
    def begin(self) -> None:
        leases = {str(lease.session_id): lease for lease in self.world.claim("ask")}
        begun = flow.begin(self.world.program, "w1", list(leases.values())) if leases else None
        for session, lease in leases.items():
            assert begun is not None
            asked = self.asked[session]
            permission = self.permissions[asked.grants[-1]]
            if permission.revoked or permission.n != asked.input:
                assert lease.held in begun.stale, "it ran although nobody agreed to it"
                permission.uses += not asked.begun
                self._new_question(asked, self._approval_of(asked))
            else:
                assert lease.held in begun.begun
                asked.status, asked.begun = "running", True
                asked.ran.append(int(lease.input["n"]))
                self.leases[session] = lease

    def _approval_of(self, asked: Asked) -> str:
        statement = sa.select(agent_plan_items.c.approval_id).where(agent_plan_items.c.item_id == asked.item)
        return str(self.world.database.read(lambda tx: tx.execute(statement).scalar_one()))

    @precondition(lambda self: self.leases)
    @rule(pick=PICK, how=st.sampled_from(["completed", "failed", "retry"]))
    def settle(self, pick: int, how: str) -> None:
        session = list(self.leases)[pick % len(self.leases)]
        lease = self.leases.pop(session)
        outcome: flow.Outcome = Completed('{"n":0}')
        if how != "completed":
            outcome = Failed("x", "x", "terminal" if how == "failed" else "retryable", charge=False)
        settled = flow.settle(self.world.program, "w1", [Settlement(lease, outcome)])
        if settled.accepted:
            self.asked[session].status = "queued" if how == "retry" else how
        else:
            assert self.now > 0
            self.leases[session] = lease  # expired, and not rescued yet
        self.world.follow(settled)

    @precondition(lambda self: self.permissions)
    @rule(pick=PICK)
    def revoke(self, pick: int) -> None:
        grant = list(self.permissions)[pick % len(self.permissions)]
        permission = self.permissions[grant]
        try:
            flow.revoke(self.world.program, RowKey(TENANT, grant), "boris")
        except StateConflict:
            assert permission.revoked
        else:
            assert not permission.revoked
        permission.revoked = True

    @rule(pick=PICK)
    def change_the_input(self, pick: int) -> None:
        asked = self._pick(("queued",), pick)
        if asked is not None:
            asked.input += 100
            where = background_jobs.c.item_id == asked.item
            self.world.change(background_jobs, where, input={"n": asked.input})

    @rule(pick=PICK)
    def cancel(self, pick: int) -> None:
        asked = self._pick(("queued",), pick)
        if asked is not None:
            job_id = self.world.database.read(lambda tx: tx.execute(_job_of(asked.item)).scalar_one())
            self.world.follow(flow.cancel_job(self.world.program, RowKey(TENANT, job_id), "anna"))
            asked.status = "failed"
            self.permissions[asked.grants[-1]].uses += not asked.begun

    # -- what must hold ------------------------------------------------------------------------------------------------

    @invariant()
    def rows_are_as_modelled(self) -> None:
        questions, grants, items = self.world.database.read(_rows)
        assert questions == {key: (question.status, question.by) for key, question in self.questions.items()}
        assert grants == {key: (grant.uses, grant.revoked) for key, grant in self.permissions.items()}
        assert items == {asked.item: asked.status for asked in self.asked.values()}

    def teardown(self) -> None:
        for session in self.asked:
            check_session(self.world.database, self.world.card(session))
        for asked in self.asked.values():
            agreed = {self.permissions[grant].n for grant in asked.grants}
            assert set(asked.ran) <= agreed, f"ran with {asked.ran}, agreed to {agreed}"


_RUNNING = sa.select(background_jobs.c.job_id).where(background_jobs.c.status == "running")


def _job_of(item: str) -> sa.Select[tuple[str]]:
    return sa.select(background_jobs.c.job_id).where(background_jobs.c.item_id == item)


def _rows(tx: Tx) -> tuple[dict[str, tuple[str, str | None]], dict[str, tuple[int, bool]], dict[str, str]]:
    a, g, i = approval_requests.c, approval_grants.c, agent_plan_items.c
    questions = tx.rows(sa.select(a.approval_id, a.status, a.decided_by))
    grants = tx.rows(sa.select(g.grant_id, g.uses_left, g.revoked_at))
    items = tx.rows(sa.select(i.item_id, i.status))
    return (
        {row.approval_id: (str(row.status), row.decided_by) for row in questions},
        {row.grant_id: (row.uses_left, row.revoked_at is not None) for row in grants},
        {row.item_id: str(row.status) for row in items},
    )


@pytest.mark.timeout(300)
def test_approvals(flow_database: Database) -> None:
    world = make(flow_database, approval_s=LIFE)
    world.worker.lease_s = 90.0
    run(ApprovalMachine, world)
    empty(flow_database)
