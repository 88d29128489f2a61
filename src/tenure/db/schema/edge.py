"""Tables of the edge: credentials, and what a receiver remembers."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.schema import Column, Index, PrimaryKeyConstraint

from tenure.db.schema.parts import one_of, required, table, tenant
from tenure.db.types import Id, Instant, Json, Key

api_keys = table(
    "api_keys",
    tenant(),
    required("key_id", Id),
    required("key_sha256", sa.Text),
    required("role", sa.Text),
    Column("user_id", Key),
    Column("note", sa.Text),
    required("created_at", Instant),
    Column("expires_at", Instant),
    Column("revoked_at", Instant),
    PrimaryKeyConstraint("tenant_id", "key_id"),
    one_of("role", ["user", "approver", "operator", "worker", "admin"]),
)
Index("api_keys_hash", api_keys.c.key_sha256, unique=True)  # a key of the whole database: it names its tenant

receiver_fences = table(
    "receiver_fences",
    required("resource", Key),
    required("fence", sa.BigInteger),
    Column("busy_until", Instant),
    required("updated_at", Instant),
    PrimaryKeyConstraint("resource"),
)

receiver_requests = table(
    "receiver_requests",
    required("idempotency_key", Key),
    required("operation", Key),
    required("resource", Key),
    required("fence", sa.BigInteger),
    required("body_sha256", sa.Text),
    required("state", sa.Text),
    Column("status_code", sa.Integer),
    Column("answer", Json),
    required("created_at", Instant),
    Column("finished_at", Instant),
    PrimaryKeyConstraint("idempotency_key"),
    one_of("state", ["running", "done", "unknown", "not_done"]),
)
