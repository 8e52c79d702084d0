-- What an operations team sets: limits on what runs at once and how fast, and what holds for kinds of jobs.

-- `gated`: some job of the queue may have to wait for a limit or a budget, so that a claim has to look; every other
-- queue pays nothing. `closed_until`: a handler was told to slow down. `resumed_at` lets a pause not count as waiting.
ALTER TABLE holdfast.queues ADD COLUMN gated boolean NOT NULL DEFAULT false;
ALTER TABLE holdfast.queues ADD COLUMN closed_until timestamptz;
ALTER TABLE holdfast.queues ADD COLUMN resumed_at timestamptz;
-- What holds for the queue (colour, SLA, workers, escalation), with what people have changed at run time.
ALTER TABLE holdfast.queues ADD COLUMN definition jsonb;
-- `screened`: an enqueue has to look, for a rate limit may refuse it or a debounce may merge it with another.
ALTER TABLE holdfast.queues ADD COLUMN screened boolean NOT NULL DEFAULT false;

-- What holds for the jobs of a kind, published by the programs that define it, so that jobs from elsewhere (SQL, the
-- CLI, a program without the code) are treated alike. Paths are the steps of key expressions.
CREATE TABLE holdfast.kinds (
    name text PRIMARY KEY,
    queue text NOT NULL,
    definition jsonb NOT NULL,
    debounce_ms bigint,
    debounce_path text[],
    budget text,
    estimate bigint,
    published_at timestamptz NOT NULL,
    -- The queues that it once had: programs that know no better may still enqueue there.
    former text[] NOT NULL DEFAULT '{}',
    CONSTRAINT kinds_name CHECK (name ~ '^[a-z0-9_.:-]{1,64}$')
);

-- What programs or configuration say of queues, limits and budgets, by path ("limits.tenant"); what holds follows from
-- it and from the overrides. The row without a path says what it was last worked out from.
CREATE TABLE holdfast.policies (
    path text PRIMARY KEY,
    definition jsonb NOT NULL,
    published_at timestamptz NOT NULL
);

-- What a worker was started with: fingerprints of definitions by path, so that one that differs can be named.
ALTER TABLE holdfast.workers ADD COLUMN policies jsonb;

-- The limits in force. `definition` is what programs or configuration say; the other columns are what holds, with the
-- changes that people have made at run time. Times are microseconds between two starts, or two enqueues.
CREATE TABLE holdfast.limits (
    name text PRIMARY KEY,
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
    changed_at timestamptz NOT NULL,
    CONSTRAINT limits_name CHECK (name ~ '^[a-z0-9_.:-]{1,64}$')
);

-- How far a throttle and a rate have come for one key (the theoretical arrival times of GCRA), and when jobs that are
-- held for it may go on.
CREATE TABLE holdfast.limit_keys (
    limit_name text NOT NULL,
    key text NOT NULL,
    throttled_until timestamptz,
    rated_until timestamptz,
    wake_at timestamptz,
    seen_at timestamptz NOT NULL,
    PRIMARY KEY (limit_name, key)
);
CREATE INDEX limit_keys_wake ON holdfast.limit_keys (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX limit_keys_seen ON holdfast.limit_keys (seen_at);

-- The slots of a key, made when it is first seen. A slot belongs to a claim: taken with it, given back with its end.
CREATE TABLE holdfast.slots (
    limit_name text NOT NULL,
    key text NOT NULL,
    n integer NOT NULL,
    job_id bigint,
    claim integer,
    worker bigint,
    taken_at timestamptz,
    PRIMARY KEY (limit_name, key, n)
) WITH (fillfactor = 70);
CREATE INDEX slots_job ON holdfast.slots (job_id, claim) WHERE job_id IS NOT NULL;

-- Held with a place: waits for a slot, and keeps its place. Held without one: waits for a time, as for a new budget.
CREATE INDEX jobs_held ON holdfast.jobs (limit_key, priority, position) WHERE state = 'held' AND position IS NOT NULL;
CREATE INDEX jobs_deferred ON holdfast.jobs (run_at, id) WHERE state = 'held' AND position IS NULL;
CREATE INDEX jobs_fifo ON holdfast.jobs (fifo_key, enqueued_seq) WHERE fifo_key IS NOT NULL;
-- Not of one that was claimed before: it waits for its retry, and what comes then is another job.
CREATE UNIQUE INDEX jobs_debounce ON holdfast.jobs (kind, debounce_key)
WHERE debounce_key IS NOT NULL AND state = 'scheduled' AND claim = 0;
