-- name: promote_jobs
-- Make one due job `queued`.
UPDATE holdfast_jobs
SET state = 'queued', position = :position, limit_key = CASE WHEN state = 'held' THEN NULL ELSE limit_key END
WHERE id = :id AND (state = 'scheduled' OR (state = 'held' AND position IS NULL));

-- name: rescue_jobs
-- Mark workers whose lease had ended by a moment.
UPDATE holdfast_workers SET dead_at = :now WHERE dead_at IS NULL AND lease_until < :before;

-- name: force_cancels
-- Find running jobs whose cancellation was requested too long ago.
SELECT id
FROM holdfast_jobs
WHERE cancel_requested_at <= :now - :grace_ms AND state = 'running'
ORDER BY cancel_requested_at
LIMIT :limit;

-- name: prune_history
-- Delete finished jobs that have outlived their retention.
DELETE FROM holdfast_history
WHERE id IN (
    SELECT history.id
    FROM holdfast_history AS history
    WHERE history.delete_at <= :now  -- guard: kept-history, without: WHERE history.delete_at <= :now + 604800000
        -- What has still to be told of a job keeps it, but not for longer than two weeks.
        AND NOT EXISTS (
            SELECT 1 FROM holdfast_retention_due AS due
            -- guard: untold-farewell, without: WHERE false
            WHERE due.job_id = history.id AND due.what = 'delete' AND due.delete_at > :now - 1209600000
        )
    ORDER BY history.delete_at
    LIMIT :limit
);

-- name: prune_keys
-- Delete idempotency keys that have expired.
DELETE FROM holdfast_idempotency
WHERE (scope, key) IN (
    SELECT scope, key FROM holdfast_idempotency WHERE expires_at <= :now ORDER BY expires_at LIMIT :limit
);

-- name: diagnose
-- Tell the version of the library.
SELECT sqlite_version();

-- name: read_series
-- Count what ended since a time per step, queue and state.
SELECT minute / :step * :step AS at, queue, state, sum(jobs) FROM holdfast_rollups
WHERE minute >= :since GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;

-- name: read_rollups
-- Read the counts since a time, of one queue or of all.
SELECT queue, kind, state, jobs, wait, run
FROM holdfast_rollups
WHERE minute >= :since AND (:queue IS NULL OR queue = :queue)
ORDER BY queue, kind, state;
