-- name: start_bulk
-- Begin a run; the same key is the same run.
INSERT INTO holdfast.bulk_runs (
    key, verb, filter, priority, actor, reason, expected, spacing_us, started_at, next_at
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, holdfast.clock(), holdfast.clock())
ON CONFLICT (key) DO UPDATE SET key = excluded.key
RETURNING
    id, verb, filter, priority, actor, reason, state, expected, spacing_us, step, done, refused, cursor_at, cursor_id,
    started_at, next_at, ended_at;

-- name: next_bulk
-- Read the run whose turn it is, and how long it has to wait for that.
SELECT
    id, verb, filter, priority, actor, reason, state, expected, spacing_us, step, done, refused, cursor_at, cursor_id,
    started_at, next_at, ended_at,
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
    ended_at = CASE WHEN $4::timestamptz IS NULL THEN holdfast.clock() END
WHERE id = $1
RETURNING
    id, verb, filter, priority, actor, reason, state, expected, spacing_us, step, done, refused, cursor_at, cursor_id,
    started_at, next_at, ended_at;

-- name: change_bulk
-- Pause, go on with or cancel a run that has not ended.
UPDATE holdfast.bulk_runs
SET state = $2, ended_at = CASE WHEN $2 = 'cancelled' THEN COALESCE(ended_at, holdfast.clock()) END
WHERE id = $1 AND (state IN ('running', 'paused') OR state = $2)
RETURNING
    id, verb, filter, priority, actor, reason, state, expected, spacing_us, step, done, refused, cursor_at, cursor_id,
    started_at, next_at, ended_at;

-- name: list_bulk
-- Read runs, the newest first, or the one of that number.
SELECT
    id, verb, filter, priority, actor, reason, state, expected, spacing_us, step, done, refused, cursor_at, cursor_id,
    started_at, next_at, ended_at
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
