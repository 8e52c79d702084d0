-- Made by scripts/dump_schema.py from an empty database after `migrate up`: review it, never edit it.

CREATE TABLE alarms (
    id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    source text NOT NULL,
    policy text,
    queue text,
    kind text,
    fingerprint text,
    job_id bigint,
    life integer,
    title text,
    details jsonb,
    CONSTRAINT alarms_pkey PRIMARY KEY (id),
    CONSTRAINT alarms_source CHECK ((source = ANY (ARRAY['failed'::text, 'sla'::text, 'budget'::text, 'schedule'::text])))
);

CREATE TABLE attempts (
    job_id bigint NOT NULL,
    claim integer NOT NULL,
    attempt integer NOT NULL,
    worker bigint,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    ended_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    error_class text,
    error text,
    traceback text,
    CONSTRAINT attempts_pkey PRIMARY KEY (job_id, claim)
);

CREATE TABLE audit (
    id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    actor text NOT NULL,
    role text NOT NULL,
    action text NOT NULL,
    target text NOT NULL,
    queue text,
    status integer NOT NULL,
    detail jsonb NOT NULL,
    request text NOT NULL,
    CONSTRAINT audit_pkey PRIMARY KEY (id)
);

CREATE TABLE budget_periods (
    budget text NOT NULL,
    key text NOT NULL,
    starts_at timestamp with time zone NOT NULL,
    ends_at timestamp with time zone NOT NULL,
    spent bigint NOT NULL DEFAULT 0,
    reserved bigint NOT NULL DEFAULT 0,
    lost bigint NOT NULL DEFAULT 0,
    alerts jsonb NOT NULL DEFAULT '[]'::jsonb,
    CONSTRAINT budget_periods_pkey PRIMARY KEY (budget, key, starts_at),
    CONSTRAINT budget_periods_sums CHECK (((spent >= 0) AND (reserved >= 0) AND (lost >= 0)))
) WITH (fillfactor=70);

CREATE TABLE budgets (
    name text NOT NULL,
    definition jsonb NOT NULL,
    unit text NOT NULL,
    ceiling bigint NOT NULL,
    period text NOT NULL,
    tz text NOT NULL,
    queue text,
    kinds text[] NOT NULL,
    path text[] NOT NULL,
    thresholds jsonb NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    CONSTRAINT budgets_ceiling CHECK ((ceiling >= 0)),
    CONSTRAINT budgets_name CHECK ((name ~ '^[a-z0-9_.:-]{1,64}$'::text)),
    CONSTRAINT budgets_pkey PRIMARY KEY (name)
);

CREATE TABLE bulk_runs (
    id bigint NOT NULL,
    key text NOT NULL,
    verb text NOT NULL,
    filter jsonb NOT NULL,
    priority smallint,
    actor text,
    reason text,
    state text NOT NULL DEFAULT 'running'::text,
    expected integer NOT NULL,
    spacing_us bigint NOT NULL,
    step integer NOT NULL DEFAULT 0,
    done bigint NOT NULL DEFAULT 0,
    refused bigint NOT NULL DEFAULT 0,
    cursor_at timestamp with time zone,
    cursor_id bigint,
    started_at timestamp with time zone NOT NULL,
    next_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    errors integer NOT NULL DEFAULT 0,
    failing_since timestamp with time zone,
    error text,
    gave_up boolean NOT NULL DEFAULT false,
    CONSTRAINT bulk_runs_key_key UNIQUE (key),
    CONSTRAINT bulk_runs_pkey PRIMARY KEY (id),
    CONSTRAINT bulk_runs_state CHECK ((state = ANY (ARRAY['running'::text, 'paused'::text, 'cancelled'::text, 'ended'::text]))),
    CONSTRAINT bulk_runs_verb CHECK ((verb = ANY (ARRAY['retry'::text, 'delete'::text, 'cancel'::text, 'reprioritise'::text])))
);

CREATE TABLE dead_letter_queues (
    queue text NOT NULL,
    id text NOT NULL,
    kind text NOT NULL,
    fingerprint text NOT NULL,
    error_class text,
    error text,
    seen bigint NOT NULL,
    first_at timestamp with time zone NOT NULL,
    last_at timestamp with time zone NOT NULL,
    last_job bigint NOT NULL,
    CONSTRAINT dead_letter_queues_pkey PRIMARY KEY (queue, id)
);

CREATE TABLE dead_letters (
    id text NOT NULL,
    kind text NOT NULL,
    fingerprint text NOT NULL,
    queue text NOT NULL,
    error_class text,
    error text,
    seen bigint NOT NULL,
    first_at timestamp with time zone NOT NULL,
    last_at timestamp with time zone NOT NULL,
    last_job bigint NOT NULL,
    CONSTRAINT dead_letters_pkey PRIMARY KEY (id)
);

CREATE TABLE deliveries (
    id bigint NOT NULL,
    job_id bigint NOT NULL,
    life integer NOT NULL,
    event text NOT NULL,
    url text NOT NULL,
    at timestamp with time zone NOT NULL,
    task text NOT NULL,
    queue text NOT NULL,
    status text NOT NULL,
    attempt integer NOT NULL,
    tags jsonb,
    error_class text,
    error text,
    result jsonb,
    result_omitted boolean NOT NULL DEFAULT false,
    state text NOT NULL DEFAULT 'pending'::text,
    tries integer NOT NULL DEFAULT 0,
    next_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    log jsonb NOT NULL DEFAULT '[]'::jsonb,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT deliveries_job_id_life_event_key UNIQUE (job_id, life, event),
    CONSTRAINT deliveries_pkey PRIMARY KEY (id),
    CONSTRAINT deliveries_state CHECK ((state = ANY (ARRAY['pending'::text, 'delivered'::text, 'failed'::text])))
);

CREATE TABLE disabled_endpoints (
    endpoint text NOT NULL,
    disabled_at timestamp with time zone NOT NULL,
    reason text NOT NULL,
    CONSTRAINT disabled_endpoints_pkey PRIMARY KEY (endpoint)
);

CREATE TABLE drains (
    instance text NOT NULL,
    asked_at timestamp with time zone NOT NULL,
    asked_by text,
    CONSTRAINT drains_pkey PRIMARY KEY (instance)
);

CREATE TABLE escalation_policies (
    name text NOT NULL,
    rated_until timestamp with time zone,
    digested_at timestamp with time zone NOT NULL,
    CONSTRAINT escalation_policies_pkey PRIMARY KEY (name)
);

CREATE TABLE escalations (
    id bigint NOT NULL,
    policy text NOT NULL,
    stage text NOT NULL,
    source text NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    fingerprint text NOT NULL,
    title text NOT NULL,
    details jsonb,
    jobs bigint[] NOT NULL DEFAULT '{}'::bigint[],
    count bigint NOT NULL,
    first_at timestamp with time zone NOT NULL,
    last_at timestamp with time zone NOT NULL,
    told_at timestamp with time zone,
    said integer NOT NULL DEFAULT 0,
    digested bigint NOT NULL DEFAULT 0,
    due_at timestamp with time zone,
    snoozed_until timestamp with time zone,
    snoozed_by text,
    acked_at timestamp with time zone,
    acked_by text,
    note text,
    ack_told_at timestamp with time zone,
    closed_at timestamp with time zone,
    resolved_at timestamp with time zone,
    version integer NOT NULL DEFAULT 1,
    CONSTRAINT escalations_pkey PRIMARY KEY (id)
);

CREATE TABLE events (
    seq bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    kind text NOT NULL,
    job_id bigint NOT NULL,
    task text NOT NULL,
    queue text NOT NULL,
    state text,
    life integer NOT NULL,
    claim integer NOT NULL,
    attempt integer NOT NULL,
    data jsonb,
    CONSTRAINT events_pkey PRIMARY KEY (seq)
);

CREATE TABLE failures (
    id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    job_id bigint NOT NULL,
    life integer NOT NULL,
    kind text NOT NULL,
    queue text NOT NULL,
    fingerprint text NOT NULL,
    error_class text,
    error text,
    CONSTRAINT failures_pkey PRIMARY KEY (id)
);

CREATE TABLE fires (
    schedule text NOT NULL,
    nominal timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    job_id bigint,
    note text,
    at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT fires_outcome CHECK ((outcome = ANY (ARRAY['enqueued'::text, 'by_hand'::text, 'overlap'::text, 'missed'::text, 'maintenance'::text]))),
    CONSTRAINT fires_pkey PRIMARY KEY (schedule, nominal)
);

CREATE TABLE gauges (
    queue text NOT NULL,
    priority smallint NOT NULL,
    state text NOT NULL,
    jobs bigint NOT NULL,
    oldest_at timestamp with time zone,
    measured_at timestamp with time zone NOT NULL,
    CONSTRAINT gauges_pkey PRIMARY KEY (queue, priority, state)
);

CREATE TABLE history (
    id bigint NOT NULL,
    kind text NOT NULL,
    queue text NOT NULL,
    priority smallint NOT NULL,
    state text NOT NULL,
    position bigint,
    payload jsonb NOT NULL,
    tags jsonb,
    actor text,
    run_at timestamp with time zone NOT NULL,
    enqueued_at timestamp with time zone NOT NULL,
    enqueued_seq bigint,
    claim integer NOT NULL,
    life integer NOT NULL,
    attempt integer NOT NULL,
    max_attempts integer NOT NULL,
    crashes integer NOT NULL,
    max_crashes integer NOT NULL,
    timeout_ms bigint,
    worker bigint,
    claim_batch bigint,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    announced_at timestamp with time zone,
    unique_key text,
    idempotency_key text,
    limit_key text,
    fifo_key text,
    debounce_key text,
    schedule text,
    fire_time timestamp with time zone,
    parent bigint,
    workflow bigint,
    pending integer,
    origin bigint,
    error_class text,
    error text,
    error_fingerprint text,
    extra jsonb,
    stale_at timestamp with time zone,
    delete_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone NOT NULL,
    result jsonb,
    progress jsonb,
    attempts jsonb,
    phases jsonb,
    items jsonb,
    logs jsonb,
    CONSTRAINT history_state CHECK ((state = ANY (ARRAY['completed'::text, 'completed_with_errors'::text, 'failed'::text, 'cancelled'::text])))
) PARTITION BY RANGE (delete_at);

CREATE TABLE history_forever (
    id bigint NOT NULL,
    kind text NOT NULL,
    queue text NOT NULL,
    priority smallint NOT NULL,
    state text NOT NULL,
    position bigint,
    payload jsonb NOT NULL,
    tags jsonb,
    actor text,
    run_at timestamp with time zone NOT NULL,
    enqueued_at timestamp with time zone NOT NULL,
    enqueued_seq bigint,
    claim integer NOT NULL,
    life integer NOT NULL,
    attempt integer NOT NULL,
    max_attempts integer NOT NULL,
    crashes integer NOT NULL,
    max_crashes integer NOT NULL,
    timeout_ms bigint,
    worker bigint,
    claim_batch bigint,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    announced_at timestamp with time zone,
    unique_key text,
    idempotency_key text,
    limit_key text,
    fifo_key text,
    debounce_key text,
    schedule text,
    fire_time timestamp with time zone,
    parent bigint,
    workflow bigint,
    pending integer,
    origin bigint,
    error_class text,
    error text,
    error_fingerprint text,
    extra jsonb,
    stale_at timestamp with time zone,
    delete_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone NOT NULL,
    result jsonb,
    progress jsonb,
    attempts jsonb,
    phases jsonb,
    items jsonb,
    logs jsonb,
    CONSTRAINT history_state CHECK ((state = ANY (ARRAY['completed'::text, 'completed_with_errors'::text, 'failed'::text, 'cancelled'::text])))
) -- partition FOR VALUES FROM ('9999-01-01 00:00:00+00') TO (MAXVALUE);

CREATE TABLE idempotency (
    scope text NOT NULL,
    key text NOT NULL,
    job_id bigint NOT NULL,
    kind text NOT NULL,
    payload_hash bigint NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT idempotency_pkey PRIMARY KEY (scope, key)
);

CREATE TABLE item_sets (
    job_id bigint NOT NULL,
    name text NOT NULL,
    word text NOT NULL,
    phase text,
    CONSTRAINT item_sets_pkey PRIMARY KEY (job_id, name)
);

CREATE TABLE items (
    job_id bigint NOT NULL,
    set_name text NOT NULL,
    key text NOT NULL,
    ordinal integer NOT NULL,
    state text NOT NULL,
    note text,
    CONSTRAINT items_pkey PRIMARY KEY (job_id, set_name, key),
    CONSTRAINT items_state CHECK ((state = ANY (ARRAY['in_progress'::text, 'completed'::text, 'skipped'::text, 'failed'::text])))
) WITH (fillfactor=80);

CREATE TABLE jobs (
    id bigint NOT NULL,
    kind text NOT NULL,
    queue text NOT NULL,
    priority smallint NOT NULL,
    state text NOT NULL,
    position bigint,
    payload jsonb NOT NULL,
    tags jsonb,
    actor text,
    run_at timestamp with time zone NOT NULL,
    enqueued_at timestamp with time zone NOT NULL,
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
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    announced_at timestamp with time zone,
    unique_key text,
    idempotency_key text,
    limit_key text,
    fifo_key text,
    debounce_key text,
    schedule text,
    fire_time timestamp with time zone,
    parent bigint,
    workflow bigint,
    pending integer,
    origin bigint,
    error_class text,
    error text,
    error_fingerprint text,
    extra jsonb,
    stale_at timestamp with time zone,
    delete_at timestamp with time zone,
    CONSTRAINT jobs_counts CHECK (((claim >= 0) AND (life >= 1) AND (attempt >= 0) AND (max_attempts >= 1) AND (crashes >= 0) AND (max_crashes >= 1))),
    CONSTRAINT jobs_enqueued_at CHECK (((enqueued_at >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (enqueued_at < '9999-01-01 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT jobs_extra CHECK ((jsonb_typeof(extra) = 'object'::text)),
    CONSTRAINT jobs_id CHECK (((id >= 0) AND (id <= '1152921504606846975'::bigint))),
    CONSTRAINT jobs_keys CHECK (((octet_length(unique_key) <= 512) AND (octet_length(idempotency_key) <= 512) AND (octet_length(actor) <= 256))),
    CONSTRAINT jobs_kind CHECK (((kind ~ '^[a-z0-9_.:-]+$'::text) AND (octet_length(kind) <= 64))),
    CONSTRAINT jobs_payload CHECK ((jsonb_typeof(payload) = 'object'::text)),
    CONSTRAINT jobs_pkey PRIMARY KEY (id),
    CONSTRAINT jobs_position CHECK (((state <> 'queued'::text) OR ("position" IS NOT NULL))),
    CONSTRAINT jobs_priority CHECK (((priority >= 0) AND (priority <= 10))),
    CONSTRAINT jobs_queue CHECK (((queue ~ '^[a-z0-9_.:-]+$'::text) AND (octet_length(queue) <= 64))),
    CONSTRAINT jobs_run_at CHECK (((run_at >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (run_at < '9999-01-01 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT jobs_state CHECK ((state = ANY (ARRAY['blocked'::text, 'scheduled'::text, 'queued'::text, 'held'::text, 'running'::text]))),
    CONSTRAINT jobs_tags CHECK (((jsonb_typeof(tags) = 'object'::text) AND (NOT jsonb_path_exists(tags, '$.*?(@.type() != "string")'::jsonpath)))),
    CONSTRAINT jobs_timeout CHECK ((timeout_ms > 0))
) WITH (autovacuum_analyze_scale_factor=0.05, autovacuum_vacuum_cost_delay=0, autovacuum_vacuum_scale_factor=0.01, autovacuum_vacuum_threshold=1000, fillfactor=80);

CREATE TABLE kinds (
    name text NOT NULL,
    queue text NOT NULL,
    definition jsonb NOT NULL,
    debounce_ms bigint,
    debounce_path text[],
    budget text,
    estimate bigint,
    published_at timestamp with time zone NOT NULL,
    former text[] NOT NULL DEFAULT '{}'::text[],
    CONSTRAINT kinds_name CHECK ((name ~ '^[a-z0-9_.:-]{1,64}$'::text)),
    CONSTRAINT kinds_pkey PRIMARY KEY (name)
);

CREATE TABLE leaders (
    name text NOT NULL,
    term bigint NOT NULL,
    holder text NOT NULL,
    since timestamp with time zone NOT NULL,
    until timestamp with time zone NOT NULL,
    CONSTRAINT leaders_pkey PRIMARY KEY (name)
);

CREATE TABLE ledger (
    id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    budget text,
    key text NOT NULL,
    kind text NOT NULL,
    queue text NOT NULL,
    actor text,
    job_id bigint NOT NULL,
    claim integer NOT NULL,
    n integer NOT NULL,
    unit text NOT NULL,
    amount bigint NOT NULL,
    note text,
    is_late boolean NOT NULL,
    CONSTRAINT ledger_amount CHECK ((amount >= 0)),
    CONSTRAINT ledger_claim UNIQUE (job_id, claim, n),
    CONSTRAINT ledger_pkey PRIMARY KEY (id)
);

CREATE TABLE limit_keys (
    limit_name text NOT NULL,
    key text NOT NULL,
    throttled_until timestamp with time zone,
    rated_until timestamp with time zone,
    wake_at timestamp with time zone,
    seen_at timestamp with time zone NOT NULL,
    CONSTRAINT limit_keys_pkey PRIMARY KEY (limit_name, key)
);

CREATE TABLE limits (
    name text NOT NULL,
    definition jsonb NOT NULL,
    queue text,
    kinds text[] NOT NULL,
    path text[] NOT NULL,
    concurrency integer,
    scope text NOT NULL,
    throttle_us bigint,
    burst integer NOT NULL,
    rate_us bigint,
    rate_burst integer,
    rotate boolean NOT NULL,
    fifo boolean NOT NULL,
    metric text,
    changed_at timestamp with time zone NOT NULL,
    CONSTRAINT limits_name CHECK ((name ~ '^[a-z0-9_.:-]{1,64}$'::text)),
    CONSTRAINT limits_pkey PRIMARY KEY (name)
);

CREATE TABLE lock_waiters (
    ticket bigint NOT NULL,
    name text NOT NULL,
    owner text NOT NULL,
    context text NOT NULL,
    place text NOT NULL,
    worker bigint,
    job_id bigint,
    claim integer,
    since timestamp with time zone NOT NULL,
    until timestamp with time zone NOT NULL,
    CONSTRAINT lock_waiters_owner_key UNIQUE (owner),
    CONSTRAINT lock_waiters_pkey PRIMARY KEY (ticket)
);

CREATE TABLE locks (
    name text NOT NULL,
    token bigint NOT NULL,
    owner text NOT NULL,
    context text NOT NULL,
    place text NOT NULL,
    worker bigint,
    job_id bigint,
    claim integer,
    since timestamp with time zone NOT NULL,
    until timestamp with time zone NOT NULL,
    CONSTRAINT locks_name CHECK (((octet_length(name) >= 1) AND (octet_length(name) <= 512))),
    CONSTRAINT locks_owner_key UNIQUE (owner),
    CONSTRAINT locks_pkey PRIMARY KEY (name)
);

CREATE TABLE logs (
    job_id bigint NOT NULL,
    claim integer NOT NULL,
    line integer NOT NULL,
    at timestamp with time zone NOT NULL,
    level text NOT NULL,
    text text NOT NULL,
    CONSTRAINT logs_pkey PRIMARY KEY (job_id, claim, line)
);

CREATE TABLE meta (
    key text NOT NULL,
    value text NOT NULL,
    CONSTRAINT meta_pkey PRIMARY KEY (key)
);

CREATE TABLE notices (
    id bigint NOT NULL,
    escalation bigint,
    policy text NOT NULL,
    channel text NOT NULL,
    event text NOT NULL,
    data jsonb NOT NULL,
    created_at timestamp with time zone NOT NULL,
    state text NOT NULL DEFAULT 'pending'::text,
    tries integer NOT NULL DEFAULT 0,
    next_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    error text,
    CONSTRAINT notices_pkey PRIMARY KEY (id),
    CONSTRAINT notices_state CHECK ((state = ANY (ARRAY['pending'::text, 'sent'::text, 'failed'::text])))
);

CREATE TABLE overrides (
    path text NOT NULL,
    value jsonb NOT NULL,
    actor text,
    reason text,
    changed_at timestamp with time zone NOT NULL,
    CONSTRAINT overrides_pkey PRIMARY KEY (path)
);

CREATE TABLE passes (
    id bigint NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    digest text NOT NULL,
    hint text NOT NULL,
    role text NOT NULL,
    queues text[],
    created_at timestamp with time zone NOT NULL,
    created_by text NOT NULL,
    expires_at timestamp with time zone,
    used_at timestamp with time zone,
    revoked_at timestamp with time zone,
    revoked_by text,
    parent bigint,
    CONSTRAINT passes_digest_key UNIQUE (digest),
    CONSTRAINT passes_pkey PRIMARY KEY (id)
);

CREATE TABLE phases (
    job_id bigint NOT NULL,
    name text NOT NULL,
    ordinal integer NOT NULL,
    weight double precision NOT NULL,
    state text NOT NULL,
    claim integer NOT NULL,
    percent double precision,
    message text,
    data jsonb,
    error text,
    result jsonb,
    started_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT phases_pkey PRIMARY KEY (job_id, name),
    CONSTRAINT phases_state CHECK ((state = ANY (ARRAY['running'::text, 'completed'::text, 'failed'::text, 'cancelled'::text])))
);

CREATE TABLE policies (
    path text NOT NULL,
    definition jsonb NOT NULL,
    published_at timestamp with time zone NOT NULL,
    CONSTRAINT policies_pkey PRIMARY KEY (path)
);

CREATE TABLE progress (
    job_id bigint NOT NULL,
    claim integer,
    percent double precision,
    message text,
    data jsonb,
    updated_at timestamp with time zone NOT NULL,
    phase text,
    phase_percent double precision,
    CONSTRAINT progress_pkey PRIMARY KEY (job_id)
) WITH (fillfactor=50);

CREATE TABLE queues (
    name text NOT NULL,
    paused_at timestamp with time zone,
    paused_by text,
    paused_reason text,
    retention jsonb NOT NULL DEFAULT '{}'::jsonb,
    stale jsonb NOT NULL DEFAULT '{}'::jsonb,
    tells boolean NOT NULL DEFAULT false,
    webhook jsonb,
    gated boolean NOT NULL DEFAULT false,
    closed_until timestamp with time zone,
    resumed_at timestamp with time zone,
    definition jsonb,
    screened boolean NOT NULL DEFAULT false,
    escalation text,
    CONSTRAINT queues_name CHECK ((name ~ '^[a-z0-9_.:-]{1,64}$'::text)),
    CONSTRAINT queues_pkey PRIMARY KEY (name)
);

CREATE TABLE reservations (
    job_id bigint NOT NULL,
    claim integer NOT NULL,
    budget text NOT NULL,
    key text NOT NULL,
    starts_at timestamp with time zone NOT NULL,
    queue text NOT NULL,
    amount bigint NOT NULL,
    spent bigint NOT NULL DEFAULT 0,
    state text NOT NULL DEFAULT 'open'::text,
    at timestamp with time zone NOT NULL,
    CONSTRAINT reservations_pkey PRIMARY KEY (job_id, claim),
    CONSTRAINT reservations_state CHECK ((state = ANY (ARRAY['open'::text, 'lost'::text])))
);

CREATE TABLE retention_due (
    job_id bigint NOT NULL,
    life integer NOT NULL,
    queue text NOT NULL,
    what text NOT NULL,
    at timestamp with time zone NOT NULL,
    delete_at timestamp with time zone NOT NULL,
    tries integer NOT NULL DEFAULT 0,
    error text,
    CONSTRAINT retention_due_pkey PRIMARY KEY (job_id, what),
    CONSTRAINT retention_due_what CHECK ((what = ANY (ARRAY['stale'::text, 'delete'::text])))
);

CREATE TABLE rollups (
    minute timestamp with time zone NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    state text NOT NULL,
    jobs bigint NOT NULL,
    wait jsonb NOT NULL,
    run jsonb NOT NULL,
    span_s integer NOT NULL DEFAULT 1
);

CREATE TABLE schedules (
    name text NOT NULL,
    origin text NOT NULL,
    definition jsonb NOT NULL,
    override jsonb NOT NULL DEFAULT '{}'::jsonb,
    withdrawn_at timestamp with time zone,
    version bigint NOT NULL DEFAULT 1,
    defined_at timestamp with time zone NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    changed_by text,
    last_fire timestamp with time zone,
    next_fire timestamp with time zone,
    CONSTRAINT schedules_name CHECK ((name ~ '^[a-z0-9_.:-]{1,64}$'::text)),
    CONSTRAINT schedules_origin CHECK ((origin = ANY (ARRAY['code'::text, 'stored'::text]))),
    CONSTRAINT schedules_pkey PRIMARY KEY (name)
);

CREATE TABLE schema_functions (
    name text NOT NULL,
    checksum text NOT NULL,
    release text NOT NULL,
    CONSTRAINT schema_functions_pkey PRIMARY KEY (name)
);

CREATE TABLE schema_migrations (
    version integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT schema_migrations_pkey PRIMARY KEY (version)
);

CREATE TABLE service_reports (
    name text NOT NULL,
    holder text NOT NULL,
    at timestamp with time zone NOT NULL,
    runs bigint NOT NULL,
    scanned bigint NOT NULL,
    moved bigint NOT NULL,
    failures bigint NOT NULL,
    lag_ms bigint NOT NULL,
    error text,
    CONSTRAINT service_reports_pkey PRIMARY KEY (name)
);

CREATE TABLE sla_states (
    queue text NOT NULL,
    sla_ms bigint,
    p95_ms bigint,
    starts integer NOT NULL,
    oldest_ms bigint,
    waiting integer NOT NULL,
    looked_at timestamp with time zone NOT NULL,
    late_looks integer NOT NULL,
    late_at timestamp with time zone,
    breached_at timestamp with time zone,
    ended_at timestamp with time zone,
    told_at timestamp with time zone,
    CONSTRAINT sla_states_pkey PRIMARY KEY (queue)
);

CREATE TABLE slots (
    limit_name text NOT NULL,
    key text NOT NULL,
    n integer NOT NULL,
    job_id bigint,
    claim integer,
    worker bigint,
    taken_at timestamp with time zone,
    CONSTRAINT slots_pkey PRIMARY KEY (limit_name, key, n)
) WITH (fillfactor=70);

CREATE TABLE tunings (
    instance text NOT NULL,
    queue text NOT NULL,
    workers integer NOT NULL,
    lowest integer NOT NULL,
    highest integer NOT NULL,
    reason text NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    CONSTRAINT tunings_pkey PRIMARY KEY (instance, queue)
);

CREATE TABLE watchers (
    id text NOT NULL,
    until timestamp with time zone NOT NULL,
    CONSTRAINT watchers_pkey PRIMARY KEY (id)
);

CREATE TABLE workers (
    id bigint NOT NULL,
    instance text NOT NULL,
    host text NOT NULL,
    pid bigint NOT NULL,
    boot_id text,
    pid_namespace text,
    process_start bigint,
    version text,
    queues jsonb NOT NULL,
    concurrency integer NOT NULL,
    registered_at timestamp with time zone NOT NULL,
    renewed_at timestamp with time zone NOT NULL,
    lease_until timestamp with time zone NOT NULL,
    dead_at timestamp with time zone,
    policies jsonb,
    memory_bytes bigint,
    CONSTRAINT workers_pkey PRIMARY KEY (id)
);

CREATE INDEX alarms_at ON holdfast.alarms USING btree (at);

CREATE INDEX audit_at ON holdfast.audit USING btree (at);

CREATE INDEX audit_target ON holdfast.audit USING btree (target, id);

CREATE INDEX budget_periods_ends ON holdfast.budget_periods USING btree (ends_at);

CREATE INDEX budget_periods_starts ON holdfast.budget_periods USING btree (budget, starts_at, key);

CREATE INDEX bulk_runs_due ON holdfast.bulk_runs USING btree (next_at) WHERE (state = 'running'::text);

CREATE INDEX bulk_runs_ended ON holdfast.bulk_runs USING btree (ended_at) WHERE (ended_at IS NOT NULL);

CREATE UNIQUE INDEX bulk_runs_key_key ON holdfast.bulk_runs USING btree (key);

CREATE INDEX dead_letter_queues_last ON holdfast.dead_letter_queues USING btree (last_at);

CREATE INDEX dead_letters_last ON holdfast.dead_letters USING btree (last_at);

CREATE INDEX deliveries_due ON holdfast.deliveries USING btree (next_at) WHERE (state = 'pending'::text);

CREATE INDEX deliveries_expiry ON holdfast.deliveries USING btree (expires_at);

CREATE UNIQUE INDEX deliveries_job_id_life_event_key ON holdfast.deliveries USING btree (job_id, life, event);

CREATE INDEX escalations_last ON holdfast.escalations USING btree (last_at);

CREATE UNIQUE INDEX escalations_open ON holdfast.escalations USING btree (policy, source, kind, fingerprint) WHERE (closed_at IS NULL);

CREATE INDEX escalations_undigested ON holdfast.escalations USING btree (stage, id) WHERE (digested < count);

CREATE INDEX escalations_unresolved ON holdfast.escalations USING btree (id) WHERE (resolved_at IS NULL);

CREATE INDEX fires_expiry ON holdfast.fires USING btree (expires_at);

CREATE INDEX history_actor ON ONLY holdfast.history USING btree (actor, enqueued_at, id) WHERE (actor IS NOT NULL);

CREATE INDEX history_dead ON ONLY holdfast.history USING btree (kind, error_fingerprint, enqueued_at, id) INCLUDE (delete_at) WHERE (state = 'failed'::text);

CREATE INDEX history_dead_queue ON ONLY holdfast.history USING btree (kind, error_fingerprint, queue, enqueued_at, id) INCLUDE (delete_at) WHERE (state = 'failed'::text);

CREATE INDEX history_errors ON ONLY holdfast.history USING btree (enqueued_at, id) WHERE (error_class IS NOT NULL);

CREATE INDEX history_failed ON ONLY holdfast.history USING btree (enqueued_at, id) INCLUDE (delete_at) WHERE (state = 'failed'::text);

CREATE INDEX history_fingerprint ON ONLY holdfast.history USING btree (error_fingerprint, enqueued_at, id) WHERE (error_fingerprint IS NOT NULL);

CREATE INDEX history_forever_actor_enqueued_at_id_idx ON holdfast.history_forever USING btree (actor, enqueued_at, id) WHERE (actor IS NOT NULL);

CREATE INDEX history_forever_enqueued_at_id_delete_at_idx ON holdfast.history_forever USING btree (enqueued_at, id) INCLUDE (delete_at) WHERE (state = 'failed'::text);

CREATE INDEX history_forever_enqueued_at_id_idx ON holdfast.history_forever USING btree (enqueued_at, id);

CREATE INDEX history_forever_enqueued_at_id_idx2 ON holdfast.history_forever USING btree (enqueued_at, id) WHERE (error_class IS NOT NULL);

CREATE INDEX history_forever_error_fingerprint_enqueued_at_id_idx ON holdfast.history_forever USING btree (error_fingerprint, enqueued_at, id) WHERE (error_fingerprint IS NOT NULL);

CREATE INDEX history_forever_id_idx ON holdfast.history_forever USING btree (id);

CREATE INDEX history_forever_kind_enqueued_at_id_idx ON holdfast.history_forever USING btree (kind, enqueued_at, id);

CREATE INDEX history_forever_kind_enqueued_at_id_state_delete_at_idx ON holdfast.history_forever USING btree (kind, enqueued_at, id) INCLUDE (state, delete_at) WHERE (state <> 'completed'::text);

CREATE INDEX history_forever_kind_error_fingerprint_enqueued_at_id_delet_idx ON holdfast.history_forever USING btree (kind, error_fingerprint, enqueued_at, id) INCLUDE (delete_at) WHERE (state = 'failed'::text);

CREATE INDEX history_forever_kind_error_fingerprint_queue_enqueued_at_id_idx ON holdfast.history_forever USING btree (kind, error_fingerprint, queue, enqueued_at, id) INCLUDE (delete_at) WHERE (state = 'failed'::text);

CREATE INDEX history_forever_origin_enqueued_at_id_idx ON holdfast.history_forever USING btree (origin, enqueued_at, id) WHERE (origin IS NOT NULL);

CREATE INDEX history_forever_parent_enqueued_at_id_idx ON holdfast.history_forever USING btree (parent, enqueued_at, id) WHERE (parent IS NOT NULL);

CREATE INDEX history_forever_queue_enqueued_at_id_idx ON holdfast.history_forever USING btree (queue, enqueued_at, id);

CREATE INDEX history_forever_queue_enqueued_at_id_state_delete_at_idx ON holdfast.history_forever USING btree (queue, enqueued_at, id) INCLUDE (state, delete_at) WHERE (state <> 'completed'::text);

CREATE INDEX history_forever_schedule_enqueued_at_id_idx ON holdfast.history_forever USING btree (schedule, enqueued_at, id) WHERE (schedule IS NOT NULL);

CREATE INDEX history_forever_state_enqueued_at_id_delete_at_idx ON holdfast.history_forever USING btree (state, enqueued_at, id) INCLUDE (delete_at) WHERE (state = ANY (ARRAY['cancelled'::text, 'completed_with_errors'::text]));

CREATE INDEX history_forever_tags_idx ON holdfast.history_forever USING gin (tags jsonb_path_ops) WHERE (tags IS NOT NULL);

CREATE INDEX history_forever_unique_key_enqueued_at_id_idx ON holdfast.history_forever USING btree (unique_key, enqueued_at, id) WHERE (unique_key IS NOT NULL);

CREATE INDEX history_id ON ONLY holdfast.history USING btree (id);

CREATE INDEX history_kind ON ONLY holdfast.history USING btree (kind, enqueued_at, id);

CREATE INDEX history_listed ON ONLY holdfast.history USING btree (enqueued_at, id);

CREATE INDEX history_origin ON ONLY holdfast.history USING btree (origin, enqueued_at, id) WHERE (origin IS NOT NULL);

CREATE INDEX history_parent ON ONLY holdfast.history USING btree (parent, enqueued_at, id) WHERE (parent IS NOT NULL);

CREATE INDEX history_queue ON ONLY holdfast.history USING btree (queue, enqueued_at, id);

CREATE INDEX history_schedule ON ONLY holdfast.history USING btree (schedule, enqueued_at, id) WHERE (schedule IS NOT NULL);

CREATE INDEX history_tags ON ONLY holdfast.history USING gin (tags jsonb_path_ops) WHERE (tags IS NOT NULL);

CREATE INDEX history_trouble ON ONLY holdfast.history USING btree (state, enqueued_at, id) INCLUDE (delete_at) WHERE (state = ANY (ARRAY['cancelled'::text, 'completed_with_errors'::text]));

CREATE INDEX history_trouble_kind ON ONLY holdfast.history USING btree (kind, enqueued_at, id) INCLUDE (state, delete_at) WHERE (state <> 'completed'::text);

CREATE INDEX history_trouble_queue ON ONLY holdfast.history USING btree (queue, enqueued_at, id) INCLUDE (state, delete_at) WHERE (state <> 'completed'::text);

CREATE INDEX history_unique ON ONLY holdfast.history USING btree (unique_key, enqueued_at, id) WHERE (unique_key IS NOT NULL);

CREATE INDEX idempotency_expiry ON holdfast.idempotency USING btree (expires_at);

CREATE INDEX jobs_cancelling ON holdfast.jobs USING btree (cancel_requested_at) WHERE (cancel_requested_at IS NOT NULL);

CREATE UNIQUE INDEX jobs_debounce ON holdfast.jobs USING btree (kind, debounce_key) WHERE ((debounce_key IS NOT NULL) AND (state = 'scheduled'::text) AND (claim = 0));

CREATE INDEX jobs_deferred ON holdfast.jobs USING btree (run_at, id) WHERE ((state = 'held'::text) AND ("position" IS NULL));

CREATE INDEX jobs_due ON holdfast.jobs USING btree (run_at, id) INCLUDE (queue) WHERE (state = 'scheduled'::text);

CREATE INDEX jobs_errors ON holdfast.jobs USING btree (enqueued_at, id) WHERE (error_class IS NOT NULL);

CREATE INDEX jobs_fifo ON holdfast.jobs USING btree (fifo_key, enqueued_seq) WHERE (fifo_key IS NOT NULL);

CREATE INDEX jobs_held ON holdfast.jobs USING btree (limit_key, priority, "position") WHERE ((state = 'held'::text) AND ("position" IS NOT NULL));

CREATE INDEX jobs_listed ON holdfast.jobs USING btree (enqueued_at, id);

CREATE INDEX jobs_origin ON holdfast.jobs USING btree (origin, enqueued_at, id) WHERE (origin IS NOT NULL);

CREATE INDEX jobs_parent ON holdfast.jobs USING btree (parent, enqueued_at, id) WHERE (parent IS NOT NULL);

CREATE INDEX jobs_parked ON holdfast.jobs USING btree (state, limit_key, enqueued_seq) INCLUDE (queue) WHERE (state = ANY (ARRAY['held'::text, 'blocked'::text]));

CREATE INDEX jobs_ready ON holdfast.jobs USING btree (queue, priority, "position") WHERE (state = 'queued'::text);

CREATE INDEX jobs_running ON holdfast.jobs USING btree (worker, claim_batch) INCLUDE (queue) WHERE (state = 'running'::text);

CREATE INDEX jobs_schedule ON holdfast.jobs USING btree (schedule) WHERE (schedule IS NOT NULL);

CREATE INDEX jobs_tags ON holdfast.jobs USING gin (tags jsonb_path_ops) WHERE (tags IS NOT NULL);

CREATE UNIQUE INDEX jobs_unique ON holdfast.jobs USING btree (kind, unique_key) WHERE (unique_key IS NOT NULL);

CREATE INDEX ledger_at ON holdfast.ledger USING btree (at, id);

CREATE INDEX ledger_budget ON holdfast.ledger USING btree (budget, at, id);

CREATE UNIQUE INDEX ledger_claim ON holdfast.ledger USING btree (job_id, claim, n);

CREATE INDEX ledger_kind ON holdfast.ledger USING btree (budget, kind, at);

CREATE INDEX limit_keys_seen ON holdfast.limit_keys USING btree (seen_at);

CREATE INDEX limit_keys_wake ON holdfast.limit_keys USING btree (wake_at) WHERE (wake_at IS NOT NULL);

CREATE INDEX lock_waiters_context ON holdfast.lock_waiters USING btree (context);

CREATE INDEX lock_waiters_job ON holdfast.lock_waiters USING btree (job_id, claim) WHERE (job_id IS NOT NULL);

CREATE INDEX lock_waiters_name ON holdfast.lock_waiters USING btree (name, ticket);

CREATE UNIQUE INDEX lock_waiters_owner_key ON holdfast.lock_waiters USING btree (owner);

CREATE INDEX lock_waiters_until ON holdfast.lock_waiters USING btree (until);

CREATE INDEX locks_job ON holdfast.locks USING btree (job_id, claim) WHERE (job_id IS NOT NULL);

CREATE UNIQUE INDEX locks_owner_key ON holdfast.locks USING btree (owner);

CREATE INDEX locks_until ON holdfast.locks USING btree (until);

CREATE INDEX notices_age ON holdfast.notices USING btree (created_at);

CREATE INDEX notices_due ON holdfast.notices USING btree (next_at) WHERE (state = 'pending'::text);

CREATE INDEX notices_escalation ON holdfast.notices USING btree (escalation, id);

CREATE INDEX notices_order ON holdfast.notices USING btree (escalation, channel, id) WHERE (state = 'pending'::text);

CREATE UNIQUE INDEX passes_digest_key ON holdfast.passes USING btree (digest);

CREATE INDEX passes_parent ON holdfast.passes USING btree (parent) WHERE (parent IS NOT NULL);

CREATE INDEX reservations_lost ON holdfast.reservations USING btree (budget, job_id) WHERE (state = 'lost'::text);

CREATE INDEX retention_due_at ON holdfast.retention_due USING btree (at);

CREATE INDEX retention_due_delete ON holdfast.retention_due USING btree (delete_at);

CREATE INDEX rollups_fold ON holdfast.rollups USING btree (span_s, minute);

CREATE INDEX rollups_minute ON holdfast.rollups USING btree (minute);

CREATE INDEX slots_worker ON holdfast.slots USING btree (worker) WHERE (worker IS NOT NULL);

CREATE SEQUENCE alarms_id_seq AS bigint START 1 INCREMENT 1 MINVALUE 1 MAXVALUE 9223372036854775807 NO CYCLE;

CREATE SEQUENCE audit_id_seq AS bigint START 1 INCREMENT 1 MINVALUE 1 MAXVALUE 9223372036854775807 NO CYCLE;

CREATE SEQUENCE bulk_runs_id_seq AS bigint START 1 INCREMENT 1 MINVALUE 1 MAXVALUE 9223372036854775807 NO CYCLE;

CREATE SEQUENCE deliveries_id_seq AS bigint START 1 INCREMENT 1 MINVALUE 1 MAXVALUE 9223372036854775807 NO CYCLE;

CREATE SEQUENCE escalations_id_seq AS bigint START 1 INCREMENT 1 MINVALUE 1 MAXVALUE 9223372036854775807 NO CYCLE;

CREATE SEQUENCE events_seq_seq AS bigint START 1 INCREMENT 1 MINVALUE 1 MAXVALUE 9223372036854775807 NO CYCLE;

CREATE SEQUENCE failures_id_seq AS bigint START 1 INCREMENT 1 MINVALUE 1 MAXVALUE 9223372036854775807 NO CYCLE;

CREATE SEQUENCE job_id_seq AS bigint START 64 INCREMENT 64 MINVALUE 64 MAXVALUE 281474976710592 NO CYCLE;

CREATE SEQUENCE ledger_id_seq AS bigint START 1 INCREMENT 1 MINVALUE 1 MAXVALUE 9223372036854775807 NO CYCLE;

CREATE SEQUENCE lock_token_seq AS bigint START 1 INCREMENT 1 MINVALUE 1 MAXVALUE 9223372036854775807 NO CYCLE;

CREATE SEQUENCE lock_waiters_ticket_seq AS bigint START 1 INCREMENT 1 MINVALUE 1 MAXVALUE 9223372036854775807 NO CYCLE;

CREATE SEQUENCE notices_id_seq AS bigint START 1 INCREMENT 1 MINVALUE 1 MAXVALUE 9223372036854775807 NO CYCLE;

CREATE SEQUENCE passes_id_seq AS bigint START 1 INCREMENT 1 MINVALUE 1 MAXVALUE 9223372036854775807 NO CYCLE;

CREATE SEQUENCE position_seq AS bigint START 1 INCREMENT 1 MINVALUE 1 MAXVALUE 9223372036854775807 NO CYCLE;

CREATE SEQUENCE worker_id_seq AS bigint START 1 INCREMENT 1 MINVALUE 1 MAXVALUE 9223372036854775807 NO CYCLE;

CREATE VIEW all_jobs (
    id bigint,
    kind text,
    queue text,
    priority smallint,
    state text,
    position bigint,
    args jsonb,
    tags jsonb,
    actor text,
    run_at timestamp with time zone,
    enqueued_at timestamp with time zone,
    enqueued_seq bigint,
    claim integer,
    run integer,
    attempt integer,
    max_attempts integer,
    crashes integer,
    max_crashes integer,
    timeout_ms bigint,
    worker bigint,
    claim_batch bigint,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    announced_at timestamp with time zone,
    unique_key text,
    key text,
    limit_key text,
    fifo_key text,
    debounce_key text,
    schedule text,
    fire_time timestamp with time zone,
    parent bigint,
    workflow bigint,
    pending integer,
    origin bigint,
    error_class text,
    error text,
    error_fingerprint text,
    extra jsonb,
    stale_at timestamp with time zone,
    delete_at timestamp with time zone,
    finished_at timestamp with time zone,
    result jsonb,
    progress jsonb,
    attempts jsonb,
    phases jsonb,
    items jsonb,
    logs jsonb,
    webhooks jsonb
);

CREATE VIEW finished_jobs (
    id bigint,
    kind text,
    queue text,
    priority smallint,
    state text,
    position bigint,
    payload jsonb,
    tags jsonb,
    actor text,
    run_at timestamp with time zone,
    enqueued_at timestamp with time zone,
    enqueued_seq bigint,
    claim integer,
    life integer,
    attempt integer,
    max_attempts integer,
    crashes integer,
    max_crashes integer,
    timeout_ms bigint,
    worker bigint,
    claim_batch bigint,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    announced_at timestamp with time zone,
    unique_key text,
    idempotency_key text,
    limit_key text,
    fifo_key text,
    debounce_key text,
    schedule text,
    fire_time timestamp with time zone,
    parent bigint,
    workflow bigint,
    pending integer,
    origin bigint,
    error_class text,
    error text,
    error_fingerprint text,
    extra jsonb,
    stale_at timestamp with time zone,
    delete_at timestamp with time zone,
    finished_at timestamp with time zone,
    result jsonb,
    progress jsonb,
    attempts jsonb,
    phases jsonb,
    items jsonb,
    logs jsonb,
    deliveries jsonb
);

CREATE VIEW kept_jobs (
    id bigint,
    kind text,
    queue text,
    priority smallint,
    state text,
    position bigint,
    payload jsonb,
    tags jsonb,
    actor text,
    run_at timestamp with time zone,
    enqueued_at timestamp with time zone,
    enqueued_seq bigint,
    claim integer,
    life integer,
    attempt integer,
    max_attempts integer,
    crashes integer,
    max_crashes integer,
    timeout_ms bigint,
    worker bigint,
    claim_batch bigint,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    announced_at timestamp with time zone,
    unique_key text,
    idempotency_key text,
    limit_key text,
    fifo_key text,
    debounce_key text,
    schedule text,
    fire_time timestamp with time zone,
    parent bigint,
    workflow bigint,
    pending integer,
    origin bigint,
    error_class text,
    error text,
    error_fingerprint text,
    extra jsonb,
    stale_at timestamp with time zone,
    delete_at timestamp with time zone,
    finished_at timestamp with time zone,
    result jsonb,
    progress jsonb,
    attempts jsonb,
    phases jsonb,
    items jsonb,
    logs jsonb,
    deliveries jsonb
);

CREATE VIEW live_jobs (
    id bigint,
    kind text,
    queue text,
    priority smallint,
    state text,
    position bigint,
    payload jsonb,
    tags jsonb,
    actor text,
    run_at timestamp with time zone,
    enqueued_at timestamp with time zone,
    enqueued_seq bigint,
    claim integer,
    life integer,
    attempt integer,
    max_attempts integer,
    crashes integer,
    max_crashes integer,
    timeout_ms bigint,
    worker bigint,
    claim_batch bigint,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    announced_at timestamp with time zone,
    unique_key text,
    idempotency_key text,
    limit_key text,
    fifo_key text,
    debounce_key text,
    schedule text,
    fire_time timestamp with time zone,
    parent bigint,
    workflow bigint,
    pending integer,
    origin bigint,
    error_class text,
    error text,
    error_fingerprint text,
    extra jsonb,
    stale_at timestamp with time zone,
    delete_at timestamp with time zone,
    finished_at timestamp with time zone,
    result jsonb,
    progress jsonb,
    attempts jsonb,
    phases jsonb,
    items jsonb,
    logs jsonb,
    deliveries jsonb
);

CREATE FUNCTION accepted_before(
    p_id bigint,
    p_claim integer,
    p_verb text
)
RETURNS text LANGUAGE plpgsql VOLATILE -- md5 2214585003f2116b0abf2a0eab899778

CREATE FUNCTION admit_jobs(
    p_ids bigint[],
    p_kinds text[],
    p_queues text[],
    p_payloads jsonb[],
    p_tags jsonb[],
    p_actors text[],
    p_keys text[],
    p_again boolean,
    p_whole boolean,
    p_now timestamp with time zone
)
RETURNS TABLE(ordinal integer, detail jsonb) LANGUAGE plpgsql VOLATILE -- md5 2a28fd4ab7d66dce3bddf17f457b3349

CREATE FUNCTION cancel_jobs(
    p_ids bigint[],
    p_notes jsonb
)
RETURNS TABLE(id bigint, answer text, state text, other bigint) LANGUAGE plpgsql VOLATILE -- md5 e8377493b1f2f708c49cc57b619d6eb8

CREATE FUNCTION check_enqueued(
    p_job jsonb,
    p_ordinal bigint,
    p_fields text[]
)
RETURNS void LANGUAGE plpgsql VOLATILE -- md5 5e809c58c9f86b36d34101ea5db78527

CREATE FUNCTION check_extra(
    p_extra jsonb
)
RETURNS text LANGUAGE plpgsql IMMUTABLE -- md5 6489aa354de42300e28570c2072003e1

CREATE FUNCTION check_tags(
    p_tags jsonb
)
RETURNS text LANGUAGE plpgsql IMMUTABLE -- md5 5329e6314a16172978e112cc502cac97

CREATE FUNCTION claim_gated(
    p_worker bigint,
    p_batch bigint,
    p_limit integer,
    p_queues text[],
    p_priorities smallint[],
    p_limits integer[],
    p_afters bigint[],
    p_ids bigint[] DEFAULT NULL::bigint[]
)
RETURNS SETOF holdfast.jobs LANGUAGE plpgsql VOLATILE SET enable_seqscan=off SET enable_bitmapscan=off SET enable_sort=off SET enable_hashjoin=off SET enable_mergejoin=off SET jit=off SET plan_cache_mode=force_generic_plan -- md5 73f7f76f7120ad7205c0414df888dddf

CREATE FUNCTION claim_jobs(
    p_worker bigint,
    p_batch bigint,
    p_limit integer,
    p_queues text[],
    p_priorities smallint[],
    p_limits integer[],
    p_afters bigint[],
    p_is_gated boolean DEFAULT NULL::boolean
)
RETURNS SETOF holdfast.jobs LANGUAGE plpgsql VOLATILE SET enable_seqscan=off SET enable_bitmapscan=off SET enable_sort=off SET enable_hashjoin=off SET enable_mergejoin=off SET jit=off SET plan_cache_mode=force_generic_plan -- md5 e410b14b0736c82c870f53c0104fbab0

CREATE FUNCTION claim_jobs_by_id(
    p_worker bigint,
    p_batch bigint,
    p_limit integer,
    p_ids bigint[]
)
RETURNS SETOF holdfast.jobs LANGUAGE plpgsql VOLATILE SET enable_seqscan=off SET enable_bitmapscan=off SET enable_sort=off SET enable_hashjoin=off SET enable_mergejoin=off SET jit=off SET plan_cache_mode=force_generic_plan -- md5 93d407a7314bebad94cf6c3112b61af9

CREATE FUNCTION clock(
    
)
RETURNS timestamp with time zone LANGUAGE sql STABLE -- md5 8b9561c046905348d6b395f7134dadbd

CREATE FUNCTION close_queues(
    p_ids bigint[],
    p_verbs text[]
)
RETURNS void LANGUAGE plpgsql VOLATILE -- md5 c6cf7629bf0b80a1c4302522a55237b7

CREATE FUNCTION close_store(
    p_stage text,
    p_move jsonb,
    p_tables text[]
)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET lock_timeout=5s -- md5 a3dcbc6c141df17c262077232cfeb4e2

CREATE FUNCTION debounce_keys(
    p_kinds text[],
    p_queues text[],
    p_payloads jsonb[],
    p_tags jsonb[],
    p_actors text[],
    p_run_ats timestamp with time zone[],
    p_delays bigint[]
)
RETURNS text[] LANGUAGE plpgsql STABLE -- md5 19ef108a67a4344f24c464691a3904bb

CREATE FUNCTION define_limits(
    p_limits jsonb,
    p_gated text[]
)
RETURNS void LANGUAGE plpgsql VOLATILE -- md5 c637fdd0a46f805acb5b79644a6b2f77

CREATE FUNCTION delete_jobs(
    p_ids bigint[]
)
RETURNS TABLE(id bigint, state text) LANGUAGE plpgsql VOLATILE -- md5 d1626c968d2b18c5429366f9af1214a5

CREATE FUNCTION due_at(
    p_run_at timestamp with time zone,
    p_delay_ms bigint,
    p_now timestamp with time zone
)
RETURNS timestamp with time zone LANGUAGE sql STABLE -- md5 d0dc4cb8179b181adfe9448810b8ac11

CREATE FUNCTION due_state(
    p_run_at timestamp with time zone,
    p_delay_ms bigint,
    p_now timestamp with time zone
)
RETURNS text LANGUAGE sql STABLE -- md5 29879bbe591af9451020b7cde8463248

CREATE FUNCTION end_claims(
    p_ids bigint[],
    p_claims integer[],
    p_verb text,
    p_state text,
    p_error_class text,
    p_error text,
    p_notes jsonb
)
RETURNS TABLE(id bigint, verdict text) LANGUAGE plpgsql VOLATILE -- md5 eba19c10a011d583566bb10b874ba59a

CREATE FUNCTION enqueue_jobs(
    jobs jsonb,
    trusted boolean DEFAULT false
)
RETURNS TABLE(ordinal integer, id bigint, existing boolean, conflict boolean, limited text) LANGUAGE plpgsql VOLATILE -- md5 f20b620e5c5ec679ee257c3b7be0ba13

CREATE FUNCTION enqueue_v1(
    jobs jsonb
)
RETURNS TABLE(ordinal integer, id bigint, existing boolean, conflict boolean) LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path=pg_catalog, pg_temp -- md5 88b2d2102a765055ae8e3bbd13189419

CREATE FUNCTION exchange_jobs(
    p_ids bigint[],
    p_claims integer[],
    p_verbs text[],
    p_states text[],
    p_delays bigint[],
    p_results jsonb[],
    p_error_classes text[],
    p_errors text[],
    p_tracebacks text[],
    p_fingerprints text[],
    p_started_agos bigint[],
    p_rollups jsonb,
    p_worker bigint,
    p_batch bigint,
    p_limit integer,
    p_queues text[],
    p_priorities smallint[],
    p_limits integer[],
    p_afters bigint[],
    p_claim_ids bigint[] DEFAULT NULL::bigint[]
)
RETURNS TABLE(verdicts text[], worker_lost boolean, id bigint, kind text, queue text, priority smallint, state text, "position" bigint, payload jsonb, tags jsonb, actor text, run_at timestamp with time zone, enqueued_at timestamp with time zone, enqueued_seq bigint, claim integer, life integer, attempt integer, max_attempts integer, crashes integer, max_crashes integer, timeout_ms bigint, worker bigint, claim_batch bigint, claimed_at timestamp with time zone, started_at timestamp with time zone, cancel_requested_at timestamp with time zone, announced_at timestamp with time zone, unique_key text, idempotency_key text, limit_key text, fifo_key text, debounce_key text, schedule text, fire_time timestamp with time zone, parent bigint, workflow bigint, pending integer, origin bigint, error_class text, error text, error_fingerprint text, extra jsonb, stale_at timestamp with time zone, delete_at timestamp with time zone) LANGUAGE plpgsql VOLATILE -- md5 cb87f2d4f26b75e3cdbba77bfacfc20f

CREATE FUNCTION fail_refused(
    p_id bigint,
    p_claim integer,
    p_error_class text,
    p_error text,
    p_traceback text,
    p_fingerprint text,
    p_started_ago bigint
)
RETURNS text LANGUAGE plpgsql VOLATILE -- md5 52bf5ebfca87c99687635f995b255fd5

CREATE FUNCTION finish_apart(
    p_ids bigint[],
    p_claims integer[],
    p_verbs text[],
    p_states text[],
    p_delays bigint[],
    p_results jsonb[],
    p_error_classes text[],
    p_errors text[],
    p_tracebacks text[],
    p_fingerprints text[],
    p_started_agos bigint[],
    p_extras jsonb[]
)
RETURNS text[] LANGUAGE plpgsql VOLATILE -- md5 0623adb3f8f12d2076f8ede9dad9443f

CREATE FUNCTION finish_jobs(
    p_ids bigint[],
    p_claims integer[],
    p_verbs text[],
    p_states text[],
    p_delays bigint[],
    p_results jsonb[],
    p_error_classes text[],
    p_errors text[],
    p_tracebacks text[],
    p_fingerprints text[],
    p_started_agos bigint[],
    p_extras jsonb[],
    p_hands_over boolean DEFAULT false
)
RETURNS text[] LANGUAGE plpgsql VOLATILE SET enable_seqscan=off SET enable_bitmapscan=off SET enable_sort=off SET enable_hashjoin=off SET enable_mergejoin=off SET jit=off SET plan_cache_mode=force_generic_plan -- md5 b83c0f2bf481b9b2ea0d9ac4e8d5c6de

CREATE FUNCTION fold_rollups(
    p_limit integer
)
RETURNS integer LANGUAGE plpgsql VOLATILE -- md5 d4a0bc5770b62f83bca8f480782fcd9c

CREATE FUNCTION folded_deliveries(
    p_id bigint
)
RETURNS jsonb LANGUAGE sql STABLE -- md5 a3346b1d62c373445422f920212b560c

CREATE FUNCTION folded_items(
    p_id bigint
)
RETURNS jsonb LANGUAGE sql STABLE -- md5 6237f86df8e9c2bd09166def9f9882a1

CREATE FUNCTION folded_logs(
    p_id bigint
)
RETURNS jsonb LANGUAGE sql STABLE -- md5 f37f9cb92de63c2cda1462ddb4f5485b

CREATE FUNCTION folded_phases(
    p_id bigint
)
RETURNS jsonb LANGUAGE sql STABLE -- md5 45f7594a02b363adf6db414c66445a44

CREATE FUNCTION folded_progress(
    p_row holdfast.progress
)
RETURNS jsonb LANGUAGE sql STABLE -- md5 adee05e3a3835bbc85bf1058e4b05b2b

CREATE FUNCTION force_cancels(
    p_grace_ms bigint,
    p_limit integer
)
RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE SET enable_seqscan=off SET enable_bitmapscan=off SET enable_sort=off SET jit=off SET plan_cache_mode=force_generic_plan -- md5 d8110b0b2dc8e64d585de9156d919e56

CREATE FUNCTION free_rest(
    
)
RETURNS void LANGUAGE plpgsql VOLATILE -- md5 7afc18182bab16dd22f605e6450f63da

CREATE FUNCTION free_slots(
    p_ids bigint[],
    p_claims integer[],
    p_rows text[],
    p_first bigint DEFAULT 0,
    p_last bigint DEFAULT '9223372036854775807'::bigint,
    p_hands_over boolean DEFAULT false
)
RETURNS void LANGUAGE plpgsql VOLATILE -- md5 7160eb5a82e96f0daf73b43b6ede30bf

CREATE FUNCTION give_back_batch(
    p_worker bigint,
    p_batch bigint
)
RETURNS integer LANGUAGE plpgsql VOLATILE SET enable_seqscan=off SET enable_bitmapscan=off SET jit=off SET plan_cache_mode=force_generic_plan -- md5 36a729cede1fa59f951dcd618860abf1

CREATE FUNCTION hint_at(
    p_queues text[]
)
RETURNS void LANGUAGE plpgsql VOLATILE -- md5 cfc2b195c5c054dfe14e068d303fbc75

CREATE FUNCTION hold_back(
    p_ids bigint[]
)
RETURNS void LANGUAGE plpgsql VOLATILE SET enable_seqscan=off SET enable_bitmapscan=off SET enable_hashjoin=off SET enable_mergejoin=off SET jit=off SET plan_cache_mode=force_generic_plan -- md5 46196af2be82946144a5e375e72e87dc

CREATE FUNCTION hold_key(
    p_scope text,
    p_key text,
    p_job_id bigint,
    p_kind text,
    p_hash bigint,
    p_now timestamp with time zone,
    p_expires timestamp with time zone,
    OUT job_id bigint,
    OUT same boolean
)
RETURNS record LANGUAGE plpgsql VOLATILE -- md5 f1917690e1079d49e40b43ba68e6b492

CREATE FUNCTION hold_key_in_snapshot(
    p_scope text,
    p_key text,
    p_job_id bigint,
    p_kind text,
    p_hash bigint,
    p_now timestamp with time zone,
    p_expires timestamp with time zone,
    OUT job_id bigint,
    OUT same boolean
)
RETURNS record LANGUAGE plpgsql VOLATILE -- md5 72deb1510a7753029ad1f2118d934f88

CREATE FUNCTION insert_job(
    p_id bigint,
    p_kind text,
    p_queue text,
    p_priority smallint,
    p_payload jsonb,
    p_state text,
    p_run_at timestamp with time zone,
    p_unique text,
    p_unique_for bigint,
    p_key text,
    p_max_attempts integer,
    p_max_crashes integer,
    p_timeout bigint,
    p_tags jsonb,
    p_actor text,
    p_position bigint,
    p_now timestamp with time zone,
    p_again boolean,
    p_extra jsonb DEFAULT NULL::jsonb,
    p_debounce text DEFAULT NULL::text,
    p_parent bigint DEFAULT NULL::bigint,
    OUT outcome text,
    OUT id bigint
)
RETURNS record LANGUAGE plpgsql VOLATILE -- md5 dd435937353b3e1c944850e3730b0851

CREATE FUNCTION insert_jobs(
    p_ids bigint[],
    p_kinds text[],
    p_queues text[],
    p_priorities smallint[],
    p_payloads jsonb[],
    p_run_ats timestamp with time zone[],
    p_delays bigint[],
    p_uniques text[],
    p_unique_fors bigint[],
    p_keys text[],
    p_max_attempts integer[],
    p_max_crashes integer[],
    p_timeouts bigint[],
    p_tags jsonb[],
    p_actors text[],
    p_again boolean,
    p_extras jsonb[] DEFAULT '{}'::jsonb[],
    p_admission text DEFAULT 'each'::text,
    p_parents bigint[] DEFAULT '{}'::bigint[]
)
RETURNS TABLE(ordinal integer, outcome text, id bigint, detail jsonb) LANGUAGE plpgsql VOLATILE -- md5 adc978159a59118040ab9b37e76d770e

CREATE FUNCTION is_due_time(
    p_text text
)
RETURNS boolean LANGUAGE plpgsql VOLATILE -- md5 93d720522b4fc60540ac56028afc7ee1

CREATE FUNCTION is_item_set_kept(
    p_phases jsonb,
    p_phase text,
    p_first integer,
    p_from text
)
RETURNS boolean LANGUAGE sql IMMUTABLE -- md5 d4ea011003559d98ed07d1b10d3b9802

CREATE FUNCTION is_watched(
    
)
RETURNS boolean LANGUAGE sql STABLE -- md5 233f39944f349f77848e42b4e852b254

CREATE FUNCTION job_exists(
    p_id bigint
)
RETURNS boolean LANGUAGE plpgsql VOLATILE -- md5 69b3965e3001fb33b1d847d804f934fb

CREATE FUNCTION keep_partitions(
    
)
RETURNS integer LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path=pg_catalog, pg_temp SET lock_timeout=1s -- md5 9f23ea74d1f7cac63eb61e5e923655d1

CREATE FUNCTION keep_until(
    p_retention jsonb,
    p_state text,
    p_now timestamp with time zone
)
RETURNS timestamp with time zone LANGUAGE sql STABLE -- md5 6361e347036d199fa5e5ca0fbd8d04af

CREATE FUNCTION key_lock(
    p_limit_key text
)
RETURNS bigint LANGUAGE sql STABLE -- md5 a603e8fec559739e0d7e80406fa9b924

CREATE FUNCTION lane_heads(
    p_queues text[]
)
RETURNS TABLE(queue text, priority smallint, waited_ms bigint) LANGUAGE plpgsql STABLE SET enable_seqscan=off SET enable_bitmapscan=off SET enable_sort=off SET enable_hashjoin=off SET enable_mergejoin=off SET jit=off SET plan_cache_mode=force_generic_plan -- md5 c0284d8cbe27a8a20ed67696fa46331e

CREATE FUNCTION limit_key_of(
    p_path text[],
    p_payload jsonb,
    p_tags jsonb,
    p_actor text,
    p_kind text,
    p_queue text
)
RETURNS text LANGUAGE sql IMMUTABLE -- md5 f6749d443adce60b1099c2ea54952033

CREATE FUNCTION line_up(
    p_limit_key text,
    p_ids bigint[]
)
RETURNS void LANGUAGE plpgsql VOLATILE -- md5 85492a8dba0cc518c58bfc490b918506

CREATE FUNCTION make_weeks(
    p_ats timestamp with time zone[]
)
RETURNS integer LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path=pg_catalog, pg_temp SET lock_timeout=1s -- md5 62e7a44b3d00eb8664d7c93fdad59bc7

CREATE FUNCTION measure_lanes(
    p_cap integer
)
RETURNS void LANGUAGE plpgsql VOLATILE SET enable_seqscan=off SET enable_bitmapscan=off SET enable_sort=off SET jit=off -- md5 336e0054505a585df6a7badbda881a61

CREATE FUNCTION note_alerts(
    p_budget text,
    p_key text,
    p_starts timestamp with time zone,
    p_queue text,
    p_blocked bigint
)
RETURNS void LANGUAGE plpgsql VOLATILE -- md5 a214358b1c78f4bf75df5e47cd220579

CREATE FUNCTION note_failures(
    p_ids bigint[]
)
RETURNS void LANGUAGE plpgsql VOLATILE -- md5 fc5c2e98497317fbca93a295f5134d93

CREATE FUNCTION note_retention(
    p_ids bigint[]
)
RETURNS void LANGUAGE plpgsql VOLATILE -- md5 8c4da5339bf7e603434045a0964e8347

CREATE FUNCTION park_jobs(
    p_name text,
    p_key text,
    p_ids bigint[]
)
RETURNS void LANGUAGE plpgsql VOLATILE -- md5 3c3aedc65172c08f60baa8c4e239bf46

CREATE FUNCTION park_lane(
    p_name text,
    p_key text,
    p_queue text,
    p_priority smallint,
    p_keep integer
)
RETURNS integer LANGUAGE plpgsql VOLATILE -- md5 aa956b1b18ca3f2ab9bd0a98d137f615

CREATE FUNCTION pass_gates(
    p_ids bigint[],
    p_claims integer[],
    p_queues text[],
    p_worker bigint,
    p_may_wait boolean,
    OUT passed bigint[],
    OUT permits jsonb,
    OUT parked boolean,
    OUT has_spaced boolean
)
RETURNS record LANGUAGE plpgsql VOLATILE -- md5 d2aded570af9e0a6a45354eec58eb10d

CREATE FUNCTION post_ends(
    p_ids bigint[]
)
RETURNS void LANGUAGE plpgsql VOLATILE -- md5 f7f36e28bf391724a580b0d6a80aeb52

CREATE FUNCTION promote_jobs(
    p_limit integer,
    p_named boolean DEFAULT false
)
RETURNS TABLE(jobs integer, queues text[], next_due_ms bigint, lag_ms bigint, ids bigint[], all_queues text[], priorities smallint[], dues bigint[], claims integer[]) LANGUAGE plpgsql VOLATILE SET enable_seqscan=off SET enable_bitmapscan=off SET enable_sort=off SET enable_hashjoin=off SET enable_mergejoin=off SET jit=off SET plan_cache_mode=force_generic_plan -- md5 1c7bec8b96961a0fe62e55ed3052607f

CREATE FUNCTION prune_access(
    p_limit integer
)
RETURNS bigint LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path=pg_catalog, pg_temp -- md5 3ee4e45ba4fd83f8b2f3f306e4a14e2e

CREATE FUNCTION publish_ends(
    p_ids bigint[],
    p_verbs text[],
    p_verdicts text[],
    p_begun bigint[],
    p_begun_at timestamp with time zone[],
    p_begun_as integer[],
    p_now timestamp with time zone
)
RETURNS void LANGUAGE plpgsql VOLATILE -- md5 12e62c35b4b564352100269342085e6c

CREATE FUNCTION publish_report(
    p_id bigint,
    p_changes jsonb,
    p_now timestamp with time zone,
    p_starts boolean
)
RETURNS void LANGUAGE plpgsql VOLATILE -- md5 9cd8f5a3e50213c2304b9fac4b48c5c3

CREATE FUNCTION publish_waiting(
    p_ids bigint[]
)
RETURNS void LANGUAGE plpgsql VOLATILE -- md5 7913cbcf86958602c8c015cae39f27d6

CREATE FUNCTION record_spend(
    p_job bigint,
    p_claim integer,
    p_n integer,
    p_budget text,
    p_key text,
    p_kind text,
    p_queue text,
    p_actor text,
    p_unit text,
    p_amount bigint,
    p_note text,
    p_starts timestamp with time zone,
    p_ends timestamp with time zone
)
RETURNS TABLE(outcome text, at timestamp with time zone, is_late boolean, spent bigint, reserved bigint, lost bigint, ceiling bigint) LANGUAGE plpgsql VOLATILE -- md5 ee2edec8cc43ec73f24ca85b1a73dd7e

CREATE FUNCTION refuse_moved(
    
)
RETURNS trigger LANGUAGE plpgsql VOLATILE -- md5 ed4e48c5ab16c4feb079ab334a059960

CREATE FUNCTION release_due(
    p_now timestamp with time zone
)
RETURNS integer LANGUAGE plpgsql VOLATILE -- md5 53082250587b7f9563178404517a007b

CREATE FUNCTION release_held(
    p_name text,
    p_key text,
    p_most integer,
    p_fresh boolean DEFAULT false
)
RETURNS integer LANGUAGE plpgsql VOLATILE -- md5 52f26afc59d954de48bee7cf268c4de7

CREATE FUNCTION release_lock(
    p_name text,
    p_owner text
)
RETURNS boolean LANGUAGE plpgsql VOLATILE -- md5 3a6e34de0099ab9de9d591d0c72cb8d3

CREATE FUNCTION release_worker(
    p_worker bigint,
    p_ids bigint[],
    p_claims integer[],
    p_verbs text[],
    p_states text[],
    p_delays bigint[],
    p_results jsonb[],
    p_error_classes text[],
    p_errors text[],
    p_tracebacks text[],
    p_fingerprints text[],
    p_started_agos bigint[]
)
RETURNS TABLE(workers integer, requeued bigint[], failed bigint[], cancelled bigint[]) LANGUAGE plpgsql VOLATILE SET enable_seqscan=off SET enable_bitmapscan=off SET jit=off SET plan_cache_mode=force_generic_plan -- md5 5e424c761a2d3b01011aae138bf5f494

CREATE FUNCTION reopen_attempts(
    p_old holdfast.history
)
RETURNS void LANGUAGE plpgsql VOLATILE -- md5 7af461baa7fc42f18bc4806d16afe632

CREATE FUNCTION reopen_phases(
    p_old holdfast.history,
    p_from text
)
RETURNS void LANGUAGE plpgsql VOLATILE -- md5 63e8fb733d7acffe14f6461dec569d95

CREATE FUNCTION reopen_store(
    
)
RETURNS void LANGUAGE plpgsql VOLATILE SET lock_timeout=5s -- md5 ecb93eaf81128ad5ae7a797e341c39c6

CREATE FUNCTION require_worker(
    p_worker bigint
)
RETURNS void LANGUAGE plpgsql VOLATILE -- md5 5500c1cddcabb06f44c97215ad9caa6a

CREATE FUNCTION rescue_jobs(
    p_limit integer,
    p_before timestamp with time zone DEFAULT NULL::timestamp with time zone
)
RETURNS TABLE(workers integer, requeued bigint[], failed bigint[], cancelled bigint[], looked_at timestamp with time zone) LANGUAGE plpgsql VOLATILE SET enable_seqscan=off SET enable_bitmapscan=off SET enable_sort=off SET enable_hashjoin=off SET enable_mergejoin=off SET jit=off SET plan_cache_mode=force_generic_plan -- md5 3998214b99e496378cf733ac6f5d6758

CREATE FUNCTION reserve_spend(
    p_job bigint,
    p_claim integer,
    p_budget text,
    p_key text,
    p_estimate bigint,
    p_starts timestamp with time zone,
    p_ends timestamp with time zone,
    p_jitter_ms bigint,
    p_patience_ms bigint
)
RETURNS TABLE(outcome text, at timestamp with time zone, spent bigint, reserved bigint, lost bigint, ceiling bigint, wakes_at timestamp with time zone) LANGUAGE plpgsql VOLATILE -- md5 639674d8a1af793ca5b1d31bd45a2af7

CREATE FUNCTION retire_worker(
    p_worker bigint
)
RETURNS integer LANGUAGE plpgsql VOLATILE -- md5 48184be077638a3655960de1606ca5c8

CREATE FUNCTION retry_job(
    p_old holdfast.history,
    p_now timestamp with time zone,
    p_from text DEFAULT NULL::text,
    OUT answer text,
    OUT state text,
    OUT other bigint
)
RETURNS record LANGUAGE plpgsql VOLATILE -- md5 669fd08508c037c15f19c4001844b129

CREATE FUNCTION retry_jobs(
    p_ids bigint[],
    p_from text DEFAULT NULL::text
)
RETURNS TABLE(id bigint, answer text, state text, other bigint) LANGUAGE plpgsql VOLATILE -- md5 ea227b5f32a22a9f7089d210d00924d8

CREATE FUNCTION rotate_keys(
    p_ids bigint[]
)
RETURNS void LANGUAGE plpgsql VOLATILE -- md5 293df104e0723c8cfcb5652d23229eca

CREATE FUNCTION save_changes(
    p_id bigint,
    p_claim integer,
    p_changes jsonb,
    p_now timestamp with time zone
)
RETURNS void LANGUAGE plpgsql VOLATILE -- md5 f47a1af750f5973bfb3a320d08da57de

CREATE FUNCTION save_progress(
    p_ids bigint[],
    p_claims integer[],
    p_percents double precision[],
    p_messages text[],
    p_datas jsonb[],
    p_phases text[] DEFAULT '{}'::text[],
    p_phase_percents double precision[] DEFAULT '{}'::double precision[],
    p_changes jsonb[] DEFAULT '{}'::jsonb[]
)
RETURNS boolean[] LANGUAGE plpgsql VOLATILE SET enable_seqscan=off SET enable_bitmapscan=off SET jit=off SET plan_cache_mode=force_generic_plan -- md5 1b1a9d5d1c6d6af8167680140e65cbf5

CREATE FUNCTION settle_spends(
    p_ids bigint[],
    p_claims integer[],
    p_verbs text[],
    p_states text[]
)
RETURNS integer LANGUAGE plpgsql VOLATILE -- md5 42c2bc5101386affcf7f607ac2133c60

CREATE FUNCTION share_of(
    p_ceiling bigint,
    p_share bigint
)
RETURNS bigint LANGUAGE sql IMMUTABLE -- md5 f319997150c2c9990334f7a025353efe

CREATE FUNCTION space_starts(
    p_ids bigint[],
    OUT permits jsonb,
    OUT refused bigint[],
    OUT has_spaced boolean
)
RETURNS record LANGUAGE plpgsql VOLATILE -- md5 620084de955bfc4ab2b6351b9082c2b2

CREATE FUNCTION start_jobs(
    p_ids bigint[],
    p_claims integer[],
    p_started_agos bigint[]
)
RETURNS bigint[] LANGUAGE plpgsql VOLATILE SET enable_seqscan=off SET enable_bitmapscan=off SET jit=off SET plan_cache_mode=force_generic_plan -- md5 8d5427bf847af1b7f20aa149b6a5e84d

CREATE FUNCTION strip_job(
    p_id bigint,
    p_claim integer,
    p_is_running boolean
)
RETURNS void LANGUAGE plpgsql VOLATILE -- md5 33b60e6781b67626f5def5a8275ff5ea

CREATE FUNCTION sweep_limits(
    p_after text,
    p_limit integer,
    p_leaks boolean,
    OUT freed integer,
    OUT released integer,
    OUT next_after text
)
RETURNS record LANGUAGE plpgsql VOLATILE SET enable_seqscan=off SET enable_bitmapscan=off SET enable_sort=off SET enable_hashjoin=off SET enable_mergejoin=off SET jit=off SET plan_cache_mode=force_generic_plan -- md5 833f814ae27941aa0e137a3e846337c8

CREATE FUNCTION take_ids(
    p_count integer
)
RETURNS SETOF bigint LANGUAGE sql VOLATILE -- md5 ca729a8345dd28d556b74fefc9a7c780

CREATE FUNCTION take_lock(
    p_name text,
    p_owner text,
    p_context text,
    p_place text,
    p_worker bigint,
    p_job_id bigint,
    p_claim integer,
    p_lasts_ms bigint,
    p_waits_ms bigint,
    OUT token bigint,
    OUT since timestamp with time zone,
    OUT ticket bigint,
    OUT is_cycle boolean
)
RETURNS record LANGUAGE plpgsql VOLATILE -- md5 8d55d2312b53856158eddad190493ce8

CREATE FUNCTION take_slots(
    p_name text,
    p_key text,
    p_most integer,
    p_ids bigint[],
    p_claims integer[],
    p_worker bigint
)
RETURNS integer LANGUAGE plpgsql VOLATILE -- md5 583d11f4d9b575fb07bc5eee621a0907

CREATE FUNCTION take_turn(
    p_name text,
    p_key text,
    p_ids bigint[],
    p_claims integer[],
    p_worker bigint
)
RETURNS integer LANGUAGE plpgsql VOLATILE -- md5 f24e1bf7e33563e6baa04bb38d054f1c

CREATE FUNCTION wait_again(
    p_id bigint,
    p_verb text,
    p_state text,
    p_delay bigint,
    p_error_class text,
    p_error text,
    p_traceback text,
    p_fingerprint text,
    p_started_ago bigint,
    p_now timestamp with time zone
)
RETURNS void LANGUAGE plpgsql VOLATILE -- md5 798a07ed03dc7a6e30abfecc2c743962
