-- name: jobs_in_hand
-- Count what is ready on queues that are not paused, each only up to what all workers together could run, and what runs.
SELECT
    (
        SELECT count(*)
        FROM unnest(ARRAY[:queues]) AS lane (queue)
        CROSS JOIN LATERAL (
            SELECT FROM holdfast.jobs AS j
            WHERE j.queue = lane.queue AND j.state = 'queued'
            LIMIT :most
        ) AS ready
        WHERE NOT EXISTS (SELECT FROM holdfast.queues AS q WHERE q.name = lane.queue AND q.paused_at IS NOT NULL)
    ) + (
        SELECT count(*)
        FROM holdfast.jobs AS j
        WHERE j.state = 'running' AND j.queue IN (:queues)
    );
