"""Tables of work: jobs, the keys that they hold, their journal and their stages."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.schema import Column, PrimaryKeyConstraint

from tenure.db.schema.parts import check, one_of, partial, refers, required, table, tenant
from tenure.db.types import Id, Instant, Json, Key, Word
from tenure.states import JobStatus

background_jobs = table(
    "background_jobs",
    tenant(),
    required("job_id", Id),
    required("tool", Key),
    required("status", Word(JobStatus)),
    required("input", Json),
    Column("output", Json),
    # whose it is
    Column("session_id", Key),
    Column("turn_id", Id),
    Column("item_id", Id),
    Column("round", sa.Integer),
    Column("position", sa.Integer),
    Column("project_id", Key),
    Column("user_id", Key),
    Column("grant_id", Id),
    Column("digest", sa.Text),
    # when it may run
    required("claim_at", Instant),
    required("priority", sa.SmallInteger, "0"),
    Column("blocked_by", Key),
    Column("limit_key", Key),
    Column("user_limit_key", Key),
    Column("slot_key", Key),
    Column("slot_held_at", Instant),
    # how often and how long
    required("attempt", sa.Integer, "0"),
    required("max_attempts", sa.Integer),
    required("refunds", sa.Integer, "0"),
    required("fence_conflicts", sa.Integer, "0"),
    required("max_runtime_s", sa.Float(53)),
    # who holds it
    Column("lease_owner", Key),
    Column("fencing_token", sa.BigInteger),
    Column("lease_s", sa.Float(53)),
    Column("lease_expires_at", Instant),
    Column("claimed_at", Instant),
    Column("first_claimed_at", Instant),
    Column("started_at", Instant),
    # what it says of itself
    Column("progress", Json),
    required("progress_seq", sa.Integer, "0"),
    Column("cancel_requested_at", Instant),
    Column("cancel_requested_by", sa.Text),
    Column("error_code", sa.Text),
    Column("error_kind", sa.Text),
    Column("error_text", sa.Text),
    # where it came from
    Column("idempotency_key", Key),
    Column("request_digest", sa.Text),
    Column("traceparent", sa.Text),
    required("created_at", Instant),
    Column("finished_at", Instant),
    PrimaryKeyConstraint("tenant_id", "job_id"),
    refers(["tenant_id", "turn_id"], "agent_turns"),
    one_of("status", JobStatus),
    check("finished_when_terminal", "(status IN ('completed', 'failed', 'cancelled')) = (finished_at IS NOT NULL)"),
    check(
        "leased_when_running",
        "(status = 'running') = (lease_expires_at IS NOT NULL) AND (status <> 'running' OR "
        "(lease_owner IS NOT NULL AND fencing_token >= 1 AND coalesce(lease_s, 0) > 0 "
        "AND first_claimed_at IS NOT NULL))",
    ),
    check("owner_with_token", "(lease_owner IS NULL) = (fencing_token IS NULL)"),
    check("blocked_when_queued", "blocked_by IS NULL OR status = 'queued'"),
    check("slot_held_while_live", "slot_held_at IS NULL OR (slot_key IS NOT NULL AND finished_at IS NULL)"),
    check("failed_with_code", "status <> 'failed' OR error_code IS NOT NULL"),
    check("output_when_completed", "output IS NULL OR status = 'completed'"),
    check("attempts_counted", "attempt >= 0 AND max_attempts >= 1 AND refunds >= 0 AND attempt <= max_attempts"),
    check("of_session_with_turn", "(session_id IS NULL) = (turn_id IS NULL)"),
    check("place_with_turn", "(turn_id IS NULL) = (round IS NULL) AND (turn_id IS NULL) = (position IS NULL)"),
    check("priority_range", "priority BETWEEN 0 AND 10"),
    check("key_with_digest", "(idempotency_key IS NULL) = (request_digest IS NULL)"),
)
_jobs = background_jobs.c
partial("background_jobs_claim", "status = 'queued' AND blocked_by IS NULL", _jobs.tool, _jobs.claim_at, _jobs.job_id)
partial("background_jobs_blocked", "blocked_by IS NOT NULL", _jobs.blocked_by, _jobs.claim_at, _jobs.job_id)
_HOLDING = "blocked_by IS NULL AND status IN ('queued', 'running')"
partial("background_jobs_limit", f"limit_key IS NOT NULL AND {_HOLDING}", _jobs.limit_key)
partial("background_jobs_user_limit", f"user_limit_key IS NOT NULL AND {_HOLDING}", _jobs.user_limit_key)
partial("background_jobs_slot", "slot_held_at IS NOT NULL", _jobs.slot_key, _jobs.tenant_id)
# Without lease_expires_at: a renewal touches no indexed column.
partial("background_jobs_running", "status = 'running'", _jobs.lease_owner, _jobs.tenant_id, _jobs.job_id)
partial(
    "background_jobs_idempotency",
    "idempotency_key IS NOT NULL",
    _jobs.tenant_id,
    _jobs.idempotency_key,
    unique=True,
)
partial(
    "background_jobs_of_turn",
    "turn_id IS NOT NULL",
    _jobs.tenant_id,
    _jobs.turn_id,
    _jobs.round,
    _jobs.position,
    unique=True,
)

job_keys = table(
    "job_keys",
    tenant(),
    required("key", Key),
    required("places", sa.Integer),
    Column("held_by", sa.Text),
    Column("reason", sa.Text),
    Column("held_at", Instant),
    required("created_at", Instant),
    PrimaryKeyConstraint("tenant_id", "key"),
    check("places_positive", "places >= 1"),
    check("held_with_reason", "(held_by IS NULL) = (reason IS NULL) AND (held_by IS NULL) = (held_at IS NULL)"),
)

job_attempts = table(
    "job_attempts",
    tenant(),
    required("job_id", Id),
    required("fencing_token", sa.BigInteger),
    required("outcome", sa.Text),
    required("owner", sa.Text),
    required("attempt", sa.Integer),
    Column("claimed_at", Instant),
    required("ended_at", Instant),
    Column("error_code", sa.Text),
    Column("error_kind", sa.Text),
    Column("error_text", sa.Text),
    Column("result", Json),
    Column("result_sha256", sa.Text),
    Column("note", sa.Text),
    PrimaryKeyConstraint("tenant_id", "job_id", "fencing_token", "outcome"),
    refers(["tenant_id", "job_id"], "background_jobs"),
    one_of(
        "outcome",
        ["retry", "failed", "timed_out", "lease_expired", "released", "away", "cancelled", "result_rejected"],
    ),
)

job_stages = table(
    "job_stages",
    tenant(),
    required("job_id", Id),
    required("name", Key),
    required("part", Key, "''"),
    required("kind", sa.Text),
    required("state", sa.Text),
    required("fencing_token", sa.BigInteger),
    required("digest", sa.Text),
    Column("effect_key", Key),
    Column("resource", Key),
    Column("repeat", sa.Text),
    Column("external_id", sa.Text),
    Column("answer", Json),
    Column("error_code", sa.Text),
    Column("error_text", sa.Text),
    Column("settled_by", sa.Text),
    Column("settled_reason", sa.Text),
    required("started_at", Instant),
    Column("finished_at", Instant),
    PrimaryKeyConstraint("tenant_id", "job_id", "name", "part"),
    refers(["tenant_id", "job_id"], "background_jobs"),
    one_of("kind", ["stage", "effect"]),
    one_of("state", ["started", "done", "unknown", "not_done"]),
    check("effect_with_key", "(kind = 'effect') = (effect_key IS NOT NULL)"),
    check("stage_is_done", "kind = 'effect' OR state = 'done'"),
    check("settled_with_reason", "(settled_by IS NULL) = (settled_reason IS NULL)"),
)
partial(
    "job_stages_open_effects",
    "kind = 'effect' AND state IN ('started', 'unknown')",
    job_stages.c.tenant_id,
    job_stages.c.job_id,
)
