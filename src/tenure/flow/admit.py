"""5. Admission: who waits at a key gets its place first come, first served.

A transaction of its own, after the commit of what inserted or ended a job with keys, and each second by maintenance.
It waits for keys while it holds nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable

from tenure.db.tx import Tx
from tenure.flow.program import Program
from tenure.records import RowKey
from tenure.store import keys
from tenure.store.keys import Candidate

BATCH = 50


def declare_limits(program: Program) -> None:
    """Brings the places of limits to what the tools declare now; whoever then has room is admitted by maintenance."""

    def body(tx: Tx) -> None:
        for spec in program.tools.specs():
            if spec.limit is not None or spec.limit_per_user is not None:
                keys.set_places(tx, spec.name, spec.limit, spec.limit_per_user)

    program.database.write(body, lookup=True)


def admit(program: Program, wanted: Iterable[RowKey]) -> int:
    """Admits whoever has room at these keys; returns how many jobs became claimable."""
    return sum(_admit_at(program, key) for key in sorted(set(wanted)))


def _admit_at(program: Program, key: RowKey) -> int:
    admitted, total = BATCH, 0
    while admitted == BATCH:
        admitted = program.database.write(lambda tx: _once(tx, key))
        total += admitted
    return total


def _once(tx: Tx, key: RowKey) -> int:
    seen = keys.waiting_at(tx, key, BATCH)
    if not seen:
        return 0
    locked = keys.lock(tx, {key, *(need for candidate in seen for need in candidate.needs)})
    room = {each: keys.room(tx, held) for each, held in locked.items()}
    moves: list[tuple[Candidate, str | None]] = []
    for candidate in keys.waiting_at(tx, key, BATCH, lock=True):
        if not locked.keys() >= set(candidate.needs):
            continue  # it came after the keys were read; the next admission sees it
        full = next((need for need in candidate.needs if room[need] < 1), None)
        if full is None:
            for need in candidate.needs:
                room[need] -= 1
            moves.append((candidate, None))
        elif full != key:
            moves.append((candidate, full.id))
    keys.move(tx, moves)
    admitted = sum(1 for _, blocked_by in moves if blocked_by is None)
    if admitted:
        tx.wake()
    return admitted
