"""6. The first guarded write of every job of a turn: it stamps the start and tests what the job was permitted to do.

Every attempt repeats the tests, for between the approval and now a grant may have been revoked or have expired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tenure import canon
from tenure.db.tx import Tx
from tenure.flow import facts
from tenure.flow.assess import ask, fits
from tenure.flow.program import Program
from tenure.flow.turns import restate
from tenure.records import Held, Job, Lease, RowKey, Turn
from tenure.states import ItemStatus, JobStatus, is_terminal
from tenure.store import approvals, holding, journal, plans, sessions, turns
from tenure.store import endings as endings_of
from tenure.store.endings import Ending
from tenure.store.journal import Entry

STALE = "grant_stale"


@dataclass(frozen=True, slots=True)
class Begun:
    """`begun` may run now. `stale` were given back for a new approval. Whatever is in neither is not owned."""

    begun: frozenset[Held]
    stale: frozenset[Held]


def begin(program: Program, owner: str, leases: Sequence[Lease]) -> Begun:
    """Begins the claimed jobs of turns, each judged on its own."""
    digests = {lease.held: canon.digest(lease.input) for lease in leases if lease.grant_id is not None}
    pairs = [lease.held for lease in leases]
    return program.database.write(lambda tx: _begin(tx, program, owner, pairs, digests), lookup=True)


def _begin(tx: Tx, program: Program, owner: str, pairs: Sequence[Held], digests: Mapping[Held, str]) -> Begun:
    held = holding.guard(tx, owner, pairs)
    locked = turns.lock(tx, [job.turn for job in held.values() if job.turn is not None])
    by_grant = sorted(held.items(), key=lambda each: (each[1].grant_id or "", each[0]))  # grants in lock order
    stale = {pair for pair, job in by_grant if not _permitted(tx, job, digests.get(pair))}
    begun = holding.begin(tx, owner, [pair for pair in held if pair not in stale])
    sessions.lock(tx, [job.session for job in held.values() if job.session is not None])
    for pair, job in sorted(held.items()):
        turn = locked[job.turn] if job.turn is not None else None
        if pair in stale and turn is not None:
            _ask_again(tx, program, owner, turn, job)
        elif pair in begun:
            _note_start(tx, turn, job)
    return Begun(frozenset(begun), frozenset(stale))


def _permitted(tx: Tx, job: Job, digest: str | None) -> bool:
    """Whether the job's grant still stands and is for the arguments that will run."""
    if job.grant_id is None:
        return True
    locked = approvals.lock_grant(tx, RowKey(job.tenant_id, job.grant_id))
    if locked is None:
        return False
    grant, usable = locked
    same_place = grant.project_id in (None, job.project_id) and grant.session_id in (None, job.session_id)
    return usable and same_place and digest == job.digest and fits(grant, digest, job.input)


def _note_start(tx: Tx, turn: Turn | None, job: Job) -> None:
    facts.of_job(tx, job, "job_started", attempt=job.attempt, owner=job.lease_owner)
    if job.grant_id is not None and job.started_at is None:
        facts.of_job(tx, job, "grant_used")
    if turn is None or job.item_id is None:
        return
    item = plans.get(tx, RowKey(job.tenant_id, job.item_id))
    if item is not None and item.status == ItemStatus.QUEUED:
        plans.change(tx, item.key, ItemStatus.RUNNING)
        if not is_terminal(turn.status):
            restate(tx, turn, plans.of_turn(tx, turn.key))


def _ask_again(tx: Tx, program: Program, owner: str, turn: Turn, job: Job) -> None:
    """The job is cancelled as `grant_stale`; the same job is reopened when the new approval is granted."""
    held = Held(job.tenant_id, job.job_id, job.fencing_token or 0)
    text = "the grant no longer covers the arguments that would run"
    endings_of.apply(
        tx,
        [
            Ending(
                held,
                JobStatus.CANCELLED,
                attempt=job.attempt,
                refunds=job.refunds,
                error_code=STALE,
                error_text=text,
            )
        ],
    )
    journal.write(tx, [Entry(held, "cancelled", owner, job.attempt, error_code=STALE, error_text=text)])
    facts.of_job(tx, job, "job_cancelled", code=STALE, attempt=job.attempt)
    if job.grant_id is not None and job.started_at is None:
        approvals.spend(tx, RowKey(job.tenant_id, job.grant_id), -1)
    item = None if job.item_id is None else plans.get(tx, RowKey(job.tenant_id, job.item_id))
    if item is None or is_terminal(turn.status):
        return
    digest = canon.digest(job.input)
    if digest != item.digest:  # what is asked is what will run: the row was changed behind the plan's back
        plans.change(tx, item.key, item.status, arguments=job.input)
    ask(tx, program, turn, item, program.tools.get(job.tool), job.input, digest)
    restate(tx, turn, plans.of_turn(tx, turn.key))
