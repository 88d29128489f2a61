"""Tables of what was recorded: events, cursors, the conversation, artifacts."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.schema import Column, PrimaryKeyConstraint

from tenure.db.schema.parts import check, one_of, partial, refers, required, table, tenant
from tenure.db.types import Id, Instant, Json, Key

agent_events = table(
    "agent_events",
    tenant(),
    required("session_id", Key),
    required("event_seq", sa.BigInteger),
    required("type", sa.Text),
    Column("turn_id", Id),
    Column("item_id", Id),
    Column("job_id", Id),
    Column("approval_id", Id),
    Column("grant_id", Id),
    Column("fencing_token", sa.BigInteger),
    required("payload", Json),
    required("created_at", Instant),
    PrimaryKeyConstraint("tenant_id", "session_id", "event_seq"),
    refers(["tenant_id", "session_id"], "session_contexts"),
    check("counted_from_one", "event_seq >= 1"),
)

event_cursors = table(
    "event_cursors",
    tenant(),
    required("session_id", Key),
    # '' stands for the whole session: a NULL in a unique key is not unique.
    required("turn", Key, "''"),
    required("consumer", Key),
    required("epoch", Id),
    required("event_seq", sa.BigInteger),
    required("updated_at", Instant),
    PrimaryKeyConstraint("tenant_id", "session_id", "turn", "consumer"),
    refers(["tenant_id", "session_id"], "session_contexts"),
    check("counted_from_zero", "event_seq >= 0"),
)

conversation_messages = table(
    "conversation_messages",
    tenant(),
    required("session_id", Key),
    required("position", sa.BigInteger),
    required("turn_id", Id),
    required("round", sa.Integer),
    required("role", sa.Text),
    required("content", Json),
    required("created_at", Instant),
    PrimaryKeyConstraint("tenant_id", "session_id", "position"),
    refers(["tenant_id", "session_id"], "session_contexts"),
    one_of("role", ["system", "user", "assistant", "tool"]),
)

artifacts = table(
    "artifacts",
    tenant(),
    required("artifact_id", Id),
    required("name", sa.Text),
    required("media_type", sa.Text),
    required("bytes", sa.BigInteger),
    required("sha256", sa.Text),
    required("location", sa.Text),
    Column("session_id", Key),
    Column("turn_id", Id),
    Column("job_id", Id),
    Column("project_id", Key),
    Column("user_id", Key),
    Column("fencing_token", sa.BigInteger),
    required("created_at", Instant),
    PrimaryKeyConstraint("tenant_id", "artifact_id"),
    check("bytes_not_negative", "bytes >= 0"),
)
partial("artifacts_of_job", "job_id IS NOT NULL", artifacts.c.tenant_id, artifacts.c.job_id)
