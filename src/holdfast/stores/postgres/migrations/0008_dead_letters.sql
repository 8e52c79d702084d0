-- Dead letters: what failed, by kind and error, and what people do to many jobs at once.

-- The inbox, append only: written with the end of each job that fails, emptied into the groups below. A thousand jobs
-- that fail together write a thousand rows and wait for none.
CREATE TABLE holdfast.failures (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL,
    job_id bigint NOT NULL,
    life integer NOT NULL,
    kind text NOT NULL,
    queue text NOT NULL,
    fingerprint text NOT NULL,
    error_class text,
    error text
);

-- The groups: how often jobs of a kind have failed with an error, when first and last, and how the last one looked.
CREATE TABLE holdfast.dead_letters (
    id text PRIMARY KEY,
    kind text NOT NULL,
    fingerprint text NOT NULL,
    queue text NOT NULL,
    error_class text,
    error text,
    seen bigint NOT NULL,
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    last_job bigint NOT NULL
);
CREATE INDEX dead_letters_last ON holdfast.dead_letters (last_at);

-- What is done to all jobs that fit a filter, batch by batch: `step` counts the batches and lets only one of two who
-- work on the same batch do it, the cursor is where the next one begins. `key` finds a run whose reply was lost.
CREATE TABLE holdfast.bulk_runs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key text NOT NULL UNIQUE,
    verb text NOT NULL,
    filter jsonb NOT NULL,
    priority smallint,
    actor text,
    reason text,
    state text NOT NULL DEFAULT 'running',
    expected integer NOT NULL,
    spacing_us bigint NOT NULL,
    step integer NOT NULL DEFAULT 0,
    done bigint NOT NULL DEFAULT 0,
    refused bigint NOT NULL DEFAULT 0,
    cursor_at timestamptz,
    cursor_id bigint,
    started_at timestamptz NOT NULL,
    next_at timestamptz NOT NULL,
    ended_at timestamptz,
    CONSTRAINT bulk_runs_verb CHECK (verb IN ('retry', 'delete', 'cancel', 'reprioritise')),
    CONSTRAINT bulk_runs_state CHECK (state IN ('running', 'paused', 'cancelled', 'ended'))
);
CREATE INDEX bulk_runs_due ON holdfast.bulk_runs (next_at) WHERE state = 'running';
CREATE INDEX bulk_runs_ended ON holdfast.bulk_runs (ended_at) WHERE ended_at IS NOT NULL;

-- Failed jobs by group, and all of them, in the order of lists.
CREATE INDEX history_dead ON holdfast.history (kind, error_fingerprint, enqueued_at, id) WHERE state = 'failed';
CREATE INDEX history_failed ON holdfast.history (enqueued_at, id) WHERE state = 'failed';

-- What had failed before this release: named, where nobody had, and put into the inbox.
UPDATE holdfast.history
SET error_fingerprint = COALESCE(error_class, 'unknown')
WHERE state = 'failed' AND error_fingerprint IS NULL;
INSERT INTO holdfast.failures (at, job_id, life, kind, queue, fingerprint, error_class, error)
SELECT finished_at, id, life, kind, queue, error_fingerprint, error_class, left(error, 500)
FROM holdfast.history
WHERE state = 'failed';
