-- What an operations team sets: limits on what runs at once and how fast, and what holds for kinds of jobs.

-- `gated`: some job of the queue may have to wait for a limit or a budget, so that a claim has to look; every other
-- queue pays nothing. `closed_until`: a handler was told to slow down. `resumed_at` lets a pause not count as waiting.
ALTER TABLE holdfast_queues ADD COLUMN gated INTEGER NOT NULL DEFAULT 0;
ALTER TABLE holdfast_queues ADD COLUMN closed_until INTEGER;
ALTER TABLE holdfast_queues ADD COLUMN resumed_at INTEGER;
-- What holds for the queue (colour, SLA, workers, escalation), with what people have changed at run time.
ALTER TABLE holdfast_queues ADD COLUMN definition TEXT;
-- `screened`: an enqueue has to look, for a rate limit may refuse it or a debounce may merge it with another.
ALTER TABLE holdfast_queues ADD COLUMN screened INTEGER NOT NULL DEFAULT 0;

-- What holds for the jobs of a kind, published by the programs that define it, so that jobs from elsewhere (SQL, the
-- CLI, a program without the code) are treated alike. Paths are the steps of key expressions.
CREATE TABLE holdfast_kinds (
    name TEXT PRIMARY KEY,
    queue TEXT NOT NULL,
    definition TEXT NOT NULL,
    debounce_ms INTEGER,
    debounce_path TEXT,
    budget TEXT,
    estimate INTEGER,
    published_at INTEGER NOT NULL,
    -- The queues that it once had: programs that know no better may still enqueue there.
    former TEXT NOT NULL DEFAULT '[]',
    CONSTRAINT kinds_json CHECK (json_valid(definition) AND json_valid(former))
) STRICT, WITHOUT ROWID;

-- What programs or configuration say of queues, limits and budgets, by path ("limits.tenant"); what holds follows from
-- it and from the overrides. The row without a path says what it was last worked out from.
CREATE TABLE holdfast_policies (
    path TEXT PRIMARY KEY,
    definition TEXT NOT NULL,
    published_at INTEGER NOT NULL,
    CONSTRAINT policies_json CHECK (json_valid(definition))
) STRICT, WITHOUT ROWID;

-- What a worker was started with: fingerprints of definitions by path, so that one that differs can be named.
ALTER TABLE holdfast_workers ADD COLUMN policies TEXT;

-- The limits in force. `definition` is what programs or configuration say; the other columns are what holds, with the
-- changes that people have made at run time. Times are microseconds between two starts, or two enqueues.
CREATE TABLE holdfast_limits (
    name TEXT PRIMARY KEY,
    definition TEXT NOT NULL,
    queue TEXT,
    kinds TEXT NOT NULL,
    path TEXT NOT NULL,
    concurrency INTEGER,
    scope TEXT NOT NULL,
    throttle_us INTEGER,
    burst INTEGER NOT NULL,
    rate_us INTEGER,
    rate_burst INTEGER,
    rotate INTEGER NOT NULL,
    fifo INTEGER NOT NULL,
    metric TEXT,
    changed_at INTEGER NOT NULL,
    CONSTRAINT limits_json CHECK (json_valid(definition) AND json_valid(kinds) AND json_valid(path))
) STRICT, WITHOUT ROWID;

-- How far a throttle and a rate have come for one key (the theoretical arrival times of GCRA, in microseconds), and
-- when jobs that are held for it may go on.
CREATE TABLE holdfast_limit_keys (
    limit_name TEXT NOT NULL,
    key TEXT NOT NULL,
    throttled_until INTEGER,
    rated_until INTEGER,
    wake_at INTEGER,
    seen_at INTEGER NOT NULL,
    PRIMARY KEY (limit_name, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_limit_keys_wake ON holdfast_limit_keys (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX holdfast_limit_keys_seen ON holdfast_limit_keys (seen_at);

-- The slots of a key, made when it is first seen. A slot belongs to a claim: taken with it, given back with its end.
CREATE TABLE holdfast_slots (
    limit_name TEXT NOT NULL,
    key TEXT NOT NULL,
    n INTEGER NOT NULL,
    job_id INTEGER,
    claim INTEGER,
    worker INTEGER,
    taken_at INTEGER,
    PRIMARY KEY (limit_name, key, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_slots_free ON holdfast_slots (limit_name, key, n) WHERE job_id IS NULL;
CREATE INDEX holdfast_slots_job ON holdfast_slots (job_id, claim) WHERE job_id IS NOT NULL;

-- Held with a place: waits for a slot, and keeps its place. Held without one: waits for a time, as for a new budget.
CREATE INDEX holdfast_jobs_held ON holdfast_jobs (limit_key, priority, position)
WHERE state = 'held' AND position IS NOT NULL;
CREATE INDEX holdfast_jobs_deferred ON holdfast_jobs (run_at, id) WHERE state = 'held' AND position IS NULL;
CREATE INDEX holdfast_jobs_fifo ON holdfast_jobs (fifo_key, enqueued_seq) WHERE fifo_key IS NOT NULL;
-- Not of one that was claimed before: it waits for its retry, and what comes then is another job.
CREATE UNIQUE INDEX holdfast_jobs_debounce ON holdfast_jobs (kind, debounce_key)
WHERE debounce_key IS NOT NULL AND state = 'scheduled' AND claim = 0;
