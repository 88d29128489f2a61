"""Tables of the agent: sessions, projects, turns, plan items, approvals and grants."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.schema import Column, Index, PrimaryKeyConstraint

from tenure.db.schema.parts import check, one_of, partial, refers, required, table, tenant
from tenure.db.types import Id, Instant, Json, Key, Word
from tenure.states import ApprovalStatus, ItemStatus, TurnStatus

session_contexts = table(
    "session_contexts",
    tenant(),
    required("session_id", Key),
    Column("project_id", Key),
    Column("user_id", Key),
    Column("agent_profile", sa.Text),
    Column("active_turn_id", Id),
    required("summary", sa.Text, "''"),
    required("pending_approval", Json, "'[]'"),
    required("last_event_seq", sa.BigInteger, "0"),
    required("oldest_event_seq", sa.BigInteger, "1"),
    required("epoch", Id),
    required("context_version", sa.Integer, "1"),
    Column("last_user_text", sa.Text),
    Column("last_user_at", Instant),
    Column("last_agent_at", Instant),
    required("created_at", Instant),
    required("updated_at", Instant),
    PrimaryKeyConstraint("tenant_id", "session_id"),
    check("events_counted", "last_event_seq >= 0 AND oldest_event_seq >= 1"),
)

project_contexts = table(
    "project_contexts",
    tenant(),
    required("project_id", Key),
    required("settings", Json, "'{}'"),
    required("settings_version", sa.Integer, "1"),
    Column("latest_output_file_id", Id),
    required("created_at", Instant),
    required("updated_at", Instant),
    PrimaryKeyConstraint("tenant_id", "project_id"),
)

agent_turns = table(
    "agent_turns",
    tenant(),
    required("turn_id", Id),
    required("session_id", Key),
    required("status", Word(TurnStatus)),
    Column("input", Json),
    Column("command", sa.Text),
    Column("profile", sa.Text),
    Column("steps", Json),
    Column("project_id", Key),
    Column("user_id", Key),
    required("round", sa.Integer, "0"),
    Column("output", Json),
    Column("error_code", sa.Text),
    Column("error_text", sa.Text),
    Column("usage", Json),
    Column("idempotency_key", Key),
    Column("request_digest", sa.Text),
    Column("traceparent", sa.Text),
    required("created_at", Instant),
    Column("started_at", Instant),
    Column("finished_at", Instant),
    PrimaryKeyConstraint("tenant_id", "turn_id"),
    refers(["tenant_id", "session_id"], "session_contexts"),
    one_of("status", TurnStatus),
    check("finished_when_terminal", "(status IN ('completed', 'failed', 'cancelled')) = (finished_at IS NOT NULL)"),
    check("started_when_open", "status IN ('created', 'cancelled', 'failed') OR started_at IS NOT NULL"),
    check("failed_with_code", "(status = 'failed') = (error_code IS NOT NULL)"),
    check("key_with_digest", "(idempotency_key IS NULL) = (request_digest IS NULL)"),
)
partial(
    "agent_turns_idempotency",
    "idempotency_key IS NOT NULL",
    agent_turns.c.tenant_id,
    agent_turns.c.session_id,
    agent_turns.c.idempotency_key,
    unique=True,
)
Index("agent_turns_of_session", agent_turns.c.tenant_id, agent_turns.c.session_id, agent_turns.c.turn_id)
partial(
    "agent_turns_open",
    "finished_at IS NULL",
    agent_turns.c.tenant_id,
    agent_turns.c.session_id,
    agent_turns.c.turn_id,
)

agent_plan_items = table(
    "agent_plan_items",
    tenant(),
    required("item_id", Id),
    required("turn_id", Id),
    required("round", sa.Integer),
    required("position", sa.Integer),
    required("name", sa.Text),
    required("tool", sa.Text),
    required("mode", sa.Text),
    required("status", Word(ItemStatus)),
    required("arguments", Json),
    Column("final_arguments", Json),
    Column("digest", sa.Text),
    required("depends_on", Json, "'[]'"),
    required("optional", sa.Boolean, "false"),
    Column("approval_id", Id),
    Column("grant_id", Id),
    Column("job_id", Id),
    Column("output", Json),
    Column("error_code", sa.Text),
    Column("error_text", sa.Text),
    required("created_at", Instant),
    Column("finished_at", Instant),
    PrimaryKeyConstraint("tenant_id", "item_id"),
    refers(["tenant_id", "turn_id"], "agent_turns"),
    one_of("status", ItemStatus),
    check(
        "finished_when_terminal",
        "(status IN ('completed', 'failed', 'skipped', 'cancelled')) = (finished_at IS NOT NULL)",
    ),
    check("final_with_digest", "(final_arguments IS NULL) = (digest IS NULL)"),
    check("job_when_queued", "status NOT IN ('queued', 'running', 'completed') OR job_id IS NOT NULL"),
    check("asked_with_approval", "status <> 'awaiting_approval' OR approval_id IS NOT NULL"),
)
Index(
    "agent_plan_items_place",
    agent_plan_items.c.tenant_id,
    agent_plan_items.c.turn_id,
    agent_plan_items.c.round,
    agent_plan_items.c.position,
    unique=True,
)
Index(
    "agent_plan_items_name",
    agent_plan_items.c.tenant_id,
    agent_plan_items.c.turn_id,
    agent_plan_items.c.name,
    unique=True,
)
partial("agent_plan_items_pending", "status = 'pending'", agent_plan_items.c.tenant_id, agent_plan_items.c.item_id)

approval_requests = table(
    "approval_requests",
    tenant(),
    required("approval_id", Id),
    required("session_id", Key),
    required("turn_id", Id),
    Column("project_id", Key),
    required("items", Json),
    required("tools", Json),
    required("status", Word(ApprovalStatus)),
    Column("reason", sa.Text),
    required("expires_at", Instant),
    required("on_expiry", sa.Text, "'fail'"),
    Column("scope", Json),
    Column("decided_by", sa.Text),
    Column("decided_from", sa.Text),
    Column("decided_reason", sa.Text),
    Column("decided_at", Instant),
    required("created_at", Instant),
    PrimaryKeyConstraint("tenant_id", "approval_id"),
    refers(["tenant_id", "turn_id"], "agent_turns"),
    one_of("status", ApprovalStatus),
    one_of("on_expiry", ["skip", "fail"]),
    check("decided_when_settled", "(status = 'pending') = (decided_at IS NULL)"),
    check("decided_by_someone", "status NOT IN ('approved', 'denied') OR decided_by IS NOT NULL"),
)
partial(
    "approval_requests_pending",
    "status = 'pending'",
    approval_requests.c.tenant_id,
    approval_requests.c.session_id,
    approval_requests.c.approval_id,
)
Index("approval_requests_of_turn", approval_requests.c.tenant_id, approval_requests.c.turn_id)

approval_grants = table(
    "approval_grants",
    tenant(),
    required("grant_id", Id),
    required("approval_id", Id),
    Column("item_id", Id),
    Column("session_id", Key),
    Column("project_id", Key),
    required("tool", sa.Text),
    required("mode", sa.Text),
    Column("digest", sa.Text),
    Column("scope", Json),
    Column("uses_left", sa.Integer),
    Column("expires_at", Instant),
    required("granted_by", sa.Text),
    required("created_at", Instant),
    Column("revoked_at", Instant),
    Column("revoked_by", sa.Text),
    PrimaryKeyConstraint("tenant_id", "grant_id"),
    refers(["tenant_id", "approval_id"], "approval_requests"),
    check("digest_or_scope", "(digest IS NULL) <> (scope IS NULL)"),
    check("uses_not_negative", "uses_left >= 0"),
    check("revoked_by_someone", "(revoked_at IS NULL) = (revoked_by IS NULL)"),
)
Index("approval_grants_of_approval", approval_grants.c.tenant_id, approval_grants.c.approval_id)
partial(
    "approval_grants_live",
    "revoked_at IS NULL",
    approval_grants.c.tenant_id,
    approval_grants.c.tool,
    approval_grants.c.session_id,
)
