-- Jobs, finished jobs, workers, queues and keys.
--
-- The schema itself and `schema_migrations` are made by the migrator. No foreign keys lead to jobs: rows move between
-- `jobs` and `history`, and what belongs to a live job is folded into its one history row when it ends.

CREATE TABLE holdfast.meta (
    key text PRIMARY KEY,
    value text NOT NULL
);

-- Tells the ids of this store from those of any other, so that jobs can move between stores.
INSERT INTO holdfast.meta (key, value) VALUES ('store_tag', (floor(random() * 4096))::int::text);

-- Ids are handed out in blocks of 64; see take_ids().
CREATE SEQUENCE holdfast.job_id_seq INCREMENT BY 64 MINVALUE 64 MAXVALUE 281474976710592 NO CYCLE;
-- Positions in lanes, and FIFO numbers.
CREATE SEQUENCE holdfast.position_seq;
CREATE SEQUENCE holdfast.worker_id_seq;

CREATE TABLE holdfast.jobs (
    id bigint PRIMARY KEY,
    kind text NOT NULL,
    queue text NOT NULL,
    priority smallint NOT NULL,
    state text NOT NULL,
    position bigint,
    payload jsonb NOT NULL,
    tags jsonb,
    actor text,
    run_at timestamptz NOT NULL,
    enqueued_at timestamptz NOT NULL,
    enqueued_seq bigint,
    claim integer NOT NULL DEFAULT 0,
    life integer NOT NULL DEFAULT 1,
    attempt integer NOT NULL DEFAULT 0,
    max_attempts integer NOT NULL,
    crashes integer NOT NULL DEFAULT 0,
    max_crashes integer NOT NULL,
    timeout_ms bigint,
    worker bigint,
    claim_batch bigint,
    claimed_at timestamptz,
    started_at timestamptz,
    cancel_requested_at timestamptz,
    announced_at timestamptz,
    unique_key text,
    idempotency_key text,
    limit_key text,
    fifo_key text,
    debounce_key text,
    schedule text,
    fire_time timestamptz,
    parent bigint,
    workflow bigint,
    pending integer,
    origin bigint,
    error_class text,
    error text,
    error_fingerprint text,
    extra jsonb,
    stale_at timestamptz,
    delete_at timestamptz,
    -- A row that another program writes wrongly is refused here, so that no loop ever meets it.
    CONSTRAINT jobs_id CHECK (id BETWEEN 0 AND 1152921504606846975),
    CONSTRAINT jobs_kind CHECK (kind ~ '^[a-z0-9_.:-]{1,64}$'),
    CONSTRAINT jobs_queue CHECK (queue ~ '^[a-z0-9_.:-]{1,64}$'),
    CONSTRAINT jobs_priority CHECK (priority BETWEEN 0 AND 10),
    CONSTRAINT jobs_state CHECK (state IN ('blocked', 'scheduled', 'queued', 'held', 'running')),
    CONSTRAINT jobs_position CHECK (state <> 'queued' OR position IS NOT NULL),
    CONSTRAINT jobs_run_at CHECK (run_at >= '1970-01-01Z' AND run_at < '9999-01-01Z'),
    CONSTRAINT jobs_enqueued_at CHECK (enqueued_at >= '1970-01-01Z' AND enqueued_at < '9999-01-01Z'),
    CONSTRAINT jobs_counts CHECK (
        claim >= 0 AND life >= 1 AND attempt >= 0 AND max_attempts >= 1 AND crashes >= 0 AND max_crashes >= 1
    ),
    CONSTRAINT jobs_timeout CHECK (timeout_ms > 0),
    CONSTRAINT jobs_keys CHECK (
        octet_length(unique_key) <= 512 AND octet_length(idempotency_key) <= 512 AND octet_length(actor) <= 256
    ),
    CONSTRAINT jobs_payload CHECK (jsonb_typeof(payload) = 'object'),
    CONSTRAINT jobs_tags CHECK (
        jsonb_typeof(tags) = 'object' AND NOT jsonb_path_exists(tags, '$.* ? (@.type() != "string")')
    )
) WITH (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05
);

-- What anyone may take now: the only index that a claim reads.
CREATE INDEX jobs_ready ON holdfast.jobs (queue, priority, position) WHERE state = 'queued';
CREATE INDEX jobs_due ON holdfast.jobs (run_at, id) INCLUDE (queue) WHERE state = 'scheduled';
CREATE INDEX jobs_running ON holdfast.jobs (worker, claim_batch) INCLUDE (queue) WHERE state = 'running';
CREATE INDEX jobs_parked ON holdfast.jobs (state, limit_key, enqueued_seq) INCLUDE (queue)
    WHERE state IN ('held', 'blocked');
CREATE INDEX jobs_cancelling ON holdfast.jobs (cancel_requested_at) WHERE cancel_requested_at IS NOT NULL;
CREATE UNIQUE INDEX jobs_unique ON holdfast.jobs (kind, unique_key) WHERE unique_key IS NOT NULL;
CREATE INDEX jobs_listed ON holdfast.jobs (enqueued_at, id);
CREATE INDEX jobs_tags ON holdfast.jobs USING gin (tags jsonb_path_ops) WHERE tags IS NOT NULL;

-- A finished job is one row. Partitioned by the week in which the row may be deleted, so that every partition expires
-- whole, whatever queue or outcome. Ids are unique through the primary key of `jobs` and the move being one statement.
CREATE TABLE holdfast.history (
    LIKE holdfast.jobs,
    finished_at timestamptz NOT NULL,
    result jsonb,
    progress jsonb,
    attempts jsonb,
    CONSTRAINT history_state CHECK (state IN ('completed', 'completed_with_errors', 'failed', 'cancelled'))
) PARTITION BY RANGE (delete_at);
ALTER TABLE holdfast.history ALTER COLUMN delete_at SET NOT NULL;

CREATE INDEX history_id ON holdfast.history (id);
CREATE INDEX history_listed ON holdfast.history (enqueued_at, id);
CREATE INDEX history_tags ON holdfast.history USING gin (tags jsonb_path_ops) WHERE tags IS NOT NULL;
CREATE INDEX history_fingerprint ON holdfast.history (error_fingerprint, enqueued_at, id)
    WHERE error_fingerprint IS NOT NULL;

-- "For ever" is the last instant that every reader can represent.
CREATE TABLE holdfast.history_forever PARTITION OF holdfast.history FOR VALUES FROM ('9999-01-01Z') TO (MAXVALUE);

-- Ended claims of live jobs; folded into history.attempts.
CREATE TABLE holdfast.attempts (
    job_id bigint NOT NULL,
    claim integer NOT NULL,
    attempt integer NOT NULL,
    worker bigint,
    claimed_at timestamptz,
    started_at timestamptz,
    ended_at timestamptz NOT NULL,
    outcome text NOT NULL,
    error_class text,
    error text,
    traceback text,
    PRIMARY KEY (job_id, claim)
);

-- The last report of a running job. `claim` is emptied when the claim ends, so that a late report finds no row.
CREATE TABLE holdfast.progress (
    job_id bigint PRIMARY KEY,
    claim integer,
    percent double precision,
    message text,
    data jsonb,
    updated_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Keys that outlive their job's row. `scope` is '' for idempotency keys, the kind for `unique_for`.
CREATE TABLE holdfast.idempotency (
    scope text NOT NULL,
    key text NOT NULL,
    job_id bigint NOT NULL,
    kind text NOT NULL,
    payload_hash bigint NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (scope, key)
);
CREATE INDEX idempotency_expiry ON holdfast.idempotency (expires_at);

CREATE TABLE holdfast.workers (
    id bigint PRIMARY KEY,
    instance text NOT NULL,
    host text NOT NULL,
    pid bigint NOT NULL,
    boot_id text,
    pid_namespace text,
    process_start bigint,
    version text,
    queues jsonb NOT NULL,
    concurrency integer NOT NULL,
    registered_at timestamptz NOT NULL,
    renewed_at timestamptz NOT NULL,
    lease_until timestamptz NOT NULL,
    dead_at timestamptz
);

CREATE TABLE holdfast.queues (
    name text PRIMARY KEY,
    paused_at timestamptz,
    paused_by text,
    paused_reason text,
    -- Milliseconds that finished jobs are kept, by state; a missing state means the default, null means for ever.
    retention jsonb NOT NULL DEFAULT '{}',
    CONSTRAINT queues_name CHECK (name ~ '^[a-z0-9_.:-]{1,64}$')
);

-- Outcomes and histograms, appended with finish batches. A histogram maps bucket numbers to counts.
CREATE TABLE holdfast.rollups (
    minute timestamptz NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    state text NOT NULL,
    jobs bigint NOT NULL,
    wait jsonb NOT NULL,
    run jsonb NOT NULL
);
CREATE INDEX rollups_minute ON holdfast.rollups (minute);
