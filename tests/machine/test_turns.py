"""Turns: two sessions whose requests follow one another, whatever ends them and whoever dies in between."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tenure import flow
from tenure.db.engine import Database
from tenure.errors import AlreadyDecided, Conflict, SessionBusy, StateConflict
from tenure.flow import Failed, Released, Settled
from tenure.planner import Step
from tenure.records import Lease, RowKey, Turn
from tenure.states import ItemStatus, is_terminal
from tenure.store import jobs, plans, turns
from tenure.testing import VANISH, Driver, Killed, KillPoints
from tests.flow.opened import flow_database as flow_database
from tests.flow.opened import kept_databases as kept_databases
from tests.flow.world import TENANT, World, check_session, make
from tests.machine.worlds import empty, outcome, run

SESSIONS = ("s", "t")
RUNS = itertools.count()
PICK = st.integers(0, 99)
STEPS = st.lists(st.tuples(st.sampled_from(["read", "ask"]), st.booleans(), st.booleans()), min_size=1, max_size=3)
ENDINGS: dict[str, Any] = {
    "fails": Failed("x", "x", "terminal"),
    "is tried again": Failed("x", "x", "retryable"),
    "is released": Released("released"),
    "vanishes": VANISH,
    "returns": None,
}


class TurnMachine(RuleBasedStateMachine):
    """The model: the order in which turns were accepted, and the terminal status of each that has one."""

    world: World

    def __init__(self) -> None:
        super().__init__()
        empty(self.world.database)
        self.order: dict[str, list[str]] = {session: [] for session in SESSIONS}
        self.ended: dict[str, str] = {}
        self.started: set[str] = set()
        self.reopened: str | None = None
        self.worker = Driver(self.world.program, "w1")
        self.leases: list[Lease] = []

    # -- steps ---------------------------------------------------------------------------------------------------------

    @rule(session=st.sampled_from(SESSIONS), steps=STEPS, on_busy=st.sampled_from(["queue", "queue", "reject"]))
    def submit(self, session: str, steps: list[tuple[str, bool, bool]], on_busy: str) -> None:
        made = []
        for place, (tool, is_optional, is_last) in enumerate(steps):
            step = Step(f"s{place}", tool, n=place)
            step.is_optional = is_optional
            made.append(step.after(f"s{place - 1}") if is_last and place else step)
        is_busy = any(turn not in self.ended for turn in self.order[session])
        try:
            turn = self.world.submit(*made, session=session, on_busy=on_busy)
        except SessionBusy:
            assert is_busy
            assert on_busy == "reject"
        else:
            assert not (is_busy and on_busy == "reject")
            assert turn.status == ("created" if is_busy else "planning")
            self.order[session].append(turn.turn_id)

    @rule(number=st.integers(1, 5), how=st.sampled_from(sorted(ENDINGS)))
    def work(self, number: int, how: str) -> None:
        leases = self.worker.claim(number)
        if leases and ENDINGS[how] is not None:
            self.worker.on(leases[0].tool, ENDINGS[how])
        self.worker.work(leases)
        self.worker.script.clear()

    @rule(number=st.integers(1, 5))
    def work_without_what_follows(self, number: int) -> None:
        """The worker dies between its commit and what comes after it."""
        leases = self.worker.begin(self.worker.claim(number))
        ended = [ended for lease in leases if (ended := self.worker.run(lease)) is not None]
        self.worker.settle(ended)

    @rule(at=st.integers(0, 12))
    def die_at_work(self, at: int) -> None:
        KillPoints(at=at).watch(self.world.database)
        try:
            self.worker.step()
        except Killed:
            pass
        finally:
            self.world.database.checkpoint = None

    @rule()
    def maintain(self) -> None:
        self.worker.maintain()

    @rule()
    def lose_leases(self) -> None:
        self.world.clock.advance("91s")
        self.worker.maintain()

    @rule(approve=st.sampled_from([True, True, False]), follows=st.booleans())
    def decide(self, approve: bool, follows: bool) -> None:
        for approval in self.world.approvals()[:1]:
            decided = flow.decide(
                self.world.program, flow.Decision(approval_id=approval.approval_id, approve=approve, by="anna")
            )
            if follows:
                self.world.follow(Settled(turns={RowKey(TENANT, decided.turn_id)}))

    @rule(session=st.sampled_from(SESSIONS), pick=PICK, follows=st.booleans())
    def cancel_turn(self, session: str, pick: int, follows: bool) -> None:
        if not self.order[session]:
            return
        turn = self.order[session][pick % len(self.order[session])]
        key = RowKey(TENANT, turn)
        settled = outcome(lambda: flow.cancel_turn(self.world.program, key, "anna"), StateConflict)
        if isinstance(settled, StateConflict):
            assert settled.state == self.ended[turn]
            return
        assert turn not in self.ended
        if follows:
            self.world.follow(settled)

    @rule(pick=PICK)
    def cancel_job(self, pick: int) -> None:
        found = self.world.database.read(lambda tx: jobs.listed(tx, jobs.Filter(TENANT)))
        if not found:
            return
        job = found[pick % len(found)]
        settled = outcome(lambda: flow.cancel_job(self.world.program, job.key, "anna"), StateConflict)
        assert isinstance(settled, StateConflict) == is_terminal(job.status)
        if isinstance(settled, StateConflict):
            assert settled.state == job.status
        else:
            self.world.follow(settled)

    @rule(pick=PICK)
    def reopen(self, pick: int) -> None:
        wanted = jobs.Filter(TENANT, limit=20)
        found = [job for job in self._read(lambda tx: jobs.listed(tx, wanted)) if is_terminal(job.status)]
        if not found:
            return
        job = found[pick % len(found)]
        try:
            settled = flow.reopen(self.world.program, job.key, "anna")
        except Conflict:
            return
        if self.ended.get(str(job.turn_id)) == "failed":
            self.reopened = job.turn_id
            session = str(job.session_id)
            assert all(turn in self.ended for turn in self.order[session] if turn in self.started)
        self.world.follow(settled)

    def _read(self, body: Any) -> Any:
        return self.world.database.read(body)

    # -- what must hold ------------------------------------------------------------------------------------------------

    @invariant()
    def turns_follow_one_another(self) -> None:
        found: dict[str, Turn] = {turn.turn_id: turn for turn in self._read(lambda tx: turns.listed(tx, TENANT))}
        if self.reopened is not None:
            self.ended.pop(self.reopened)
            self.reopened = None
        for session, order in self.order.items():
            shown = [found[turn] for turn in order]
            is_open = [turn.turn_id for turn in shown if not is_terminal(turn.status) and turn.status != "created"]
            assert len(is_open) <= 1, f"session {session} works on {is_open}"
            if not is_open:
                assert "created" not in [turn.status for turn in shown], "nobody started the next turn"
            for turn in shown:
                self._check_turn(turn, order)

    def _check_turn(self, turn: Turn, order: list[str]) -> None:
        before = self.ended.get(turn.turn_id)
        assert before in (None, turn.status), f"{before} became {turn.status}"
        if is_terminal(turn.status):
            self.ended[turn.turn_id] = turn.status
        if turn.started_at is not None and turn.turn_id not in self.started:
            self.started.add(turn.turn_id)
            earlier = order[: order.index(turn.turn_id)]
            assert all(each in self.started or each in self.ended for each in earlier), "it overtook an earlier one"

    def teardown(self) -> None:
        """Whatever was left undone is found, and everything that was begun comes to its end: in every third run, for
        that takes twice as long as the run."""
        self.world.database.checkpoint = None
        if next(RUNS) % 3:
            return
        for number in range(60):
            self.world.clock.advance("91s")
            Driver(self.world.program, f"last{number}").drain()
            self._check_nothing_is_stuck()
            for approval in self.world.approvals():
                with suppress(AlreadyDecided):  # voided by the answer before it
                    self.world.decide(approval, approve=number < 2)
            if all(is_terminal(turn.status) for turn in self._read(lambda tx: turns.listed(tx, TENANT))):
                break
        for session, order in self.order.items():
            if order:
                check_session(self.world.database, self.world.card(session))
                assert self.world.card(session).active_turn_id is None

    def _check_nothing_is_stuck(self) -> None:
        for turn in self._read(lambda tx: turns.listed(tx, TENANT)):
            if not is_terminal(turn.status) and turn.status != "created":
                items = self._read(lambda tx, key=turn.key: plans.of_turn(tx, key))
                waits = any(item.status == ItemStatus.AWAITING_APPROVAL for item in items)
                assert waits, f"turn {turn.turn_id} is {turn.status} with nothing to do"


@pytest.mark.timeout(300)
def test_turns(flow_database: Database) -> None:
    world = make(flow_database)
    run(TurnMachine, world)
    empty(flow_database)
