-- Phases, items and log lines of live jobs, events for whoever watches, webhooks that wait to be sent, and what has to be
-- told before a finished job is deleted. Whatever belongs to a live job is folded into its one history row when it ends.

-- Programs of 0.2 called these two.
DROP FUNCTION IF EXISTS holdfast.due;
DROP FUNCTION IF EXISTS holdfast.finish_and_claim;

-- `percent` is that of the whole job; the phase that is under way has its own.
ALTER TABLE holdfast.progress
    ADD COLUMN phase text,
    ADD COLUMN phase_percent double precision;

ALTER TABLE holdfast.history
    ADD COLUMN phases jsonb,
    ADD COLUMN items jsonb,
    ADD COLUMN logs jsonb;

ALTER TABLE holdfast.queues
    -- Milliseconds after which finished jobs are stale, by state; a missing state means never.
    ADD COLUMN stale jsonb NOT NULL DEFAULT '{}',
    -- Whether somebody is told before a finished job is deleted, and when it becomes stale.
    ADD COLUMN tells boolean NOT NULL DEFAULT false,
    -- {"url": ..., "events": [...]}: where the ends of the queue's jobs are posted to.
    ADD COLUMN webhook jsonb;

CREATE TABLE holdfast.phases (
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
    started_at timestamptz NOT NULL,
    ended_at timestamptz,
    PRIMARY KEY (job_id, name),
    CONSTRAINT phases_state CHECK (state IN ('running', 'completed', 'failed', 'cancelled'))
);

-- A set of things that one phase works through; `word` is what readers call one of them.
CREATE TABLE holdfast.item_sets (
    job_id bigint NOT NULL,
    name text NOT NULL,
    word text NOT NULL,
    phase text,
    PRIMARY KEY (job_id, name)
);

-- One row per item, so that no report ever rewrites a list.
CREATE TABLE holdfast.items (
    job_id bigint NOT NULL,
    set_name text NOT NULL,
    key text NOT NULL,
    ordinal integer NOT NULL,
    state text NOT NULL,
    note text,
    PRIMARY KEY (job_id, set_name, key),
    CONSTRAINT items_state CHECK (state IN ('in_progress', 'completed', 'skipped', 'failed'))
) WITH (fillfactor = 80);

CREATE TABLE holdfast.logs (
    job_id bigint NOT NULL,
    claim integer NOT NULL,
    line integer NOT NULL,
    at timestamptz NOT NULL,
    level text NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (job_id, claim, line)
);

-- Who watches: while no row here is of the present, no event is written.
CREATE TABLE holdfast.watchers (
    id text PRIMARY KEY,
    until timestamptz NOT NULL
);

CREATE TABLE holdfast.events (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL,
    kind text NOT NULL,
    job_id bigint NOT NULL,
    task text NOT NULL,
    queue text NOT NULL,
    state text,
    life integer NOT NULL,
    claim integer NOT NULL,
    attempt integer NOT NULL,
    data jsonb
);

-- What is to be posted, with everything that the message says: its job may be deleted or live again meanwhile.
CREATE TABLE holdfast.deliveries (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id bigint NOT NULL,
    life integer NOT NULL,
    event text NOT NULL,
    url text NOT NULL,
    at timestamptz NOT NULL,
    task text NOT NULL,
    queue text NOT NULL,
    status text NOT NULL,
    attempt integer NOT NULL,
    tags jsonb,
    error_class text,
    error text,
    result jsonb,
    result_omitted boolean NOT NULL DEFAULT false,
    state text NOT NULL DEFAULT 'pending',
    tries integer NOT NULL DEFAULT 0,
    -- When it is tried next; whoever takes it sets this to the end of its lease.
    next_at timestamptz NOT NULL,
    ended_at timestamptz,
    log jsonb NOT NULL DEFAULT '[]',
    expires_at timestamptz NOT NULL,
    UNIQUE (job_id, life, event),
    CONSTRAINT deliveries_state CHECK (state IN ('pending', 'delivered', 'failed'))
);
CREATE INDEX deliveries_due ON holdfast.deliveries (next_at) WHERE state = 'pending';
CREATE INDEX deliveries_expiry ON holdfast.deliveries (expires_at);

-- Places that said they are gone for good (410): nothing is posted there until somebody allows it again.
CREATE TABLE holdfast.disabled_endpoints (
    endpoint text PRIMARY KEY,
    disabled_at timestamptz NOT NULL,
    reason text NOT NULL
);

-- What has to be told of a finished job before it is deleted, for the queues that ask for it.
CREATE TABLE holdfast.retention_due (
    job_id bigint NOT NULL,
    life integer NOT NULL,
    queue text NOT NULL,
    what text NOT NULL,
    at timestamptz NOT NULL,
    delete_at timestamptz NOT NULL,
    tries integer NOT NULL DEFAULT 0,
    error text,
    PRIMARY KEY (job_id, what),
    CONSTRAINT retention_due_what CHECK (what IN ('stale', 'delete'))
);
CREATE INDEX retention_due_at ON holdfast.retention_due (at);
CREATE INDEX retention_due_delete ON holdfast.retention_due (delete_at);
