CREATE SCHEMA IF NOT EXISTS "{schema}";

CREATE SEQUENCE "{schema}".fencing_token START WITH 1 CACHE 1;

CREATE TABLE "{schema}".api_keys (
    tenant_id VARCHAR COLLATE "C" NOT NULL,
    key_id UUID NOT NULL,
    key_sha256 TEXT NOT NULL,
    role TEXT NOT NULL,
    user_id VARCHAR COLLATE "C",
    note TEXT,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE,
    revoked_at TIMESTAMP WITH TIME ZONE,
    PRIMARY KEY (tenant_id, key_id),
    CONSTRAINT role_known CHECK (role IN ('user', 'approver', 'operator', 'worker', 'admin'))
);

CREATE UNIQUE INDEX api_keys_hash ON "{schema}".api_keys (key_sha256);

CREATE TABLE "{schema}".artifacts (
    tenant_id VARCHAR COLLATE "C" NOT NULL,
    artifact_id UUID NOT NULL,
    name TEXT NOT NULL,
    media_type TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    sha256 TEXT NOT NULL,
    location TEXT NOT NULL,
    session_id VARCHAR COLLATE "C",
    turn_id UUID,
    job_id UUID,
    project_id VARCHAR COLLATE "C",
    user_id VARCHAR COLLATE "C",
    fencing_token BIGINT,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (tenant_id, artifact_id),
    CONSTRAINT bytes_not_negative CHECK (bytes >= 0)
);

CREATE INDEX artifacts_of_job ON "{schema}".artifacts (tenant_id, job_id) WHERE job_id IS NOT NULL;

CREATE TABLE "{schema}".job_keys (
    tenant_id VARCHAR COLLATE "C" NOT NULL,
    key VARCHAR COLLATE "C" NOT NULL,
    places INTEGER NOT NULL,
    held_by TEXT,
    reason TEXT,
    held_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (tenant_id, key),
    CONSTRAINT places_positive CHECK (places >= 1),
    CONSTRAINT held_with_reason CHECK ((held_by IS NULL) = (reason IS NULL) AND (held_by IS NULL) = (held_at IS NULL))
);

CREATE TABLE "{schema}".project_contexts (
    tenant_id VARCHAR COLLATE "C" NOT NULL,
    project_id VARCHAR COLLATE "C" NOT NULL,
    settings JSON DEFAULT '{}' NOT NULL,
    settings_version INTEGER DEFAULT 1 NOT NULL,
    latest_output_file_id UUID,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (tenant_id, project_id)
);

CREATE TABLE "{schema}".receiver_fences (
    resource VARCHAR COLLATE "C" NOT NULL,
    fence BIGINT NOT NULL,
    busy_until TIMESTAMP WITH TIME ZONE,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (resource)
);

CREATE TABLE "{schema}".receiver_requests (
    idempotency_key VARCHAR COLLATE "C" NOT NULL,
    operation VARCHAR COLLATE "C" NOT NULL,
    resource VARCHAR COLLATE "C" NOT NULL,
    fence BIGINT NOT NULL,
    body_sha256 TEXT NOT NULL,
    state TEXT NOT NULL,
    status_code INTEGER,
    answer JSON,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    finished_at TIMESTAMP WITH TIME ZONE,
    PRIMARY KEY (idempotency_key),
    CONSTRAINT state_known CHECK (state IN ('running', 'done', 'unknown', 'not_done'))
);

CREATE TABLE "{schema}".session_contexts (
    tenant_id VARCHAR COLLATE "C" NOT NULL,
    session_id VARCHAR COLLATE "C" NOT NULL,
    project_id VARCHAR COLLATE "C",
    user_id VARCHAR COLLATE "C",
    agent_profile TEXT,
    active_turn_id UUID,
    summary TEXT DEFAULT '' NOT NULL,
    pending_approval JSON DEFAULT '[]' NOT NULL,
    last_event_seq BIGINT DEFAULT 0 NOT NULL,
    oldest_event_seq BIGINT DEFAULT 1 NOT NULL,
    epoch UUID NOT NULL,
    context_version INTEGER DEFAULT 1 NOT NULL,
    last_user_text TEXT,
    last_user_at TIMESTAMP WITH TIME ZONE,
    last_agent_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (tenant_id, session_id),
    CONSTRAINT events_counted CHECK (last_event_seq >= 0 AND oldest_event_seq >= 1)
);

CREATE TABLE "{schema}".tenure_meta (
    singleton SMALLINT DEFAULT 1 NOT NULL,
    schema_version INTEGER NOT NULL,
    oldest_program INTEGER NOT NULL,
    database_id UUID NOT NULL,
    swept_at TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (singleton),
    CONSTRAINT one_row CHECK (singleton = 1)
);

CREATE TABLE "{schema}".worker_heartbeats (
    owner VARCHAR COLLATE "C" NOT NULL,
    name TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    version TEXT NOT NULL,
    status TEXT NOT NULL,
    tools JSON NOT NULL,
    slots INTEGER NOT NULL,
    busy INTEGER NOT NULL,
    stuck_threads INTEGER DEFAULT 0 NOT NULL,
    app TEXT,
    started_at TIMESTAMP WITH TIME ZONE NOT NULL,
    beat_at TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (owner),
    CONSTRAINT status_known CHECK (status IN ('running', 'draining', 'stopped'))
);

CREATE TABLE "{schema}".agent_events (
    tenant_id VARCHAR COLLATE "C" NOT NULL,
    session_id VARCHAR COLLATE "C" NOT NULL,
    event_seq BIGINT NOT NULL,
    type TEXT NOT NULL,
    turn_id UUID,
    item_id UUID,
    job_id UUID,
    approval_id UUID,
    grant_id UUID,
    fencing_token BIGINT,
    payload JSON NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (tenant_id, session_id, event_seq),
    FOREIGN KEY(tenant_id, session_id) REFERENCES "{schema}".session_contexts (tenant_id, session_id),
    CONSTRAINT counted_from_one CHECK (event_seq >= 1)
);

CREATE TABLE "{schema}".agent_turns (
    tenant_id VARCHAR COLLATE "C" NOT NULL,
    turn_id UUID NOT NULL,
    session_id VARCHAR COLLATE "C" NOT NULL,
    status TEXT NOT NULL,
    input JSON,
    command TEXT,
    profile TEXT,
    steps JSON,
    project_id VARCHAR COLLATE "C",
    user_id VARCHAR COLLATE "C",
    round INTEGER DEFAULT 0 NOT NULL,
    output JSON,
    error_code TEXT,
    error_text TEXT,
    usage JSON,
    idempotency_key VARCHAR COLLATE "C",
    request_digest TEXT,
    traceparent TEXT,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    started_at TIMESTAMP WITH TIME ZONE,
    finished_at TIMESTAMP WITH TIME ZONE,
    PRIMARY KEY (tenant_id, turn_id),
    FOREIGN KEY(tenant_id, session_id) REFERENCES "{schema}".session_contexts (tenant_id, session_id),
    CONSTRAINT status_known CHECK (status IN ('created', 'planning', 'awaiting_approval', 'running', 'completed', 'failed', 'cancelled')),
    CONSTRAINT finished_when_terminal CHECK ((status IN ('completed', 'failed', 'cancelled')) = (finished_at IS NOT NULL)),
    CONSTRAINT started_when_open CHECK (status IN ('created', 'cancelled', 'failed') OR started_at IS NOT NULL),
    CONSTRAINT failed_with_code CHECK ((status = 'failed') = (error_code IS NOT NULL)),
    CONSTRAINT key_with_digest CHECK ((idempotency_key IS NULL) = (request_digest IS NULL))
);

CREATE UNIQUE INDEX agent_turns_idempotency ON "{schema}".agent_turns (tenant_id, session_id, idempotency_key) WHERE idempotency_key IS NOT NULL;

CREATE INDEX agent_turns_of_session ON "{schema}".agent_turns (tenant_id, session_id, turn_id);

CREATE INDEX agent_turns_open ON "{schema}".agent_turns (tenant_id, session_id, turn_id) WHERE finished_at IS NULL;

CREATE TABLE "{schema}".conversation_messages (
    tenant_id VARCHAR COLLATE "C" NOT NULL,
    session_id VARCHAR COLLATE "C" NOT NULL,
    position BIGINT NOT NULL,
    turn_id UUID NOT NULL,
    round INTEGER NOT NULL,
    role TEXT NOT NULL,
    content JSON NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (tenant_id, session_id, position),
    FOREIGN KEY(tenant_id, session_id) REFERENCES "{schema}".session_contexts (tenant_id, session_id),
    CONSTRAINT role_known CHECK (role IN ('system', 'user', 'assistant', 'tool'))
);

CREATE TABLE "{schema}".event_cursors (
    tenant_id VARCHAR COLLATE "C" NOT NULL,
    session_id VARCHAR COLLATE "C" NOT NULL,
    turn VARCHAR COLLATE "C" DEFAULT '' NOT NULL,
    consumer VARCHAR COLLATE "C" NOT NULL,
    epoch UUID NOT NULL,
    event_seq BIGINT NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (tenant_id, session_id, turn, consumer),
    FOREIGN KEY(tenant_id, session_id) REFERENCES "{schema}".session_contexts (tenant_id, session_id),
    CONSTRAINT counted_from_zero CHECK (event_seq >= 0)
);

CREATE TABLE "{schema}".agent_plan_items (
    tenant_id VARCHAR COLLATE "C" NOT NULL,
    item_id UUID NOT NULL,
    turn_id UUID NOT NULL,
    round INTEGER NOT NULL,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    tool TEXT NOT NULL,
    mode TEXT NOT NULL,
    status TEXT NOT NULL,
    arguments JSON NOT NULL,
    final_arguments JSON,
    digest TEXT,
    depends_on JSON DEFAULT '[]' NOT NULL,
    optional BOOLEAN DEFAULT false NOT NULL,
    approval_id UUID,
    grant_id UUID,
    job_id UUID,
    output JSON,
    error_code TEXT,
    error_text TEXT,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    finished_at TIMESTAMP WITH TIME ZONE,
    PRIMARY KEY (tenant_id, item_id),
    FOREIGN KEY(tenant_id, turn_id) REFERENCES "{schema}".agent_turns (tenant_id, turn_id),
    CONSTRAINT status_known CHECK (status IN ('pending', 'awaiting_approval', 'queued', 'running', 'completed', 'failed', 'skipped', 'cancelled')),
    CONSTRAINT finished_when_terminal CHECK ((status IN ('completed', 'failed', 'skipped', 'cancelled')) = (finished_at IS NOT NULL)),
    CONSTRAINT final_with_digest CHECK ((final_arguments IS NULL) = (digest IS NULL)),
    CONSTRAINT job_when_queued CHECK (status NOT IN ('queued', 'running', 'completed') OR job_id IS NOT NULL),
    CONSTRAINT asked_with_approval CHECK (status <> 'awaiting_approval' OR approval_id IS NOT NULL)
);

CREATE UNIQUE INDEX agent_plan_items_name ON "{schema}".agent_plan_items (tenant_id, turn_id, name);

CREATE INDEX agent_plan_items_pending ON "{schema}".agent_plan_items (tenant_id, item_id) WHERE status = 'pending';

CREATE UNIQUE INDEX agent_plan_items_place ON "{schema}".agent_plan_items (tenant_id, turn_id, round, position);

CREATE TABLE "{schema}".approval_requests (
    tenant_id VARCHAR COLLATE "C" NOT NULL,
    approval_id UUID NOT NULL,
    session_id VARCHAR COLLATE "C" NOT NULL,
    turn_id UUID NOT NULL,
    project_id VARCHAR COLLATE "C",
    items JSON NOT NULL,
    tools JSON NOT NULL,
    status TEXT NOT NULL,
    reason TEXT,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    on_expiry TEXT DEFAULT 'fail' NOT NULL,
    scope JSON,
    decided_by TEXT,
    decided_from TEXT,
    decided_reason TEXT,
    decided_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (tenant_id, approval_id),
    FOREIGN KEY(tenant_id, turn_id) REFERENCES "{schema}".agent_turns (tenant_id, turn_id),
    CONSTRAINT status_known CHECK (status IN ('pending', 'approved', 'denied', 'expired', 'voided')),
    CONSTRAINT on_expiry_known CHECK (on_expiry IN ('skip', 'fail')),
    CONSTRAINT decided_when_settled CHECK ((status = 'pending') = (decided_at IS NULL)),
    CONSTRAINT decided_by_someone CHECK (status NOT IN ('approved', 'denied') OR decided_by IS NOT NULL)
);

CREATE INDEX approval_requests_of_turn ON "{schema}".approval_requests (tenant_id, turn_id);

CREATE INDEX approval_requests_pending ON "{schema}".approval_requests (tenant_id, session_id, approval_id) WHERE status = 'pending';

CREATE TABLE "{schema}".background_jobs (
    tenant_id VARCHAR COLLATE "C" NOT NULL,
    job_id UUID NOT NULL,
    tool VARCHAR COLLATE "C" NOT NULL,
    status TEXT NOT NULL,
    input JSON NOT NULL,
    output JSON,
    session_id VARCHAR COLLATE "C",
    turn_id UUID,
    item_id UUID,
    round INTEGER,
    position INTEGER,
    project_id VARCHAR COLLATE "C",
    user_id VARCHAR COLLATE "C",
    grant_id UUID,
    digest TEXT,
    claim_at TIMESTAMP WITH TIME ZONE NOT NULL,
    priority SMALLINT DEFAULT 0 NOT NULL,
    blocked_by VARCHAR COLLATE "C",
    limit_key VARCHAR COLLATE "C",
    user_limit_key VARCHAR COLLATE "C",
    slot_key VARCHAR COLLATE "C",
    slot_held_at TIMESTAMP WITH TIME ZONE,
    attempt INTEGER DEFAULT 0 NOT NULL,
    max_attempts INTEGER NOT NULL,
    refunds INTEGER DEFAULT 0 NOT NULL,
    fence_conflicts INTEGER DEFAULT 0 NOT NULL,
    max_runtime_s FLOAT(53) NOT NULL,
    lease_owner VARCHAR COLLATE "C",
    fencing_token BIGINT,
    lease_s FLOAT(53),
    lease_expires_at TIMESTAMP WITH TIME ZONE,
    claimed_at TIMESTAMP WITH TIME ZONE,
    first_claimed_at TIMESTAMP WITH TIME ZONE,
    started_at TIMESTAMP WITH TIME ZONE,
    progress JSON,
    progress_seq INTEGER DEFAULT 0 NOT NULL,
    cancel_requested_at TIMESTAMP WITH TIME ZONE,
    cancel_requested_by TEXT,
    error_code TEXT,
    error_kind TEXT,
    error_text TEXT,
    idempotency_key VARCHAR COLLATE "C",
    request_digest TEXT,
    traceparent TEXT,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    finished_at TIMESTAMP WITH TIME ZONE,
    PRIMARY KEY (tenant_id, job_id),
    FOREIGN KEY(tenant_id, turn_id) REFERENCES "{schema}".agent_turns (tenant_id, turn_id),
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
    CONSTRAINT key_with_digest CHECK ((idempotency_key IS NULL) = (request_digest IS NULL))
);

CREATE INDEX background_jobs_blocked ON "{schema}".background_jobs (blocked_by, claim_at, job_id) WHERE blocked_by IS NOT NULL;

CREATE INDEX background_jobs_claim ON "{schema}".background_jobs (tool, claim_at, job_id) WHERE status = 'queued' AND blocked_by IS NULL;

CREATE UNIQUE INDEX background_jobs_idempotency ON "{schema}".background_jobs (tenant_id, idempotency_key) WHERE idempotency_key IS NOT NULL;

CREATE INDEX background_jobs_limit ON "{schema}".background_jobs (limit_key) WHERE limit_key IS NOT NULL AND blocked_by IS NULL AND status IN ('queued', 'running');

CREATE UNIQUE INDEX background_jobs_of_turn ON "{schema}".background_jobs (tenant_id, turn_id, round, position) WHERE turn_id IS NOT NULL;

CREATE INDEX background_jobs_running ON "{schema}".background_jobs (lease_owner, tenant_id, job_id) WHERE status = 'running';

CREATE INDEX background_jobs_slot ON "{schema}".background_jobs (slot_key, tenant_id) WHERE slot_held_at IS NOT NULL;

CREATE INDEX background_jobs_user_limit ON "{schema}".background_jobs (user_limit_key) WHERE user_limit_key IS NOT NULL AND blocked_by IS NULL AND status IN ('queued', 'running');

CREATE TABLE "{schema}".approval_grants (
    tenant_id VARCHAR COLLATE "C" NOT NULL,
    grant_id UUID NOT NULL,
    approval_id UUID NOT NULL,
    item_id UUID,
    session_id VARCHAR COLLATE "C",
    project_id VARCHAR COLLATE "C",
    tool TEXT NOT NULL,
    mode TEXT NOT NULL,
    digest TEXT,
    scope JSON,
    uses_left INTEGER,
    expires_at TIMESTAMP WITH TIME ZONE,
    granted_by TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revoked_at TIMESTAMP WITH TIME ZONE,
    revoked_by TEXT,
    PRIMARY KEY (tenant_id, grant_id),
    FOREIGN KEY(tenant_id, approval_id) REFERENCES "{schema}".approval_requests (tenant_id, approval_id),
    CONSTRAINT digest_or_scope CHECK ((digest IS NULL) <> (scope IS NULL)),
    CONSTRAINT uses_not_negative CHECK (uses_left >= 0),
    CONSTRAINT revoked_by_someone CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
);

CREATE INDEX approval_grants_live ON "{schema}".approval_grants (tenant_id, tool, session_id) WHERE revoked_at IS NULL;

CREATE INDEX approval_grants_of_approval ON "{schema}".approval_grants (tenant_id, approval_id);

CREATE TABLE "{schema}".job_attempts (
    tenant_id VARCHAR COLLATE "C" NOT NULL,
    job_id UUID NOT NULL,
    fencing_token BIGINT NOT NULL,
    outcome TEXT NOT NULL,
    owner TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    claimed_at TIMESTAMP WITH TIME ZONE,
    ended_at TIMESTAMP WITH TIME ZONE NOT NULL,
    error_code TEXT,
    error_kind TEXT,
    error_text TEXT,
    result JSON,
    result_sha256 TEXT,
    note TEXT,
    PRIMARY KEY (tenant_id, job_id, fencing_token, outcome),
    FOREIGN KEY(tenant_id, job_id) REFERENCES "{schema}".background_jobs (tenant_id, job_id),
    CONSTRAINT outcome_known CHECK (outcome IN ('retry', 'failed', 'timed_out', 'lease_expired', 'released', 'away', 'cancelled', 'result_rejected'))
);

CREATE TABLE "{schema}".job_stages (
    tenant_id VARCHAR COLLATE "C" NOT NULL,
    job_id UUID NOT NULL,
    name VARCHAR COLLATE "C" NOT NULL,
    part VARCHAR COLLATE "C" DEFAULT '' NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    fencing_token BIGINT NOT NULL,
    digest TEXT NOT NULL,
    effect_key VARCHAR COLLATE "C",
    resource VARCHAR COLLATE "C",
    repeat TEXT,
    external_id TEXT,
    answer JSON,
    error_code TEXT,
    error_text TEXT,
    settled_by TEXT,
    settled_reason TEXT,
    started_at TIMESTAMP WITH TIME ZONE NOT NULL,
    finished_at TIMESTAMP WITH TIME ZONE,
    PRIMARY KEY (tenant_id, job_id, name, part),
    FOREIGN KEY(tenant_id, job_id) REFERENCES "{schema}".background_jobs (tenant_id, job_id),
    CONSTRAINT kind_known CHECK (kind IN ('stage', 'effect')),
    CONSTRAINT state_known CHECK (state IN ('started', 'done', 'unknown', 'not_done')),
    CONSTRAINT effect_with_key CHECK ((kind = 'effect') = (effect_key IS NOT NULL)),
    CONSTRAINT stage_is_done CHECK (kind = 'effect' OR state = 'done'),
    CONSTRAINT settled_with_reason CHECK ((settled_by IS NULL) = (settled_reason IS NULL))
);

CREATE INDEX job_stages_open_effects ON "{schema}".job_stages (tenant_id, job_id) WHERE kind = 'effect' AND state IN ('started', 'unknown');

