-- name: start_bulk
-- Begin a run; the same key is the same run.
INSERT INTO holdfast_bulk_runs (
    key, verb, filter, priority, actor, reason, expected, spacing_us, started_at, next_at
)
VALUES (:key, :verb, :filter, :priority, :actor, :reason, :expected, :spacing_us, :now, :now)
ON CONFLICT (key) DO UPDATE SET key = excluded.key
RETURNING
    id, verb, filter, priority, actor, reason, state, expected, spacing_us, step, done, refused, cursor_at, cursor_id,
    started_at, next_at, ended_at, errors, error, gave_up;

-- name: next_bulk
-- Read the run whose turn it is, and how long it has to wait for that.
SELECT
    id, verb, filter, priority, actor, reason, state, expected, spacing_us, step, done, refused, cursor_at, cursor_id,
    started_at, next_at, ended_at, errors, error, gave_up,
    max(0, next_at - :now) AS wait_ms
FROM holdfast_bulk_runs
WHERE state = 'running'
ORDER BY next_at, step
LIMIT 1;

-- name: lock_bulk
-- Look whether a run is still at the step that the caller has seen.
SELECT id FROM holdfast_bulk_runs WHERE id = :id AND step = :step AND state = 'running';

-- name: advance_bulk
-- Note what a batch has done and where the next one begins; without a cursor the run has ended.
UPDATE holdfast_bulk_runs
SET
    step = step + 1,
    done = done + :done,
    refused = refused + :refused,
    cursor_at = COALESCE(:cursor_at, cursor_at),
    cursor_id = COALESCE(:cursor_id, cursor_id),
    next_at = :now + (:done * spacing_us + 999) / 1000,
    state = CASE WHEN :cursor_at IS NULL THEN 'ended' ELSE state END,
    ended_at = CASE WHEN :cursor_at IS NULL THEN :now END,
    errors = 0,
    error = NULL,
    failing_since = NULL
WHERE id = :id
RETURNING
    id, verb, filter, priority, actor, reason, state, expected, spacing_us, step, done, refused, cursor_at, cursor_id,
    started_at, next_at, ended_at, errors, error, gave_up;

-- name: fail_bulk
-- Note why a batch could not be done: the run waits, or is given up after too many errors in a row.
UPDATE holdfast_bulk_runs
SET
    errors = errors + 1,
    error = :error,
    failing_since = COALESCE(failing_since, :now),
    next_at = :now + :delay_ms,
    gave_up = COALESCE(errors + 1 >= :most AND failing_since <= :now - :failing_ms, 0),
    state = CASE
        WHEN errors + 1 >= :most AND failing_since <= :now - :failing_ms
            THEN 'cancelled'
        ELSE state
    END,
    ended_at = CASE
        WHEN errors + 1 >= :most AND failing_since <= :now - :failing_ms
            THEN :now
    END
WHERE id = :id AND step = :step AND errors = :errors AND state = 'running'
RETURNING
    id, verb, filter, priority, actor, reason, state, expected, spacing_us, step, done, refused, cursor_at, cursor_id,
    started_at, next_at, ended_at, errors, error, gave_up;

-- name: change_bulk
-- Pause, go on with or cancel a run that has not ended; one that waits because of errors goes on at once.
UPDATE holdfast_bulk_runs
SET
    state = :state,
    ended_at = CASE WHEN :state = 'cancelled' THEN COALESCE(ended_at, :now) END,
    next_at = CASE WHEN :state = 'running' AND errors > 0 THEN :now ELSE next_at END,
    errors = CASE WHEN :state = 'running' THEN 0 ELSE errors END,
    error = CASE WHEN :state <> 'running' THEN error END,
    failing_since = CASE WHEN :state <> 'running' THEN failing_since END
WHERE id = :id AND (state IN ('running', 'paused') OR (state = :state AND NOT gave_up))
RETURNING
    id, verb, filter, priority, actor, reason, state, expected, spacing_us, step, done, refused, cursor_at, cursor_id,
    started_at, next_at, ended_at, errors, error, gave_up;

-- name: list_bulk
-- Read runs, the newest first, or the one of that number.
SELECT
    id, verb, filter, priority, actor, reason, state, expected, spacing_us, step, done, refused, cursor_at, cursor_id,
    started_at, next_at, ended_at, errors, error, gave_up
FROM holdfast_bulk_runs
WHERE :id IS NULL OR id = :id
ORDER BY id DESC
LIMIT :limit;

-- name: prune_bulk
-- Forget runs that have ended long ago.
DELETE FROM holdfast_bulk_runs
WHERE id IN (
    SELECT id FROM holdfast_bulk_runs WHERE ended_at < :before ORDER BY ended_at LIMIT :limit
);
