"""Every table, CHECK and index, once for both databases.

Keys begin with `tenant_id`: it isolates tenants and is the shard key. CHECKs tie a status to its stamps, and partial
unique indexes make a second one impossible where there may be at most one. The schema name is a placeholder that the
engine translates: to the configured schema on PostgreSQL, to nothing on SQLite.
"""

from tenure.db.schema.agent import (
    agent_plan_items,
    agent_turns,
    approval_grants,
    approval_requests,
    project_contexts,
    session_contexts,
)
from tenure.db.schema.database import fencing_token_counter, fencing_token_sequence, tenure_meta, worker_heartbeats
from tenure.db.schema.edge import api_keys, receiver_fences, receiver_requests
from tenure.db.schema.jobs import background_jobs, job_attempts, job_keys, job_stages
from tenure.db.schema.log import agent_events, artifacts, conversation_messages, event_cursors
from tenure.db.schema.parts import SCHEMA, metadata

__all__ = [
    "SCHEMA",
    "agent_events",
    "agent_plan_items",
    "agent_turns",
    "api_keys",
    "approval_grants",
    "approval_requests",
    "artifacts",
    "background_jobs",
    "conversation_messages",
    "event_cursors",
    "fencing_token_counter",
    "fencing_token_sequence",
    "job_attempts",
    "job_keys",
    "job_stages",
    "metadata",
    "project_contexts",
    "receiver_fences",
    "receiver_requests",
    "session_contexts",
    "tenure_meta",
    "worker_heartbeats",
]
