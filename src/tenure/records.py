"""What the store returns: frozen records whose fields are the columns of their tables.

Ids are UUIDv7 as `str`, instants are aware datetimes, `*_s` are seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from tenure.states import ApprovalStatus, ItemStatus, JobStatus, TurnStatus

DEFAULT_TENANT = "default"


class SessionKey(NamedTuple):
    """Names one session; sorts in lock order."""

    tenant_id: str
    session_id: str


class RowKey(NamedTuple):
    """Names one row by tenant and id; sorts in lock order."""

    tenant_id: str
    id: str


class Held(NamedTuple):
    """A job under a fencing token: what a holder names in each of its writes."""

    tenant_id: str
    job_id: str
    fencing_token: int


@dataclass(frozen=True, slots=True)
class Session:
    tenant_id: str
    session_id: str
    project_id: str | None
    user_id: str | None
    agent_profile: str | None
    active_turn_id: str | None
    summary: str
    pending_approval: list[dict[str, Any]]
    last_event_seq: int
    oldest_event_seq: int
    epoch: str
    context_version: int
    last_user_text: str | None
    last_user_at: datetime | None
    last_agent_at: datetime | None
    created_at: datetime
    updated_at: datetime

    @property
    def key(self) -> SessionKey:
        return SessionKey(self.tenant_id, self.session_id)


@dataclass(frozen=True, slots=True)
class Project:
    tenant_id: str
    project_id: str
    settings: dict[str, Any]
    settings_version: int
    latest_output_file_id: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Turn:
    tenant_id: str
    turn_id: str
    session_id: str
    status: TurnStatus
    input: Any
    command: str | None
    profile: str | None
    steps: list[dict[str, Any]] | None
    project_id: str | None
    user_id: str | None
    round: int
    output: Any
    error_code: str | None
    error_text: str | None
    usage: dict[str, Any] | None
    idempotency_key: str | None
    request_digest: str | None
    traceparent: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def key(self) -> RowKey:
        return RowKey(self.tenant_id, self.turn_id)

    @property
    def session(self) -> SessionKey:
        return SessionKey(self.tenant_id, self.session_id)


@dataclass(frozen=True, slots=True)
class PlanItem:
    tenant_id: str
    item_id: str
    turn_id: str
    round: int
    position: int
    name: str
    tool: str
    mode: str
    status: ItemStatus
    arguments: dict[str, Any]
    final_arguments: dict[str, Any] | None
    digest: str | None
    depends_on: list[str]
    optional: bool
    approval_id: str | None
    grant_id: str | None
    job_id: str | None
    output: Any
    error_code: str | None
    error_text: str | None
    created_at: datetime
    finished_at: datetime | None

    @property
    def key(self) -> RowKey:
        return RowKey(self.tenant_id, self.item_id)


@dataclass(frozen=True, slots=True)
class Approval:
    tenant_id: str
    approval_id: str
    session_id: str
    turn_id: str
    project_id: str | None
    items: list[dict[str, Any]]
    tools: list[str]
    status: ApprovalStatus
    reason: str | None
    expires_at: datetime
    on_expiry: str
    scope: dict[str, Any] | None
    decided_by: str | None
    decided_from: str | None
    decided_reason: str | None
    decided_at: datetime | None
    created_at: datetime

    @property
    def session(self) -> SessionKey:
        return SessionKey(self.tenant_id, self.session_id)


@dataclass(frozen=True, slots=True)
class Grant:
    tenant_id: str
    grant_id: str
    approval_id: str
    item_id: str | None
    session_id: str | None
    project_id: str | None
    tool: str
    mode: str
    digest: str | None
    scope: dict[str, Any] | None
    uses_left: int | None
    expires_at: datetime | None
    granted_by: str
    created_at: datetime
    revoked_at: datetime | None
    revoked_by: str | None


@dataclass(frozen=True, slots=True)
class Job:
    tenant_id: str
    job_id: str
    tool: str
    status: JobStatus
    input: dict[str, Any]
    output: Any
    session_id: str | None
    turn_id: str | None
    item_id: str | None
    round: int | None
    position: int | None
    project_id: str | None
    user_id: str | None
    grant_id: str | None
    digest: str | None
    claim_at: datetime
    priority: int
    blocked_by: str | None
    limit_key: str | None
    user_limit_key: str | None
    slot_key: str | None
    slot_held_at: datetime | None
    attempt: int
    max_attempts: int
    refunds: int
    fence_conflicts: int
    max_runtime_s: float
    lease_owner: str | None
    fencing_token: int | None
    lease_s: float | None
    lease_expires_at: datetime | None
    claimed_at: datetime | None
    first_claimed_at: datetime | None
    started_at: datetime | None
    progress: Any
    progress_seq: int
    cancel_requested_at: datetime | None
    cancel_requested_by: str | None
    error_code: str | None
    error_kind: str | None
    error_text: str | None
    idempotency_key: str | None
    request_digest: str | None
    traceparent: str | None
    created_at: datetime
    finished_at: datetime | None

    @property
    def key(self) -> RowKey:
        return RowKey(self.tenant_id, self.job_id)

    @property
    def session(self) -> SessionKey | None:
        """None for a bare job."""
        return None if self.session_id is None else SessionKey(self.tenant_id, self.session_id)

    @property
    def turn(self) -> RowKey | None:
        return None if self.turn_id is None else RowKey(self.tenant_id, self.turn_id)


@dataclass(frozen=True, slots=True)
class NewJob:
    """What a job is made from. `due_in_s` None: due now, moved forward by its priority."""

    tenant_id: str
    job_id: str
    tool: str
    input: dict[str, Any]
    max_attempts: int
    max_runtime_s: float
    session_id: str | None = None
    turn_id: str | None = None
    item_id: str | None = None
    round: int | None = None
    position: int | None = None
    project_id: str | None = None
    user_id: str | None = None
    grant_id: str | None = None
    digest: str | None = None
    due_in_s: float | None = None
    priority: int = 0
    limit_key: str | None = None
    user_limit_key: str | None = None
    slot_key: str | None = None
    idempotency_key: str | None = None
    request_digest: str | None = None
    traceparent: str | None = None

    @property
    def keys(self) -> list[str]:
        """The keys that it must hold beside its lease, in lock order."""
        return sorted(key for key in (self.limit_key, self.user_limit_key, self.slot_key) if key)


@dataclass(frozen=True, slots=True)
class Lease:
    """A claimed job: what its executor needs. `remaining_s` counts from the sending of the claim."""

    tenant_id: str
    job_id: str
    tool: str
    fencing_token: int
    attempt: int
    remaining_s: float
    lease_s: float
    input: dict[str, Any]
    session_id: str | None
    turn_id: str | None
    item_id: str | None
    round: int | None
    project_id: str | None
    user_id: str | None
    grant_id: str | None
    limit_key: str | None
    user_limit_key: str | None
    slot_key: str | None
    max_attempts: int
    refunds: int
    traceparent: str | None

    @property
    def held(self) -> Held:
        return Held(self.tenant_id, self.job_id, self.fencing_token)

    @property
    def is_bare(self) -> bool:
        return self.turn_id is None


@dataclass(frozen=True, slots=True)
class Renewal:
    """A renewed lease: seconds left at the statement, and whether somebody asked to cancel the job."""

    held: Held
    remaining_s: float
    cancel_requested: bool


@dataclass(frozen=True, slots=True)
class JobAttempt:
    """A row of the journal."""

    tenant_id: str
    job_id: str
    fencing_token: int
    outcome: str
    owner: str
    attempt: int
    claimed_at: datetime | None
    ended_at: datetime
    error_code: str | None
    error_kind: str | None
    error_text: str | None
    result: Any
    result_sha256: str | None
    note: str | None


@dataclass(frozen=True, slots=True)
class Stage:
    tenant_id: str
    job_id: str
    name: str
    part: str
    kind: str
    state: str
    fencing_token: int
    digest: str
    effect_key: str | None
    resource: str | None
    repeat: str | None
    external_id: str | None
    answer: Any
    error_code: str | None
    error_text: str | None
    settled_by: str | None
    settled_reason: str | None
    started_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Event:
    tenant_id: str
    session_id: str
    event_seq: int
    type: str
    turn_id: str | None
    item_id: str | None
    job_id: str | None
    approval_id: str | None
    grant_id: str | None
    fencing_token: int | None
    payload: dict[str, Any]
    created_at: datetime


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events strictly after a cursor. `reset`: the cursor is of another epoch or outside the log; read anew."""

    events: list[Event]
    epoch: str
    oldest: int
    last: int
    reset: bool = False


@dataclass(frozen=True, slots=True)
class Artifact:
    tenant_id: str
    artifact_id: str
    name: str
    media_type: str
    bytes: int
    sha256: str
    location: str
    session_id: str | None
    turn_id: str | None
    job_id: str | None
    project_id: str | None
    user_id: str | None
    fencing_token: int | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Worker:
    owner: str
    name: str
    host: str
    pid: int
    version: str
    status: str
    tools: list[str]
    slots: int
    busy: int
    stuck_threads: int
    app: str | None
    started_at: datetime
    beat_at: datetime


@dataclass(frozen=True, slots=True)
class HeldKey:
    """A key with its places and, while a person holds it, by whom and why."""

    tenant_id: str
    key: str
    places: int
    held_by: str | None
    reason: str | None
    held_at: datetime | None
    created_at: datetime
