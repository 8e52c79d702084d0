-- Dead letters: what failed, by kind and error, and what people do to many jobs at once.

-- The inbox, append only: written with the end of each job that fails, emptied into the groups below.
CREATE TABLE holdfast_failures (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    job_id INTEGER NOT NULL,
    life INTEGER NOT NULL,
    kind TEXT NOT NULL,
    queue TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    error_class TEXT,
    error TEXT
) STRICT;

-- The groups: how often jobs of a kind have failed with an error, when first and last, and how the last one looked.
CREATE TABLE holdfast_dead_letters (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    queue TEXT NOT NULL,
    error_class TEXT,
    error TEXT,
    seen INTEGER NOT NULL,
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    last_job INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_dead_letters_last ON holdfast_dead_letters (last_at);

-- What is done to all jobs that fit a filter, batch by batch: `step` counts the batches and lets only one of two who
-- work on the same batch do it, the cursor is where the next one begins. `key` finds a run whose reply was lost.
CREATE TABLE holdfast_bulk_runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    verb TEXT NOT NULL,
    filter TEXT NOT NULL,
    priority INTEGER,
    actor TEXT,
    reason TEXT,
    state TEXT NOT NULL DEFAULT 'running',
    expected INTEGER NOT NULL,
    spacing_us INTEGER NOT NULL,
    step INTEGER NOT NULL DEFAULT 0,
    done INTEGER NOT NULL DEFAULT 0,
    refused INTEGER NOT NULL DEFAULT 0,
    cursor_at INTEGER,
    cursor_id INTEGER,
    started_at INTEGER NOT NULL,
    next_at INTEGER NOT NULL,
    ended_at INTEGER,
    CONSTRAINT bulk_runs_verb CHECK (verb IN ('retry', 'delete', 'cancel', 'reprioritise')),
    CONSTRAINT bulk_runs_state CHECK (state IN ('running', 'paused', 'cancelled', 'ended')),
    CONSTRAINT bulk_runs_json CHECK (json_valid(filter))
) STRICT;
CREATE INDEX holdfast_bulk_runs_due ON holdfast_bulk_runs (next_at) WHERE state = 'running';
CREATE INDEX holdfast_bulk_runs_ended ON holdfast_bulk_runs (ended_at) WHERE ended_at IS NOT NULL;

-- Failed jobs by group, and all of them, in the order of lists.
CREATE INDEX holdfast_history_dead ON holdfast_history (kind, error_fingerprint, enqueued_at, id)
WHERE state = 'failed';
CREATE INDEX holdfast_history_failed ON holdfast_history (enqueued_at, id) WHERE state = 'failed';

-- What had failed before this release: named, where nobody had, and put into the inbox.
UPDATE holdfast_history
SET error_fingerprint = COALESCE(error_class, 'unknown')
WHERE state = 'failed' AND error_fingerprint IS NULL;
INSERT INTO holdfast_failures (at, job_id, life, kind, queue, fingerprint, error_class, error)
SELECT finished_at, id, life, kind, queue, error_fingerprint, error_class, substr(error, 1, 500)
FROM holdfast_history
WHERE state = 'failed';
