"""6. While an attempt runs: progress, stages and artifacts, each under the holder's predicate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from tenure import canon
from tenure.db.tx import Tx
from tenure.errors import CancelRequested, InvalidInput, OwnershipLost, TerminalError
from tenure.flow import facts
from tenure.flow.program import Program
from tenure.payload import sanitize, sanitize_text
from tenure.records import Artifact, Held, Job, Lease, RowKey, Stage
from tenure.store import artifacts, holding, stages
from tenure.store.artifacts import NewArtifact

NAME = 200


@dataclass(frozen=True, slots=True)
class StagePlace:
    """Names a stage: `part` tells apart the runs of one name."""

    name: str
    part: str = ""

    def __str__(self) -> str:
        return f"{self.name}#{self.part}" if self.part else self.name


def report(program: Program, owner: str, progress: Mapping[Held, tuple[Lease, Any]]) -> set[Held]:
    """Stores the latest progress of many attempts; returns those whose owner still holds them."""
    shown = {held: sanitize(value) for held, (_, value) in progress.items()}
    if all(lease.is_bare for lease, _ in progress.values()):
        return set(program.database.single(lambda tx: holding.report(tx, owner, shown)))

    def body(tx: Tx) -> set[Held]:
        stored = holding.report(tx, owner, shown)
        for held, progress_seq in sorted(stored.items()):
            facts.of_attempt(tx, progress[held][0], "progress", progress_seq=progress_seq, value=shown[held])
        return set(stored)

    return program.database.write(body)


def saved_stages(program: Program, lease: Lease) -> dict[StagePlace, Stage]:
    """What earlier attempts of the job, and this one, have saved."""
    found = program.database.read(lambda tx: stages.of_job(tx, RowKey(lease.tenant_id, lease.job_id)))
    return {StagePlace(stage.name, stage.part): stage for stage in found}


def save_stage(program: Program, owner: str, lease: Lease, place: StagePlace, digest: str, encoded: str) -> float:
    """Saves a finished stage and renews the lease; returns the seconds that it has now.

    OwnershipLost and CancelRequested: nothing was saved.
    """

    def body(tx: Tx) -> float:
        renewal = holding.extend(tx, owner, lease.held)
        if renewal is None:
            raise OwnershipLost(f"stage {place} of job {lease.job_id}: no longer the owner")
        if renewal.cancel_requested:
            raise CancelRequested(f"job {lease.job_id} is to be cancelled")
        if not stages.save(tx, lease.held, place.name, place.part, digest, encoded):
            raise TerminalError(f"stage {place} of job {lease.job_id}: an effect has this name", code="name_taken")
        facts.of_attempt(tx, lease, "stage_saved", stage=str(place), sha256=facts.sha256(encoded))
        return renewal.remaining_s

    return program.database.write(body, lookup=True)


def publish(
    program: Program, owner: str, lease: Lease, name: str, source: bytes | Path | BinaryIO, media_type: str
) -> Artifact:
    """Stores a file and its row. A stale owner publishes nothing: the stored bytes are removed again."""
    check_source(source)
    stored = program.runtime.files.put(source)
    new = NewArtifact(
        tenant_id=lease.tenant_id,
        artifact_id=canon.uuid7(),
        name=safe_name(name),
        media_type=media_type,
        bytes=stored.bytes,
        sha256=stored.sha256,
        location=stored.location,
        session_id=lease.session_id,
        turn_id=lease.turn_id,
        job_id=lease.job_id,
        project_id=lease.project_id,
        user_id=lease.user_id,
        fencing_token=lease.fencing_token,
    )

    def body(tx: Tx) -> Artifact:
        guarded(tx, owner, lease)
        if artifacts.get(tx, RowKey(new.tenant_id, new.artifact_id)) is None:
            artifacts.insert(tx, new)
            facts.of_attempt(
                tx, lease, "artifact_created", artifact_id=new.artifact_id, name=new.name, sha256=new.sha256
            )
        found = artifacts.get(tx, RowKey(new.tenant_id, new.artifact_id))
        assert found is not None
        return found

    try:
        return program.database.write(body, lookup=True)
    except (OwnershipLost, CancelRequested):
        program.runtime.files.remove(stored.location)
        raise


def check_source(source: object) -> None:
    """Refuses what is not a file."""
    if not isinstance(source, (bytes, Path)) and not hasattr(source, "read"):
        wanted = "bytes, a pathlib.Path, or a file opened in binary mode"
        raise InvalidInput(f"source: expected {wanted}, got {type(source).__name__}", field="source")


def guarded(tx: Tx, owner: str, lease: Lease) -> Job:
    """Locks the job under the predicate before anything is written on its behalf. OwnershipLost, CancelRequested."""
    job = holding.guard(tx, owner, [lease.held]).get(lease.held)
    if job is None:
        raise OwnershipLost(f"job {lease.job_id}: no longer the owner")
    if job.cancel_requested_at is not None:
        raise CancelRequested(f"job {lease.job_id} is to be cancelled")
    return job


def safe_name(name: str) -> str:
    """A file name for people; it never becomes a path."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1].strip(". ")
    printable = "".join(character for character in last if character.isprintable())
    return sanitize_text(printable, NAME) or "file"


def put_artifact(
    program: Program,
    name: str,
    source: bytes | Path | BinaryIO,
    media_type: str,
    *,
    tenant_id: str,
    project_id: str | None = None,
    user_id: str | None = None,
) -> Artifact:
    """Stores a file that belongs to no job. InvalidInput for a source that is neither bytes, a path nor a stream."""
    check_source(source)
    stored = program.runtime.files.put(source)
    new = NewArtifact(
        tenant_id=tenant_id,
        artifact_id=canon.uuid7(),
        name=safe_name(name),
        media_type=media_type,
        bytes=stored.bytes,
        sha256=stored.sha256,
        location=stored.location,
        project_id=project_id,
        user_id=user_id,
    )

    def body(tx: Tx) -> Artifact:
        key = RowKey(new.tenant_id, new.artifact_id)
        if artifacts.get(tx, key) is None:
            artifacts.insert(tx, new)
        found = artifacts.get(tx, key)
        assert found is not None
        return found

    return program.database.write(body, lookup=True)
