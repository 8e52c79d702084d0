-- Who leads, what is fired when, who holds which lock, what people have set at run time, and what the services report.

-- A lease with a number that grows at every change of hands; nothing but promptness rests on it.
CREATE TABLE holdfast.leaders (
    name text PRIMARY KEY,
    term bigint NOT NULL,
    holder text NOT NULL,
    since timestamptz NOT NULL,
    until timestamptz NOT NULL
);

-- Settings that people have changed at run time, by path: "services.promote.interval", "maintenance.release".
CREATE TABLE holdfast.overrides (
    path text PRIMARY KEY,
    value jsonb NOT NULL,
    actor text,
    reason text,
    changed_at timestamptz NOT NULL
);

-- `definition` is what code or configuration says (times, kind, job, policies), `override` what people have changed of it
-- since. `version` grows with every change, and a fire names it: whoever works by an old definition fires nothing.
CREATE TABLE holdfast.schedules (
    name text PRIMARY KEY,
    origin text NOT NULL,
    definition jsonb NOT NULL,
    override jsonb NOT NULL DEFAULT '{}',
    -- Gone from what the programs define: it fires no more, and nothing about it is forgotten.
    withdrawn_at timestamptz,
    version bigint NOT NULL DEFAULT 1,
    defined_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    changed_by text,
    -- The last nominal time that was decided on, whatever came of it, and the next one.
    last_fire timestamptz,
    next_fire timestamptz,
    CONSTRAINT schedules_name CHECK (name ~ '^[a-z0-9_.:-]{1,64}$'),
    CONSTRAINT schedules_origin CHECK (origin IN ('code', 'stored'))
);

-- One row for each nominal time of a schedule: the job it made, or why it made none.
CREATE TABLE holdfast.fires (
    schedule text NOT NULL,
    nominal timestamptz NOT NULL,
    outcome text NOT NULL,
    job_id bigint,
    note text,
    at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (schedule, nominal),
    CONSTRAINT fires_outcome CHECK (outcome IN ('enqueued', 'by_hand', 'overlap', 'missed', 'maintenance'))
);
CREATE INDEX fires_expiry ON holdfast.fires (expires_at);

CREATE INDEX jobs_schedule ON holdfast.jobs (schedule) WHERE schedule IS NOT NULL;

-- A lock is a row, so that people can see it. Tokens come from one sequence: of two holders the later has the larger.
-- `owner` is drawn for one block, `context` for the task or thread that runs it, and `place` is its host and process.
CREATE SEQUENCE holdfast.lock_token_seq;
CREATE TABLE holdfast.locks (
    name text PRIMARY KEY,
    token bigint NOT NULL,
    owner text NOT NULL UNIQUE,
    context text NOT NULL,
    place text NOT NULL,
    worker bigint,
    job_id bigint,
    claim integer,
    since timestamptz NOT NULL,
    until timestamptz NOT NULL,
    CONSTRAINT locks_name CHECK (octet_length(name) BETWEEN 1 AND 512)
);
CREATE INDEX locks_job ON holdfast.locks (job_id, claim) WHERE job_id IS NOT NULL;
CREATE INDEX locks_until ON holdfast.locks (until);

-- Whoever waits has a ticket, and the smallest is served first.
CREATE TABLE holdfast.lock_waiters (
    ticket bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    owner text NOT NULL UNIQUE,
    context text NOT NULL,
    place text NOT NULL,
    worker bigint,
    job_id bigint,
    claim integer,
    since timestamptz NOT NULL,
    until timestamptz NOT NULL
);
CREATE INDEX lock_waiters_name ON holdfast.lock_waiters (name, ticket);
CREATE INDEX lock_waiters_context ON holdfast.lock_waiters (context);
CREATE INDEX lock_waiters_job ON holdfast.lock_waiters (job_id, claim) WHERE job_id IS NOT NULL;
CREATE INDEX lock_waiters_until ON holdfast.lock_waiters (until);

-- What each service did last, told by the leader.
CREATE TABLE holdfast.service_reports (
    name text PRIMARY KEY,
    holder text NOT NULL,
    at timestamptz NOT NULL,
    runs bigint NOT NULL,
    scanned bigint NOT NULL,
    moved bigint NOT NULL,
    failures bigint NOT NULL,
    lag_ms bigint NOT NULL,
    error text
);

-- How long the lanes are, counted at most every few seconds and at most to a bound, so that nobody else has to count.
CREATE TABLE holdfast.gauges (
    queue text NOT NULL,
    priority smallint NOT NULL,
    state text NOT NULL,
    jobs bigint NOT NULL,
    oldest_at timestamptz,
    measured_at timestamptz NOT NULL,
    PRIMARY KEY (queue, priority, state)
);

-- How many seconds a row stands for: 1 as it was written, then 60, 3,600 and 86,400 as it was folded.
ALTER TABLE holdfast.rollups ADD COLUMN span_s integer NOT NULL DEFAULT 1;
CREATE INDEX rollups_fold ON holdfast.rollups (span_s, minute);
