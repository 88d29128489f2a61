"""8. Leases that nobody renewed, claims whose answer was lost, and a process that was away.

Recovery depends on the job's own row alone: no registry of workers, no start-up routine.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial

from tenure.db.tx import Tx
from tenure.flow.outcomes import Expired, Released, ReleaseReason
from tenure.flow.program import Program
from tenure.flow.settle import Settled, end_locked
from tenure.records import Held, Job, RowKey
from tenure.store import endings

log = logging.getLogger("tenure.flow")
BATCH = 200


def rescue(program: Program) -> Settled:
    """One sweep over expired leases, each job in its own transaction; a bad row stops no other."""
    if not program.database.single(endings.take_sweep):
        return Settled()
    settled = Settled()
    for key in program.database.read(lambda tx: endings.expired(tx, BATCH)):
        try:
            settled.add(program.database.write(partial(_rescue, program=program, key=key)))
        except Exception:
            log.exception("job quarantined", extra={"job_id": key.id})
            program.database.write(partial(endings.quarantine, key=key))
    return settled


def _rescue(tx: Tx, program: Program, key: RowKey) -> Settled:
    job = endings.take_expired(tx, key)
    if job is None:
        return Settled()
    return end_locked(tx, program, job.lease_owner or "", {_held(job): (job, Expired())})


def give_back(program: Program, owner: str, pairs: Iterable[Held], reason: ReleaseReason) -> Settled:
    """Releases with refund whatever still runs under these tokens, expired or not, one transaction a job."""
    settled = Settled()
    for pair in sorted(pairs):
        settled.add(program.database.write(partial(_return, program=program, owner=owner, pair=pair, reason=reason)))
    return settled


def _return(tx: Tx, program: Program, owner: str, pair: Held, reason: ReleaseReason) -> Settled:
    taken = endings.take_own(tx, owner, [pair])
    return end_locked(tx, program, owner, {_held(job): (job, Released(reason)) for job in taken})


def _held(job: Job) -> Held:
    return Held(job.tenant_id, job.job_id, job.fencing_token or 0)
