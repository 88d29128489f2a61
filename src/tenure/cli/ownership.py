"""Who held a job, under which token, from when to when, and what became of it: from its row, journal and stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tenure.records import Job, JobAttempt


class Saved(Protocol):
    """What the timeline needs of a stage."""

    @property
    def name(self) -> str: ...
    @property
    def part(self) -> str: ...
    @property
    def fencing_token(self) -> int: ...
    @property
    def started_at(self) -> datetime: ...
    @property
    def finished_at(self) -> datetime | None: ...


@dataclass(frozen=True, slots=True)
class Holding:
    """One attempt: a worker that held a job under a token. `stages` are those that it saved."""

    owner: str
    tool: str
    job_id: str
    fencing_token: int
    attempt: int
    claimed_at: datetime | None
    ended_at: datetime | None
    outcome: str
    stages: list[str]
    error_code: str | None = None
    rejected_sha256: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def holdings(job: Job, attempts: Sequence[JobAttempt], stages: Sequence[Saved]) -> list[Holding]:
    """Every attempt of a job in the order of its tokens; a result that came too late stands with its attempt."""
    saved: dict[int, list[str]] = {}
    for stage in sorted(stages, key=lambda stage: (stage.finished_at or stage.started_at, len(stage.part), stage.part)):
        saved.setdefault(stage.fencing_token, []).append(f"{stage.name}#{stage.part}" if stage.part else stage.name)
    rejected = {each.fencing_token: each for each in attempts if each.outcome == "result_rejected"}
    ended = [each for each in attempts if each.outcome != "result_rejected"]
    found = [_of_journal(job, each, saved, rejected) for each in ended]
    known = {each.fencing_token for each in found}
    if job.fencing_token is not None and job.fencing_token not in known:
        found.append(_of_row(job, saved))
        known.add(job.fencing_token)
    found += [_of_journal(job, each, saved, rejected) for token, each in rejected.items() if token not in known]
    return sorted(found, key=lambda holding: holding.fencing_token)


def _of_journal(job: Job, entry: JobAttempt, saved: dict[int, list[str]], rejected: dict[int, JobAttempt]) -> Holding:
    late = rejected.get(entry.fencing_token)
    return Holding(
        owner=entry.owner,
        tool=job.tool,
        job_id=job.job_id,
        fencing_token=entry.fencing_token,
        attempt=entry.attempt,
        claimed_at=entry.claimed_at,
        ended_at=entry.ended_at,
        outcome=entry.outcome,
        stages=saved.get(entry.fencing_token, []),
        error_code=entry.error_code,
        rejected_sha256=None if late is None else late.result_sha256,
    )


def _of_row(job: Job, saved: dict[int, list[str]]) -> Holding:
    """The attempt that the row itself tells of: the one that runs, or the one that completed the job."""
    token = job.fencing_token or 0
    return Holding(
        owner=job.lease_owner or "",
        tool=job.tool,
        job_id=job.job_id,
        fencing_token=token,
        attempt=job.attempt,
        claimed_at=job.claimed_at,
        ended_at=job.finished_at,
        outcome=str(job.status),
        stages=saved.get(token, []),
        error_code=job.error_code,
    )


COLUMNS = ("token", "attempt", "owner", "claimed", "ended", "outcome", "stages", "rejected result")


def as_row(holding: Holding) -> list[Any]:
    """One line of the ownership timeline, under `COLUMNS`."""
    outcome = (
        holding.outcome if holding.error_code in (None, holding.outcome) else f"{holding.outcome}: {holding.error_code}"
    )
    return [
        holding.fencing_token,
        holding.attempt,
        holding.owner,
        holding.claimed_at,
        holding.ended_at,
        outcome,
        spans(holding.stages),
        (holding.rejected_sha256 or "")[:16],
    ]


def spans(stages: Sequence[str]) -> str:
    """Stage names, runs of numbered parts put together: `columns, rows#0–3`."""
    said: list[str] = []
    name, first, last = "", 0, -2
    for stage in stages:
        base, _, part = stage.partition("#")
        if part.isdigit() and base == name and int(part) == last + 1:
            last = int(part)
            said[-1] = f"{base}#{first}–{last}"
            continue
        said.append(stage)
        name, first = base, int(part) if part.isdigit() else 0
        last = first if part.isdigit() else -2
    return ", ".join(said)
