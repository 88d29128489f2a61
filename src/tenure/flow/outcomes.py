"""How an attempt ended, as values; and what that makes of the job, as one pure function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

from tenure.leases import refund_granted
from tenure.planner import Final, Steps
from tenure.records import Held, Job
from tenure.states import JobStatus
from tenure.store.endings import Ending

ReleaseReason = Literal["released", "away", "ghost"]


@dataclass(frozen=True, slots=True)
class Completed:
    """The tool returned; `output` is encoded JSON."""

    output: str


@dataclass(frozen=True, slots=True)
class Planned:
    """A planner answered; the answer was validated."""

    answer: Steps | Final
    output: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt failed. `delay_s` until the next one, should there be one; `text` is sanitized."""

    code: str
    text: str
    kind: Literal["retryable", "terminal"]
    delay_s: float = 0.0
    charge: bool = True
    timed_out: bool = False
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Released:
    """Given back unfinished, with refund: by a worker that stops, that was away, or that never knew of the claim."""

    reason: ReleaseReason
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Expired:
    """Nobody renewed the lease: rescue ends the attempt."""


Outcome = Completed | Planned | Failed | Released | Expired


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of the job, and the journal's word for the attempt (None: it completed the job)."""

    ending: Ending
    journal: str | None
    note: str | None = None


def decide(job: Job, outcome: Outcome, runtime_left_s: float) -> Decision:
    """The decision for a locked running job; `runtime_left_s` of its `max_runtime` at the database's now."""
    held = Held(job.tenant_id, job.job_id, job.fencing_token or 0)
    if job.cancel_requested_at is not None:
        ending = _ending(held, job, JobStatus.CANCELLED, code="cancelled", text=_asked(job))
        return Decision(ending, "cancelled")
    match outcome:
        case Completed() | Planned():
            return Decision(_ending(held, job, JobStatus.COMPLETED, output=outcome.output), None)
        case Released():
            word = "away" if outcome.reason == "away" else "released"
            refunded = refund_granted(outcome.reason, job.refunds)
            text = f"given back unfinished, {job.refunds} times with refund"
            failure = Failed(word, text, "retryable", outcome.delay_s)
            return _again(held, job, word, failure, refunded, runtime_left_s, note=outcome.reason)
        case Expired():
            failure = Failed("lease_expired", _lost(job), "retryable")
            return _again(held, job, "lease_expired", failure, False, runtime_left_s)
        case Failed():
            if outcome.kind == "terminal":
                return _failed(held, job, outcome, outcome.code, outcome.text)
            refunded = refund_granted("retry", job.refunds, charge=outcome.charge)
            word = "timed_out" if outcome.timed_out else "retry"
            return _again(held, job, word, outcome, refunded, runtime_left_s, note=outcome.note)
        case _:
            assert_never(outcome)


def _again(
    held: Held, job: Job, word: str, failure: Failed, refunded: bool, runtime_left_s: float, note: str | None = None
) -> Decision:
    """Back to the queue, unless attempts or the runtime are used up."""
    attempt = job.attempt - refunded
    if attempt >= job.max_attempts:
        return _failed(held, job, failure, failure.code, failure.text, word)
    if failure.delay_s >= runtime_left_s:
        text = f"the next attempt would begin beyond max_runtime ({job.max_runtime_s:g}s): {failure.text}".strip()
        return _failed(held, job, failure, "max_runtime_exceeded", text, word)
    is_failure = word not in ("released", "away")
    ending = Ending(
        held,
        JobStatus.QUEUED,
        attempt=attempt,
        refunds=job.refunds + refunded,
        due_in_s=failure.delay_s,
        blocked_by=min(filter(None, (job.limit_key, job.user_limit_key)), default=None),
        error_code=failure.code if is_failure else job.error_code,
        error_kind=failure.kind if is_failure else job.error_kind,
        error_text=failure.text if is_failure else job.error_text,
        fence_conflicts=job.fence_conflicts,
    )
    return Decision(ending, word, note)


def _failed(held: Held, job: Job, failure: Failed, code: str, text: str, word: str | None = None) -> Decision:
    kept = word if word in ("timed_out", "lease_expired") else "failed"
    ending = _ending(held, job, JobStatus.FAILED, code=code, text=text, kind=failure.kind)
    return Decision(ending, kept, failure.note)


def _ending(
    held: Held,
    job: Job,
    status: JobStatus,
    *,
    output: str | None = None,
    code: str | None = None,
    text: str | None = None,
    kind: str | None = None,
) -> Ending:
    return Ending(
        held,
        status,
        attempt=job.attempt,
        refunds=job.refunds,
        output=output,
        error_code=code,
        error_kind=kind,
        error_text=text,
        fence_conflicts=job.fence_conflicts,
    )


def _asked(job: Job) -> str:
    return f"cancelled by {job.cancel_requested_by}"


def _lost(job: Job) -> str:
    return f"worker lost {job.attempt} time{'s' if job.attempt != 1 else ''}: nobody renewed the lease"
