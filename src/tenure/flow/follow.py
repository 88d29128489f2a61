"""What comes after a commit: assess what became ready, end what outlived its turn, admit who waited.

Done at once by whoever caused it, and by maintenance for whatever was left undone by a crash in between.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from tenure.db.tx import Tx
from tenure.errors import CommitUnknown, DatabaseUnavailable
from tenure.flow.admit import admit
from tenure.flow.assess import assess_turn
from tenure.flow.cancel import end_live_jobs
from tenure.flow.decide import expire
from tenure.flow.program import Program
from tenure.flow.settle import Settled
from tenure.flow.turns import judge, start_next
from tenure.records import RowKey, SessionKey
from tenure.states import TurnStatus, is_terminal
from tenure.store import approvals, keys, plans, sessions, turns

log = logging.getLogger("tenure.flow")
Key = TypeVar("Key", RowKey, SessionKey)
BATCH = 100
SYSTEM = "tenure"


def follow(program: Program, settled: Settled) -> None:
    """Follows a settlement, a decision, a cancel or a rescue to where nothing more is ready."""
    waiting = set(settled.keys)
    for key in sorted(settled.turns):
        waiting |= _follow_turn(program, key)
    if waiting:
        admit(program, waiting)


def _follow_turn(program: Program, key: RowKey) -> set[RowKey]:
    turn = program.database.read(lambda tx: turns.get(tx, key))
    if turn is None:
        return set()
    if is_terminal(turn.status):
        return end_live_jobs(program, key, SYSTEM).keys
    return assess_turn(program, key)


def maintain(program: Program) -> None:
    """One pass over everything that a crash can have left undone. Guarded: any number of workers may run it."""
    database = program.database
    _each(database.read(lambda tx: approvals.expired(tx, BATCH)), partial(_expire, program))
    _each(database.read(lambda tx: turns.sessions_waiting_to_start(tx, BATCH)), partial(_start_waiting, program))
    _each(database.read(lambda tx: turns.stalled(tx, BATCH)), partial(_continue, program))
    found = database.read(_left_undone)
    _each(sorted(found.turns), lambda turn: follow(program, Settled(turns={turn})))
    _each(sorted(found.keys), lambda key: follow(program, Settled(keys={key})))


def _each(keys: Iterable[Key], act: Callable[[Key], object]) -> None:
    """One bad row is reported and stops no other; a database that is gone stops the pass."""
    for key in keys:
        try:
            act(key)
        except (DatabaseUnavailable, CommitUnknown):
            raise
        except Exception:
            log.exception("maintenance passed over a row", extra={"row": tuple(key)})


def _expire(program: Program, approval: RowKey) -> None:
    if expire(program, approval):
        follow(program, Settled(turns=program.database.read(partial(_turn_of, approval=approval))))


def _turn_of(tx: Tx, approval: RowKey) -> set[RowKey]:
    found = approvals.get(tx, approval)
    return set() if found is None else {RowKey(found.tenant_id, found.turn_id)}


def _left_undone(tx: Tx) -> Settled:
    pending = set(plans.turns_with_ready_items(tx, BATCH))
    ended = set(turns.with_live_jobs_after_end(tx, BATCH))
    return Settled(turns=ended | pending, keys=set(keys.blocking(tx, BATCH)))


def _start_waiting(program: Program, key: SessionKey) -> bool:
    def body(tx: Tx) -> bool:
        session = sessions.lock(tx, [key]).get(key)
        return session is not None and session.active_turn_id is None and start_next(tx, program, key)

    return program.database.write(body)


def _continue(program: Program, key: RowKey) -> None:
    def body(tx: Tx) -> None:
        turn = turns.lock_one(tx, key)
        if turn is None or is_terminal(turn.status) or turn.status == TurnStatus.CREATED:
            return
        if not turns.has_open_work(tx, key):
            judge(tx, program, turn)

    program.database.write(body)
