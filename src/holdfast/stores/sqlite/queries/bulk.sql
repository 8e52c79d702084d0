-- name: start_bulk
-- Begin a run; the same key is the same run.
INSERT INTO holdfast_bulk_runs (
    key, verb, filter, priority, actor, reason, expected, spacing_us, started_at, next_at
)
VALUES (:key, :verb, :filter, :priority, :actor, :reason, :expected, :spacing_us, :now, :now)
ON CONFLICT (key) DO UPDATE SET key = excluded.key
RETURNING
    id, verb, filter, priority, actor, reason, state, expected, spacing_us, step, done, refused, cursor_at, cursor_id,
    started_at, next_at, ended_at;

-- name: next_bulk
-- Read the run whose turn it is, and how long it has to wait for that.
SELECT
    id, verb, filter, priority, actor, reason, state, expected, spacing_us, step, done, refused, cursor_at, cursor_id,
    started_at, next_at, ended_at,
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
    ended_at = CASE WHEN :cursor_at IS NULL THEN :now END
WHERE id = :id
RETURNING
    id, verb, filter, priority, actor, reason, state, expected, spacing_us, step, done, refused, cursor_at, cursor_id,
    started_at, next_at, ended_at;

-- name: change_bulk
-- Pause, go on with or cancel a run that has not ended.
UPDATE holdfast_bulk_runs
SET state = :state, ended_at = CASE WHEN :state = 'cancelled' THEN COALESCE(ended_at, :now) END
WHERE id = :id AND (state IN ('running', 'paused') OR state = :state)
RETURNING
    id, verb, filter, priority, actor, reason, state, expected, spacing_us, step, done, refused, cursor_at, cursor_id,
    started_at, next_at, ended_at;

-- name: list_bulk
-- Read runs, the newest first, or the one of that number.
SELECT
    id, verb, filter, priority, actor, reason, state, expected, spacing_us, step, done, refused, cursor_at, cursor_id,
    started_at, next_at, ended_at
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
