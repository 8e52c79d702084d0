-- name: start_bulk
-- Begin a run; the same key is the same run.
INSERT INTO holdfast.bulk_runs (
    key, verb, filter, priority, actor, reason, expected, spacing_us, started_at, next_at
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, holdfast.clock(), holdfast.clock())
ON CONFLICT (key) DO UPDATE SET key = excluded.key
RETURNING
    id, verb, filter, priority, actor, reason, state, expected, spacing_us, step, done, refused, cursor_at, cursor_id,
    started_at, next_at, ended_at, errors, error, gave_up;

-- name: next_bulk
-- Read the run whose turn it is, and how long it has to wait for that.
SELECT
    id, verb, filter, priority, actor, reason, state, expected, spacing_us, step, done, refused, cursor_at, cursor_id,
    started_at, next_at, ended_at, errors, error, gave_up,
    GREATEST(0, ceil(extract(epoch FROM next_at - holdfast.clock()) * 1000))::bigint AS wait_ms
FROM holdfast.bulk_runs
WHERE state = 'running'
ORDER BY next_at, step
LIMIT 1;

-- name: lock_bulk
-- Take a run at the step that the caller has seen, and keep it until the commit.
SELECT id FROM holdfast.bulk_runs WHERE id = $1 AND step = $2 AND state = 'running' FOR UPDATE;

-- name: advance_bulk
-- Note what a batch has done and where the next one begins; without a cursor the run has ended.
UPDATE holdfast.bulk_runs
SET
    step = step + 1,
    done = done + $2,
    refused = refused + $3,
    cursor_at = COALESCE($4, cursor_at),
    cursor_id = COALESCE($5, cursor_id),
    next_at = holdfast.clock() + $2 * spacing_us * interval '1 microsecond',
    state = CASE WHEN $4::timestamptz IS NULL THEN 'ended' ELSE state END,
    ended_at = CASE WHEN $4::timestamptz IS NULL THEN holdfast.clock() END,
    errors = 0,
    error = NULL,
    failing_since = NULL
WHERE id = $1
RETURNING
    id, verb, filter, priority, actor, reason, state, expected, spacing_us, step, done, refused, cursor_at, cursor_id,
    started_at, next_at, ended_at, errors, error, gave_up;

-- name: fail_bulk
-- Note why a batch could not be done: the run waits, or is given up after too many errors in a row.
UPDATE holdfast.bulk_runs
SET
    errors = errors + 1,
    error = $4,
    failing_since = COALESCE(failing_since, holdfast.clock()),
    next_at = holdfast.clock() + $5 * interval '1 millisecond',
    gave_up = COALESCE(errors + 1 >= $6 AND failing_since <= holdfast.clock() - $7 * interval '1 millisecond', false),
    state = CASE
        WHEN errors + 1 >= $6 AND failing_since <= holdfast.clock() - $7 * interval '1 millisecond'
            THEN 'cancelled'
        ELSE state
    END,
    ended_at = CASE
        WHEN errors + 1 >= $6 AND failing_since <= holdfast.clock() - $7 * interval '1 millisecond'
            THEN holdfast.clock()
    END
WHERE id = $1 AND step = $2 AND errors = $3 AND state = 'running'
RETURNING
    id, verb, filter, priority, actor, reason, state, expected, spacing_us, step, done, refused, cursor_at, cursor_id,
    started_at, next_at, ended_at, errors, error, gave_up;

-- name: change_bulk
-- Pause, go on with or cancel a run that has not ended; one that waits because of errors goes on at once.
UPDATE holdfast.bulk_runs
SET
    state = $2,
    ended_at = CASE WHEN $2 = 'cancelled' THEN COALESCE(ended_at, holdfast.clock()) END,
    next_at = CASE WHEN $2 = 'running' AND errors > 0 THEN holdfast.clock() ELSE next_at END,
    errors = CASE WHEN $2 = 'running' THEN 0 ELSE errors END,
    error = CASE WHEN $2 <> 'running' THEN error END,
    failing_since = CASE WHEN $2 <> 'running' THEN failing_since END
WHERE id = $1 AND (state IN ('running', 'paused') OR (state = $2 AND NOT gave_up))
RETURNING
    id, verb, filter, priority, actor, reason, state, expected, spacing_us, step, done, refused, cursor_at, cursor_id,
    started_at, next_at, ended_at, errors, error, gave_up;

-- name: list_bulk
-- Read runs, the newest first, or the one of that number.
SELECT
    id, verb, filter, priority, actor, reason, state, expected, spacing_us, step, done, refused, cursor_at, cursor_id,
    started_at, next_at, ended_at, errors, error, gave_up
FROM holdfast.bulk_runs
WHERE $2::bigint IS NULL OR id = $2
ORDER BY id DESC
LIMIT $1;

-- name: prune_bulk
-- Forget runs that have ended long ago.
DELETE FROM holdfast.bulk_runs
WHERE id = ANY (ARRAY(
    SELECT id FROM holdfast.bulk_runs
    WHERE ended_at < holdfast.clock() - $2 * interval '1 day'
    ORDER BY ended_at
    LIMIT $1
))
RETURNING id;
