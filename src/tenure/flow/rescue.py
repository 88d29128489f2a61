"""8. Leases that nobody renewed, claims whose answer was lost, and a process that was away.

Recovery depends on the job's own row alone: no registry of workers, no start-up routine.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial

from tenure.db.tx import Tx
from tenure.flow import facts
from tenure.flow.outcomes import Expired, Released, ReleaseReason
from tenure.flow.program import Program
from tenure.flow.settle import Settled, end_locked
from tenure.flow.turns import end, fail_item, judge
from tenure.records import Held, Job, RowKey
from tenure.states import TurnStatus, is_terminal
from tenure.store import endings, jobs, keys, plans, turns

log = logging.getLogger("tenure.flow")
BATCH = 200


def take_sweep(program: Program) -> bool:
    """Whether it is this worker's turn to rescue and maintain: one sweep a second in the whole database."""
    return program.database.single(endings.take_sweep)


def rescue(program: Program) -> Settled:
    """Ends the attempts whose lease is over, each job in its own transaction; a bad row stops no other."""
    settled = Settled()
    for key in program.database.read(lambda tx: endings.expired(tx, BATCH)):
        try:
            settled.add(program.database.write(partial(_rescue, program=program, key=key)))
        except Exception:
            log.exception("job quarantined", extra={"job_id": key.id})
            settled.add(_quarantined(program, key))
    return settled


def _quarantined(program: Program, key: RowKey) -> Settled:
    """Ends the job that could not be judged, and what waits for it; where even that breaks, the job alone."""
    try:
        return program.database.write(partial(_quarantine, program=program, key=key))
    except Exception:
        log.exception("only the job itself was quarantined", extra={"job_id": key.id})
        program.database.write(partial(endings.quarantine, key=key))
        return Settled()


def _quarantine(tx: Tx, program: Program, key: RowKey) -> Settled:
    if not endings.quarantine(tx, key):
        return Settled()
    job = jobs.get(tx, key)
    assert job is not None
    freed = {keys.place(key.tenant_id, name) for name in (job.limit_key, job.user_limit_key, job.slot_key) if name}
    if job.turn is None:
        return Settled(keys=freed)
    turn = turns.lock_one(tx, job.turn)
    facts.of_job(tx, job, "job_failed", attempt=job.attempt, code=job.error_code, text=job.error_text)
    item = None if job.item_id is None else plans.get(tx, RowKey(key.tenant_id, job.item_id))
    if turn is not None and item is not None:
        fail_item(tx, turn, item, job.error_code or "", job.error_text)
    if turn is not None and not is_terminal(turn.status):
        if item is not None:
            judge(tx, program, turn)
        else:
            end(tx, program, turn, TurnStatus.FAILED, error_code=job.error_code, error_text=job.error_text)
    return Settled(turns={job.turn}, keys=freed)


def _rescue(tx: Tx, program: Program, key: RowKey) -> Settled:
    job = endings.take_expired(tx, key)
    if job is None:
        return Settled()
    return end_locked(tx, program, job.lease_owner or "", {_held(job): (job, Expired())})


def give_back(
    program: Program, owner: str, pairs: Iterable[Held], reason: ReleaseReason, delay_s: float = 0.0
) -> Settled:
    """Releases with refund whatever still runs under these tokens, expired or not, one transaction a job; due again
    after `delay_s`."""
    released = Released(reason, delay_s)
    settled = Settled()
    for pair in sorted(pairs):
        body = partial(_return, program=program, owner=owner, pair=pair, released=released)
        settled.add(program.database.write(body, lookup=True))  # what it returned before does not run any more
    return settled


def _return(tx: Tx, program: Program, owner: str, pair: Held, released: Released) -> Settled:
    taken = endings.take_own(tx, owner, [pair])
    return end_locked(tx, program, owner, {_held(job): (job, released) for job in taken})


def _held(job: Job) -> Held:
    return Held(job.tenant_id, job.job_id, job.fencing_token or 0)
