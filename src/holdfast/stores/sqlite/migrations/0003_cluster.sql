-- Who leads, what is fired when, who holds which lock, what people have set at run time, and what the services report.

-- A lease with a number that grows at every change of hands; nothing but promptness rests on it.
CREATE TABLE holdfast_leaders (
    name TEXT PRIMARY KEY,
    term INTEGER NOT NULL,
    holder TEXT NOT NULL,
    since INTEGER NOT NULL,
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Settings that people have changed at run time, by path: "services.promote.interval", "maintenance.release".
CREATE TABLE holdfast_overrides (
    path TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    actor TEXT,
    reason TEXT,
    changed_at INTEGER NOT NULL,
    CONSTRAINT overrides_json CHECK (json_valid(value))
) STRICT, WITHOUT ROWID;

-- `definition` is what code or configuration says (times, kind, job, policies), `override` what people have changed of it
-- since. `version` grows with every change, and a fire names it: whoever works by an old definition fires nothing.
CREATE TABLE holdfast_schedules (
    name TEXT PRIMARY KEY,
    origin TEXT NOT NULL,
    definition TEXT NOT NULL,
    override TEXT NOT NULL DEFAULT '{}',
    -- Gone from what the programs define: it fires no more, and nothing about it is forgotten.
    withdrawn_at INTEGER,
    version INTEGER NOT NULL DEFAULT 1,
    defined_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    changed_by TEXT,
    -- The last nominal time that was decided on, whatever came of it, and the next one.
    last_fire INTEGER,
    next_fire INTEGER,
    CONSTRAINT schedules_origin CHECK (origin IN ('code', 'stored')),
    CONSTRAINT schedules_json CHECK (json_valid(definition) AND json_valid(override))
) STRICT, WITHOUT ROWID;

-- One row for each nominal time of a schedule: the job it made, or why it made none.
CREATE TABLE holdfast_fires (
    schedule TEXT NOT NULL,
    nominal INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    job_id INTEGER,
    note TEXT,
    at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (schedule, nominal),
    CONSTRAINT fires_outcome CHECK (outcome IN ('enqueued', 'by_hand', 'overlap', 'missed', 'maintenance'))
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_fires_expiry ON holdfast_fires (expires_at);

CREATE INDEX holdfast_jobs_schedule ON holdfast_jobs (schedule) WHERE schedule IS NOT NULL;

-- A lock is a row, so that people can see it. Tokens come from one counter: of two holders the later has the larger.
-- `owner` is drawn for one block, `context` for the task or thread that runs it, and `place` is its host and process.
INSERT INTO holdfast_counters (name, value) VALUES ('lock_tokens', 0);
CREATE TABLE holdfast_locks (
    name TEXT PRIMARY KEY,
    token INTEGER NOT NULL,
    owner TEXT NOT NULL UNIQUE,
    context TEXT NOT NULL,
    place TEXT NOT NULL,
    worker INTEGER,
    job_id INTEGER,
    claim INTEGER,
    since INTEGER NOT NULL,
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_locks_job ON holdfast_locks (job_id, claim) WHERE job_id IS NOT NULL;
CREATE INDEX holdfast_locks_until ON holdfast_locks (until);

-- Whoever waits has a ticket, and the smallest is served first.
CREATE TABLE holdfast_lock_waiters (
    ticket INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    owner TEXT NOT NULL UNIQUE,
    context TEXT NOT NULL,
    place TEXT NOT NULL,
    worker INTEGER,
    job_id INTEGER,
    claim INTEGER,
    since INTEGER NOT NULL,
    until INTEGER NOT NULL
) STRICT;
CREATE INDEX holdfast_lock_waiters_name ON holdfast_lock_waiters (name, ticket);
CREATE INDEX holdfast_lock_waiters_context ON holdfast_lock_waiters (context);
CREATE INDEX holdfast_lock_waiters_job ON holdfast_lock_waiters (job_id, claim) WHERE job_id IS NOT NULL;
CREATE INDEX holdfast_lock_waiters_until ON holdfast_lock_waiters (until);

-- What each service did last, told by the leader.
CREATE TABLE holdfast_service_reports (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    at INTEGER NOT NULL,
    runs INTEGER NOT NULL,
    scanned INTEGER NOT NULL,
    moved INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    lag_ms INTEGER NOT NULL,
    error TEXT
) STRICT, WITHOUT ROWID;

-- How long the lanes are, counted at most every few seconds and at most to a bound, so that nobody else has to count.
CREATE TABLE holdfast_gauges (
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    state TEXT NOT NULL,
    jobs INTEGER NOT NULL,
    oldest_at INTEGER,
    measured_at INTEGER NOT NULL,
    PRIMARY KEY (queue, priority, state)
) STRICT, WITHOUT ROWID;

-- How many seconds a row stands for: 1 as it was written, then 60, 3,600 and 86,400 as it was folded.
ALTER TABLE holdfast_rollups ADD COLUMN span_s INTEGER NOT NULL DEFAULT 1;
CREATE INDEX holdfast_rollups_fold ON holdfast_rollups (span_s, minute);
