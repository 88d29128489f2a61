CREATE TABLE api_keys (
    tenant_id TEXT NOT NULL,
    key_id TEXT NOT NULL,
    key_sha256 TEXT NOT NULL,
    role TEXT NOT NULL,
    user_id TEXT,
    note TEXT,
    created_at TEXT NOT NULL,
    expires_at TEXT,
    revoked_at TEXT,
    PRIMARY KEY (tenant_id, key_id),
    CONSTRAINT role_known CHECK (role IN ('user', 'approver', 'operator', 'worker', 'admin'))
);

CREATE UNIQUE INDEX api_keys_hash ON api_keys (key_sha256);

CREATE TABLE artifacts (
    tenant_id TEXT NOT NULL,
    artifact_id TEXT NOT NULL,
    name TEXT NOT NULL,
    media_type TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    sha256 TEXT NOT NULL,
    location TEXT NOT NULL,
    session_id TEXT,
    turn_id TEXT,
    job_id TEXT,
    project_id TEXT,
    user_id TEXT,
    fencing_token BIGINT,
    created_at TEXT NOT NULL,
    PRIMARY KEY (tenant_id, artifact_id),
    CONSTRAINT bytes_not_negative CHECK (bytes >= 0)
);

CREATE INDEX artifacts_of_job ON artifacts (tenant_id, job_id) WHERE job_id IS NOT NULL;

CREATE TABLE job_keys (
    tenant_id TEXT NOT NULL,
    "key" TEXT NOT NULL,
    places INTEGER NOT NULL,
    held_by TEXT,
    reason TEXT,
    held_at TEXT,
    created_at TEXT NOT NULL,
    PRIMARY KEY (tenant_id, "key"),
    CONSTRAINT places_positive CHECK (places >= 1),
    CONSTRAINT held_with_reason CHECK ((held_by IS NULL) = (reason IS NULL) AND (held_by IS NULL) = (held_at IS NULL))
);

CREATE TABLE project_contexts (
    tenant_id TEXT NOT NULL,
    project_id TEXT NOT NULL,
    settings TEXT DEFAULT '{}' NOT NULL,
    settings_version INTEGER DEFAULT 1 NOT NULL,
    latest_output_file_id TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (tenant_id, project_id),
    CONSTRAINT settings_json CHECK (json_valid(settings))
);

CREATE TABLE receiver_fences (
    resource TEXT NOT NULL,
    fence BIGINT NOT NULL,
    busy_until TEXT,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (resource)
);

CREATE TABLE receiver_requests (
    idempotency_key TEXT NOT NULL,
    operation TEXT NOT NULL,
    resource TEXT NOT NULL,
    fence BIGINT NOT NULL,
    body_sha256 TEXT NOT NULL,
    state TEXT NOT NULL,
    status_code INTEGER,
    answer TEXT,
    created_at TEXT NOT NULL,
    finished_at TEXT,
    PRIMARY KEY (idempotency_key),
    CONSTRAINT state_known CHECK (state IN ('running', 'done', 'unknown', 'not_done')),
    CONSTRAINT answer_json CHECK (json_valid(answer))
);

CREATE TABLE session_contexts (
    tenant_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    project_id TEXT,
    user_id TEXT,
    agent_profile TEXT,
    active_turn_id TEXT,
    summary TEXT DEFAULT '' NOT NULL,
    pending_approval TEXT DEFAULT '[]' NOT NULL,
    last_event_seq BIGINT DEFAULT 0 NOT NULL,
    oldest_event_seq BIGINT DEFAULT 1 NOT NULL,
    epoch TEXT NOT NULL,
    context_version INTEGER DEFAULT 1 NOT NULL,
    last_user_text TEXT,
    last_user_at TEXT,
    last_agent_at TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (tenant_id, session_id),
    CONSTRAINT events_counted CHECK (last_event_seq >= 0 AND oldest_event_seq >= 1),
    CONSTRAINT pending_approval_json CHECK (json_valid(pending_approval))
);

CREATE TABLE tenure_meta (
    singleton SMALLINT DEFAULT 1 NOT NULL,
    schema_version INTEGER NOT NULL,
    oldest_program INTEGER NOT NULL,
    database_id TEXT NOT NULL,
    swept_at TEXT NOT NULL,
    PRIMARY KEY (singleton),
    CONSTRAINT one_row CHECK (singleton = 1)
);

CREATE TABLE worker_heartbeats (
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    version TEXT NOT NULL,
    status TEXT NOT NULL,
    tools TEXT NOT NULL,
    slots INTEGER NOT NULL,
    busy INTEGER NOT NULL,
    stuck_threads INTEGER DEFAULT 0 NOT NULL,
    app TEXT,
    started_at TEXT NOT NULL,
    beat_at TEXT NOT NULL,
    PRIMARY KEY (owner),
    CONSTRAINT status_known CHECK (status IN ('running', 'draining', 'stopped')),
    CONSTRAINT tools_json CHECK (json_valid(tools))
);

CREATE TABLE agent_events (
    tenant_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    event_seq BIGINT NOT NULL,
    type TEXT NOT NULL,
    turn_id TEXT,
    item_id TEXT,
    job_id TEXT,
    approval_id TEXT,
    grant_id TEXT,
    fencing_token BIGINT,
    payload TEXT NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (tenant_id, session_id, event_seq),
    FOREIGN KEY(tenant_id, session_id) REFERENCES session_contexts (tenant_id, session_id),
    CONSTRAINT counted_from_one CHECK (event_seq >= 1),
    CONSTRAINT payload_json CHECK (json_valid(payload))
);

CREATE TABLE agent_turns (
    tenant_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    status TEXT NOT NULL,
    input TEXT,
    command TEXT,
    profile TEXT,
    steps TEXT,
    project_id TEXT,
    user_id TEXT,
    round INTEGER DEFAULT 0 NOT NULL,
    output TEXT,
    error_code TEXT,
    error_text TEXT,
    usage TEXT,
    idempotency_key TEXT,
    request_digest TEXT,
    traceparent TEXT,
    created_at TEXT NOT NULL,
    started_at TEXT,
    finished_at TEXT,
    PRIMARY KEY (tenant_id, turn_id),
    FOREIGN KEY(tenant_id, session_id) REFERENCES session_contexts (tenant_id, session_id),
    CONSTRAINT status_known CHECK (status IN ('created', 'planning', 'awaiting_approval', 'running', 'completed', 'failed', 'cancelled')),
    CONSTRAINT finished_when_terminal CHECK ((status IN ('completed', 'failed', 'cancelled')) = (finished_at IS NOT NULL)),
    CONSTRAINT started_when_open CHECK (status IN ('created', 'cancelled', 'failed') OR started_at IS NOT NULL),
    CONSTRAINT failed_with_code CHECK ((status = 'failed') = (error_code IS NOT NULL)),
    CONSTRAINT key_with_digest CHECK ((idempotency_key IS NULL) = (request_digest IS NULL)),
    CONSTRAINT input_json CHECK (json_valid(input)),
    CONSTRAINT steps_json CHECK (json_valid(steps)),
    CONSTRAINT output_json CHECK (json_valid(output)),
    CONSTRAINT usage_json CHECK (json_valid(usage))
);

CREATE UNIQUE INDEX agent_turns_idempotency ON agent_turns (tenant_id, session_id, idempotency_key) WHERE idempotency_key IS NOT NULL;

CREATE INDEX agent_turns_of_session ON agent_turns (tenant_id, session_id, turn_id);

CREATE INDEX agent_turns_open ON agent_turns (tenant_id, session_id, turn_id) WHERE finished_at IS NULL;

CREATE TABLE conversation_messages (
    tenant_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    position BIGINT NOT NULL,
    turn_id TEXT NOT NULL,
    round INTEGER NOT NULL,
    role TEXT NOT NULL,
    content TEXT NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (tenant_id, session_id, position),
    FOREIGN KEY(tenant_id, session_id) REFERENCES session_contexts (tenant_id, session_id),
    CONSTRAINT role_known CHECK (role IN ('system', 'user', 'assistant', 'tool')),
    CONSTRAINT content_json CHECK (json_valid(content))
);

CREATE TABLE event_cursors (
    tenant_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    turn TEXT DEFAULT '' NOT NULL,
    consumer TEXT NOT NULL,
    epoch TEXT NOT NULL,
    event_seq BIGINT NOT NULL,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (tenant_id, session_id, turn, consumer),
    FOREIGN KEY(tenant_id, session_id) REFERENCES session_contexts (tenant_id, session_id),
    CONSTRAINT counted_from_zero CHECK (event_seq >= 0)
);

CREATE TABLE agent_plan_items (
    tenant_id TEXT NOT NULL,
    item_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    round INTEGER NOT NULL,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    tool TEXT NOT NULL,
    mode TEXT NOT NULL,
    status TEXT NOT NULL,
    arguments TEXT NOT NULL,
    final_arguments TEXT,
    digest TEXT,
    depends_on TEXT DEFAULT '[]' NOT NULL,
    optional BOOLEAN DEFAULT false NOT NULL,
    approval_id TEXT,
    grant_id TEXT,
    job_id TEXT,
    output TEXT,
    error_code TEXT,
    error_text TEXT,
    created_at TEXT NOT NULL,
    finished_at TEXT,
    PRIMARY KEY (tenant_id, item_id),
    FOREIGN KEY(tenant_id, turn_id) REFERENCES agent_turns (tenant_id, turn_id),
    CONSTRAINT status_known CHECK (status IN ('pending', 'awaiting_approval', 'queued', 'running', 'completed', 'failed', 'skipped', 'cancelled')),
    CONSTRAINT finished_when_terminal CHECK ((status IN ('completed', 'failed', 'skipped', 'cancelled')) = (finished_at IS NOT NULL)),
    CONSTRAINT final_with_digest CHECK ((final_arguments IS NULL) = (digest IS NULL)),
    CONSTRAINT job_when_queued CHECK (status NOT IN ('queued', 'running', 'completed') OR job_id IS NOT NULL),
    CONSTRAINT asked_with_approval CHECK (status <> 'awaiting_approval' OR approval_id IS NOT NULL),
    CONSTRAINT arguments_json CHECK (json_valid(arguments)),
    CONSTRAINT final_arguments_json CHECK (json_valid(final_arguments)),
    CONSTRAINT depends_on_json CHECK (json_valid(depends_on)),
    CONSTRAINT output_json CHECK (json_valid(output))
);

CREATE UNIQUE INDEX agent_plan_items_name ON agent_plan_items (tenant_id, turn_id, name);

CREATE INDEX agent_plan_items_pending ON agent_plan_items (tenant_id, item_id) WHERE status = 'pending';

CREATE UNIQUE INDEX agent_plan_items_place ON agent_plan_items (tenant_id, turn_id, round, position);

CREATE TABLE approval_requests (
    tenant_id TEXT NOT NULL,
    approval_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    project_id TEXT,
    items TEXT NOT NULL,
    tools TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT,
    expires_at TEXT NOT NULL,
    on_expiry TEXT DEFAULT 'fail' NOT NULL,
    scope TEXT,
    decided_by TEXT,
    decided_from TEXT,
    decided_reason TEXT,
    decided_at TEXT,
    created_at TEXT NOT NULL,
    PRIMARY KEY (tenant_id, approval_id),
    FOREIGN KEY(tenant_id, turn_id) REFERENCES agent_turns (tenant_id, turn_id),
    CONSTRAINT status_known CHECK (status IN ('pending', 'approved', 'denied', 'expired', 'voided')),
    CONSTRAINT on_expiry_known CHECK (on_expiry IN ('skip', 'fail')),
    CONSTRAINT decided_when_settled CHECK ((status = 'pending') = (decided_at IS NULL)),
    CONSTRAINT decided_by_someone CHECK (status NOT IN ('approved', 'denied') OR decided_by IS NOT NULL),
    CONSTRAINT items_json CHECK (json_valid(items)),
    CONSTRAINT tools_json CHECK (json_valid(tools)),
    CONSTRAINT scope_json CHECK (json_valid(scope))
);

CREATE INDEX approval_requests_of_turn ON approval_requests (tenant_id, turn_id);

CREATE INDEX approval_requests_pending ON approval_requests (tenant_id, session_id, approval_id) WHERE status = 'pending';

CREATE TABLE background_jobs (
    tenant_id TEXT NOT NULL,
    job_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    status TEXT NOT NULL,
    input TEXT NOT NULL,
    output TEXT,
    session_id TEXT,
    turn_id TEXT,
    item_id TEXT,
    round INTEGER,
    position INTEGER,
    project_id TEXT,
    user_id TEXT,
    grant_id TEXT,
    digest TEXT,
    claim_at TEXT NOT NULL,
    priority SMALLINT DEFAULT 0 NOT NULL,
    blocked_by TEXT,
    limit_key TEXT,
    user_limit_key TEXT,
    slot_key TEXT,
    slot_held_at TEXT,
    attempt INTEGER DEFAULT 0 NOT NULL,
    max_attempts INTEGER NOT NULL,
    refunds INTEGER DEFAULT 0 NOT NULL,
    fence_conflicts INTEGER DEFAULT 0 NOT NULL,
    max_runtime_s FLOAT NOT NULL,
    lease_owner TEXT,
    fencing_token BIGINT,
    lease_s FLOAT,
    lease_expires_at TEXT,
    claimed_at TEXT,
    first_claimed_at TEXT,
    started_at TEXT,
    progress TEXT,
    progress_seq INTEGER DEFAULT 0 NOT NULL,
    cancel_requested_at TEXT,
    cancel_requested_by TEXT,
    error_code TEXT,
    error_kind TEXT,
    error_text TEXT,
    idempotency_key TEXT,
    request_digest TEXT,
    traceparent TEXT,
    created_at TEXT NOT NULL,
    finished_at TEXT,
    PRIMARY KEY (tenant_id, job_id),
    FOREIGN KEY(tenant_id, turn_id) REFERENCES agent_turns (tenant_id, turn_id),
    CONSTRAINT status_known CHECK (status IN ('queued', 'running', 'completed', 'failed', 'cancelled')),
    CONSTRAINT finished_when_terminal CHECK ((status IN ('completed', 'failed', 'cancelled')) = (finished_at IS NOT NULL)),
    CONSTRAINT leased_when_running CHECK ((status = 'running') = (lease_expires_at IS NOT NULL) AND (status <> 'running' OR (lease_owner IS NOT NULL AND fencing_token >= 1 AND coalesce(lease_s, 0) > 0 AND first_claimed_at IS NOT NULL))),
    CONSTRAINT owner_with_token CHECK ((lease_owner IS NULL) = (fencing_token IS NULL)),
    CONSTRAINT blocked_when_queued CHECK (blocked_by IS NULL OR status = 'queued'),
    CONSTRAINT slot_held_while_live CHECK (slot_held_at IS NULL OR (slot_key IS NOT NULL AND finished_at IS NULL)),
    CONSTRAINT failed_with_code CHECK (status <> 'failed' OR error_code IS NOT NULL),
    CONSTRAINT output_when_completed CHECK (output IS NULL OR status = 'completed'),
    CONSTRAINT attempts_counted CHECK (attempt >= 0 AND max_attempts >= 1 AND refunds >= 0 AND attempt <= max_attempts),
    CONSTRAINT of_session_with_turn CHECK ((session_id IS NULL) = (turn_id IS NULL)),
    CONSTRAINT place_with_turn CHECK ((turn_id IS NULL) = (round IS NULL) AND (turn_id IS NULL) = (position IS NULL)),
    CONSTRAINT priority_range CHECK (priority BETWEEN 0 AND 10),
    CONSTRAINT key_with_digest CHECK ((idempotency_key IS NULL) = (request_digest IS NULL)),
    CONSTRAINT input_json CHECK (json_valid(input)),
    CONSTRAINT output_json CHECK (json_valid(output)),
    CONSTRAINT progress_json CHECK (json_valid(progress))
);

CREATE INDEX background_jobs_blocked ON background_jobs (blocked_by, claim_at, job_id) WHERE blocked_by IS NOT NULL;

CREATE INDEX background_jobs_claim ON background_jobs (tool, claim_at, job_id) WHERE status = 'queued' AND blocked_by IS NULL;

CREATE UNIQUE INDEX background_jobs_idempotency ON background_jobs (tenant_id, idempotency_key) WHERE idempotency_key IS NOT NULL;

CREATE INDEX background_jobs_limit ON background_jobs (limit_key) WHERE limit_key IS NOT NULL AND blocked_by IS NULL AND status IN ('queued', 'running');

CREATE UNIQUE INDEX background_jobs_of_turn ON background_jobs (tenant_id, turn_id, round, position) WHERE turn_id IS NOT NULL;

CREATE INDEX background_jobs_running ON background_jobs (lease_owner, tenant_id, job_id) WHERE status = 'running';

CREATE INDEX background_jobs_slot ON background_jobs (slot_key, tenant_id) WHERE slot_held_at IS NOT NULL;

CREATE INDEX background_jobs_user_limit ON background_jobs (user_limit_key) WHERE user_limit_key IS NOT NULL AND blocked_by IS NULL AND status IN ('queued', 'running');

CREATE TABLE approval_grants (
    tenant_id TEXT NOT NULL,
    grant_id TEXT NOT NULL,
    approval_id TEXT NOT NULL,
    item_id TEXT,
    session_id TEXT,
    project_id TEXT,
    tool TEXT NOT NULL,
    mode TEXT NOT NULL,
    digest TEXT,
    scope TEXT,
    uses_left INTEGER,
    expires_at TEXT,
    granted_by TEXT NOT NULL,
    created_at TEXT NOT NULL,
    revoked_at TEXT,
    revoked_by TEXT,
    PRIMARY KEY (tenant_id, grant_id),
    FOREIGN KEY(tenant_id, approval_id) REFERENCES approval_requests (tenant_id, approval_id),
    CONSTRAINT digest_or_scope CHECK ((digest IS NULL) <> (scope IS NULL)),
    CONSTRAINT uses_not_negative CHECK (uses_left >= 0),
    CONSTRAINT revoked_by_someone CHECK ((revoked_at IS NULL) = (revoked_by IS NULL)),
    CONSTRAINT scope_json CHECK (json_valid(scope))
);

CREATE INDEX approval_grants_live ON approval_grants (tenant_id, tool, session_id) WHERE revoked_at IS NULL;

CREATE INDEX approval_grants_of_approval ON approval_grants (tenant_id, approval_id);

CREATE TABLE job_attempts (
    tenant_id TEXT NOT NULL,
    job_id TEXT NOT NULL,
    fencing_token BIGINT NOT NULL,
    outcome TEXT NOT NULL,
    owner TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    claimed_at TEXT,
    ended_at TEXT NOT NULL,
    error_code TEXT,
    error_kind TEXT,
    error_text TEXT,
    result TEXT,
    result_sha256 TEXT,
    note TEXT,
    PRIMARY KEY (tenant_id, job_id, fencing_token, outcome),
    FOREIGN KEY(tenant_id, job_id) REFERENCES background_jobs (tenant_id, job_id),
    CONSTRAINT outcome_known CHECK (outcome IN ('retry', 'failed', 'timed_out', 'lease_expired', 'released', 'away', 'cancelled', 'result_rejected')),
    CONSTRAINT result_json CHECK (json_valid(result))
);

CREATE TABLE job_stages (
    tenant_id TEXT NOT NULL,
    job_id TEXT NOT NULL,
    name TEXT NOT NULL,
    part TEXT DEFAULT '' NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    fencing_token BIGINT NOT NULL,
    digest TEXT NOT NULL,
    effect_key TEXT,
    resource TEXT,
    repeat TEXT,
    external_id TEXT,
    answer TEXT,
    error_code TEXT,
    error_text TEXT,
    settled_by TEXT,
    settled_reason TEXT,
    started_at TEXT NOT NULL,
    finished_at TEXT,
    PRIMARY KEY (tenant_id, job_id, name, part),
    FOREIGN KEY(tenant_id, job_id) REFERENCES background_jobs (tenant_id, job_id),
    CONSTRAINT kind_known CHECK (kind IN ('stage', 'effect')),
    CONSTRAINT state_known CHECK (state IN ('started', 'done', 'unknown', 'not_done')),
    CONSTRAINT effect_with_key CHECK ((kind = 'effect') = (effect_key IS NOT NULL)),
    CONSTRAINT stage_is_done CHECK (kind = 'effect' OR state = 'done'),
    CONSTRAINT settled_with_reason CHECK ((settled_by IS NULL) = (settled_reason IS NULL)),
    CONSTRAINT answer_json CHECK (json_valid(answer))
);

CREATE INDEX job_stages_open_effects ON job_stages (tenant_id, job_id) WHERE kind = 'effect' AND state IN ('started', 'unknown');

CREATE TABLE fencing_token_counter (
    singleton SMALLINT DEFAULT 1 NOT NULL,
    last BIGINT DEFAULT 0 NOT NULL,
    PRIMARY KEY (singleton),
    CONSTRAINT one_row CHECK (singleton = 1)
);

