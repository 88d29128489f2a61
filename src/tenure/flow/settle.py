"""6.–8. A holder ends its leases: jobs that end together settle together, each row judged on its own.

Completions of bare jobs are one statement. Everything else is one transaction: jobs are guarded, turns locked, the
decision made by a pure function, and what it moves is written together with its events.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tenure.db.engine import Kept
from tenure.db.tx import Tx
from tenure.errors import CommitUnknown, DatabaseUnavailable
from tenure.flow import facts, plan
from tenure.flow.outcomes import Completed, Decision, Failed, Outcome, Planned, Released, decide
from tenure.flow.program import PLAN, Program
from tenure.flow.turns import end, fail_item, judge, skip_item
from tenure.payload import sanitize
from tenure.records import Held, Job, Lease, PlanItem, RowKey, Turn
from tenure.states import ItemStatus, JobStatus, TurnStatus, is_terminal
from tenure.store import approvals, artifacts, endings, holding, journal, keys, plans, projects, sessions, turns
from tenure.store.journal import Entry


@dataclass(frozen=True, slots=True)
class Settlement:
    """A lease and how its attempt ended."""

    lease: Lease
    outcome: Outcome


@dataclass(slots=True)
class Settled:
    """`accepted` moved their rows (or had done so before); `rejected` were not owned any more.

    `turns` are to be followed (assessed, or their live jobs ended), `keys` to be admitted at: `flow.follow`.
    """

    accepted: set[Held] = field(default_factory=set)
    rejected: set[Held] = field(default_factory=set)
    turns: set[RowKey] = field(default_factory=set)
    keys: set[RowKey] = field(default_factory=set)

    def add(self, other: Settled) -> None:
        self.accepted |= other.accepted
        self.rejected |= other.rejected
        self.turns |= other.turns
        self.keys |= other.keys


def settle(program: Program, owner: str, ended: Sequence[Settlement], kept: Kept | None = None) -> Settled:
    """Ends the leases; whoever still holds its job moves it, and nobody else. Follow it with `flow.follow`."""
    settled = _complete_bare(program, owner, ended, kept)
    rest = [each for each in ended if each.lease.held not in settled.accepted]
    if rest:
        settled.add(program.database.write(lambda tx: _settle(tx, program, owner, rest), lookup=True))
    return settled


def _complete_bare(program: Program, owner: str, ended: Sequence[Settlement], kept: Kept | None) -> Settled:
    """The hot path. What it does not return is looked at again by the transaction that follows."""
    results = {
        each.lease.held: each.outcome.output
        for each in ended
        if each.lease.is_bare and each.lease.slot_key is None and isinstance(each.outcome, Completed)
    }
    if not results:
        return Settled()
    try:
        run = (kept or program.database).single
        accepted = run(lambda tx: endings.complete_bare(tx, owner, results))
    except (CommitUnknown, DatabaseUnavailable):
        return Settled()
    freed = {
        key
        for each in ended
        if each.lease.held in accepted
        for key in _limits(each.lease.tenant_id, each.lease.limit_key, each.lease.user_limit_key)
    }
    return Settled(accepted=accepted, keys=freed)


def _limits(tenant_id: str, *names: str | None) -> set[RowKey]:
    return {keys.place(tenant_id, name) for name in names if name}


def _settle(tx: Tx, program: Program, owner: str, ended: Sequence[Settlement]) -> Settled:
    outcomes = {each.lease.held: each.outcome for each in ended}
    held = holding.guard(tx, owner, outcomes)
    settled = end_locked(tx, program, owner, {pair: (job, outcomes[pair]) for pair, job in held.items()})
    late = [each for each in ended if each.lease.held not in held]
    if late:
        settled.add(_judge_late(tx, owner, late))
    return settled


# -- jobs whose rows this transaction has locked -----------------------------------------------------------------------


def end_locked(tx: Tx, program: Program, owner: str, ended: Mapping[Held, tuple[Job, Outcome]]) -> Settled:
    """Ends running jobs that the transaction has locked: by settlement, by rescue, by return."""
    settled = Settled(accepted=set(ended))
    locked = turns.lock(tx, [job.turn for job, _ in ended.values() if job.turn is not None])
    decisions = {held: decide(job, outcome, _runtime_left(tx, job, outcome)) for held, (job, outcome) in ended.items()}
    endings.apply(tx, [decision.ending for _, decision in sorted(decisions.items())])
    journal.write(
        tx, [_entry(owner, *ended[held], decision) for held, decision in decisions.items() if decision.journal]
    )
    for held, (job, _) in sorted(ended.items()):
        if decisions[held].ending.status == JobStatus.COMPLETED:
            _record_output(tx, job)
    sessions.lock(tx, [job.session for job, _ in ended.values() if job.session is not None])
    for held, (job, outcome) in sorted(ended.items()):
        decision = decisions[held]
        _note(tx, job, decision)
        settled.keys |= _limits(job.tenant_id, job.limit_key, job.user_limit_key)
        if is_terminal(decision.ending.status):
            settled.keys |= _limits(job.tenant_id, job.slot_key)
        if job.turn is not None:
            settled.turns.add(job.turn)
            _move_turn(tx, program, locked[job.turn], job, outcome, decision)
            # Another job of this batch may be of the same turn, which this one may have ended.
            locked |= turns.lock(tx, [job.turn]) if len(ended) > 1 else {}
    if any(decision.ending.status == JobStatus.QUEUED for decision in decisions.values()):
        tx.wake()
    return settled


def _runtime_left(tx: Tx, job: Job, outcome: Outcome) -> float:
    """Only what may run again is held against its `max_runtime`."""
    if isinstance(outcome, (Completed, Planned)) or job.cancel_requested_at is not None:
        return job.max_runtime_s
    return endings.runtime_left(tx, job.key)


def _entry(owner: str, job: Job, outcome: Outcome, decision: Decision) -> Entry:
    ending = decision.ending
    result, digest = None, None
    if isinstance(outcome, (Completed, Planned)):  # finished after a cancel was asked for: a technical record
        result, digest = sanitize(json.loads(outcome.output)), facts.sha256(outcome.output)
    return Entry(
        ending.held,
        decision.journal or "",
        job.lease_owner or owner,
        job.attempt,
        error_code=ending.error_code,
        error_kind=ending.error_kind,
        error_text=ending.error_text,
        result=result,
        result_sha256=digest,
        note=decision.note,
    )


def _note(tx: Tx, job: Job, decision: Decision) -> None:
    ending = decision.ending
    error = {"code": ending.error_code, "text": ending.error_text}
    match ending.status:
        case JobStatus.COMPLETED:
            facts.of_job(tx, job, "job_completed", attempt=job.attempt, output_sha256=facts.sha256(ending.output or ""))
        case JobStatus.FAILED:
            if decision.journal == "lease_expired":
                facts.of_job(tx, job, "lease_expired", attempt=job.attempt, owner=job.lease_owner)
            facts.of_job(tx, job, "job_failed", attempt=ending.attempt, error_kind=ending.error_kind, **error)
        case JobStatus.CANCELLED:
            facts.of_job(tx, job, "job_cancelled", attempt=ending.attempt, **error)
        case _ if decision.journal == "lease_expired":
            facts.of_job(tx, job, "lease_expired", attempt=ending.attempt, owner=job.lease_owner)
        case _ if decision.journal in ("released", "away"):
            facts.of_job(tx, job, "job_released", attempt=ending.attempt, reason=decision.note)
        case _:
            facts.of_job(tx, job, "job_retry_scheduled", attempt=ending.attempt, delay_s=ending.due_in_s, **error)


# -- the turn of such a job --------------------------------------------------------------------------------------------


def _move_turn(tx: Tx, program: Program, turn: Turn, job: Job, outcome: Outcome, decision: Decision) -> None:
    if job.tool == PLAN:
        _move_planning(tx, program, turn, job, outcome, decision)
        return
    item = None if job.item_id is None else plans.get(tx, RowKey(job.tenant_id, job.item_id))
    if item is None:
        return
    give_back_unused(tx, job, decision.ending.status)
    _move_item(tx, turn, job, item, outcome, decision)
    if not is_terminal(turn.status):
        judge(tx, program, turn)


def _move_planning(tx: Tx, program: Program, turn: Turn, job: Job, outcome: Outcome, decision: Decision) -> None:
    ending = decision.ending
    if is_terminal(turn.status) or ending.status == JobStatus.QUEUED:
        return
    if ending.status == JobStatus.COMPLETED and isinstance(outcome, Planned):
        accepted = plan.accept(tx, program, turn, job.round or 1, outcome)
        if accepted.final is not None:
            end(tx, program, turn, TurnStatus.COMPLETED, output=accepted.final.output)
        return
    if ending.status == JobStatus.CANCELLED:
        end(tx, program, turn, TurnStatus.CANCELLED)
        return
    end(tx, program, turn, TurnStatus.FAILED, error_code=ending.error_code, error_text=ending.error_text)


def _move_item(tx: Tx, turn: Turn, job: Job, item: PlanItem, outcome: Outcome, decision: Decision) -> None:
    ending = decision.ending
    match ending.status:
        case JobStatus.COMPLETED:
            output = json.loads(ending.output or "null")
            plans.change(tx, item.key, ItemStatus.COMPLETED, output=output)
        case JobStatus.QUEUED:
            plans.change(tx, item.key, ItemStatus.QUEUED)
        case JobStatus.CANCELLED:
            cancel_item(tx, turn, item, ending.error_text)
        case _:
            fail_item(tx, turn, item, ending.error_code or "failed", ending.error_text)


def _record_output(tx: Tx, job: Job) -> None:
    """What a job that writes a slot published last is its project's latest output."""
    if job.slot_key is None or job.project_id is None:
        return
    published = artifacts.of_job(tx, job.key)
    if published:
        projects.set_latest_output(tx, RowKey(job.tenant_id, job.project_id), published[-1].artifact_id)


def cancel_item(tx: Tx, turn: Turn, item: PlanItem, text: str | None) -> None:
    """The item of a cancelled job. While its turn goes on, the turn cannot: it needed the step, unless optional."""
    if is_terminal(turn.status):
        plans.change(tx, item.key, ItemStatus.CANCELLED, error_code="cancelled", error_text=text)
        facts.of_item(tx, turn, item, "item_cancelled", code="cancelled")
    elif item.optional:
        skip_item(tx, turn, item, "job_cancelled", text)
    else:
        fail_item(tx, turn, item, "job_cancelled", text)


def give_back_unused(tx: Tx, job: Job, status: JobStatus) -> None:
    """A use that no attempt ever began with goes back to its grant when the job ends."""
    if job.grant_id is not None and job.started_at is None and is_terminal(status):
        approvals.spend(tx, RowKey(job.tenant_id, job.grant_id), -1)


# -- those that do not hold their job any more -------------------------------------------------------------------------

_OWN = frozenset({"retry", "failed", "timed_out", "released", "away", "cancelled"})


def _judge_late(tx: Tx, owner: str, late: Sequence[Settlement]) -> Settled:
    """One's own settlement is found again by token, in the row or the journal; all else is rejected and recorded."""
    pairs = [each.lease.held for each in late]
    written = journal.outcomes(tx, pairs)
    rows = endings.status_under(tx, pairs)
    settled = Settled()
    for each in late:
        held = each.lease.held
        if _is_own(tx, each, rows.get(held), written.get(held, set())):
            settled.accepted.add(held)
            continue
        settled.rejected.add(held)
        if not isinstance(each.outcome, Released):
            _record_rejection(tx, owner, each, written.get(held, set()))
    return settled


def _is_own(tx: Tx, late: Settlement, status: JobStatus | None, written: set[str]) -> bool:
    """Rescue and the return of a process that was away write the journal too: a result is one's own by its hash."""
    match late.outcome:
        case Completed() | Planned():
            if status == JobStatus.COMPLETED:
                return True
            entries = journal.of_job(tx, RowKey(late.lease.tenant_id, late.lease.job_id)) if written else []
            digest = facts.sha256(late.outcome.output)
            token = late.lease.fencing_token
            return any((e.fencing_token, e.outcome, e.result_sha256) == (token, "cancelled", digest) for e in entries)
        case _:
            return bool(written & _OWN)


def _record_rejection(tx: Tx, owner: str, late: Settlement, written: set[str]) -> None:
    if "result_rejected" in written:
        return
    lease, result, digest = late.lease, None, None
    code, text = "ownership_lost", "the lease had ended when the result came"
    if isinstance(late.outcome, (Completed, Planned)):
        result, digest = sanitize(json.loads(late.outcome.output)), facts.sha256(late.outcome.output)
    elif isinstance(late.outcome, Failed):
        code, text = late.outcome.code, late.outcome.text
    entry = Entry(
        lease.held, "result_rejected", owner, lease.attempt, code, None, text, result=result, result_sha256=digest
    )
    journal.write(tx, [entry])
    facts.of_rejected(tx, lease, owner, digest)
