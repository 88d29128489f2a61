"""Tables of the database as a whole, without a tenant: identity, schema version, token source, workers."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.schema import Column, PrimaryKeyConstraint

from tenure.db.schema.parts import SCHEMA, check, metadata, one_of, required, table
from tenure.db.types import Id, Instant, Json, Key

tenure_meta = table(
    "tenure_meta",
    required("singleton", sa.SmallInteger, "1"),
    required("schema_version", sa.Integer),
    required("oldest_program", sa.Integer),
    required("database_id", Id),
    required("swept_at", Instant),
    PrimaryKeyConstraint("singleton"),
    check("one_row", "singleton = 1"),
)

# The token source: a sequence on PostgreSQL, one counter row on SQLite (drawn by `tenure.db.tokens`).
fencing_token_sequence = sa.Sequence("fencing_token", metadata=metadata, schema=SCHEMA, start=1, cache=1)
fencing_token_counter = sa.Table(
    "fencing_token_counter",
    sa.MetaData(schema=SCHEMA),  # on SQLite only: PostgreSQL has the sequence
    required("singleton", sa.SmallInteger, "1"),
    required("last", sa.BigInteger, "0"),
    PrimaryKeyConstraint("singleton"),
    check("one_row", "singleton = 1"),
)

worker_heartbeats = table(
    "worker_heartbeats",
    required("owner", Key),
    required("name", sa.Text),
    required("host", sa.Text),
    required("pid", sa.Integer),
    required("version", sa.Text),
    required("status", sa.Text),
    required("tools", Json),
    required("slots", sa.Integer),
    required("busy", sa.Integer),
    required("stuck_threads", sa.Integer, "0"),
    Column("app", sa.Text),
    required("started_at", Instant),
    required("beat_at", Instant),
    PrimaryKeyConstraint("owner"),
    one_of("status", ["running", "draining", "stopped"]),
)
