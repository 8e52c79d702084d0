-- name: mark_announced
-- Note that jobs were handed to the delivery; one that is being claimed at this moment is left alone.
-- No disk is waited for, since a claim passes over a row that is being marked; a mark that is lost costs one more
-- announcement.
UPDATE holdfast.jobs
SET announced_at = holdfast.clock()
WHERE id = ANY (ARRAY(
    SELECT id
    FROM holdfast.jobs
    -- Spelled so that no partial index offers itself, all of which would be read while nothing is known of the table.
    WHERE id = ANY ($1::bigint[]) AND state || '' = 'queued'
    ORDER BY id
    FOR UPDATE SKIP LOCKED
))
AND (SELECT set_config('synchronous_commit', 'off', true)) = 'off';

-- name: ready_lanes
-- Count the jobs that may run now by queue and priority, reading at most $1 entries of an index for each number.
WITH RECURSIVE lanes AS (
    (SELECT queue, priority FROM holdfast.jobs WHERE state = 'queued' ORDER BY queue, priority, position LIMIT 1)
    UNION ALL
    SELECT following.queue, following.priority
    FROM lanes
    CROSS JOIN LATERAL (
        SELECT j.queue, j.priority
        FROM holdfast.jobs AS j
        WHERE j.state = 'queued' AND (j.queue, j.priority) > (lanes.queue, lanes.priority)
        ORDER BY j.queue, j.priority, j.position
        LIMIT 1
    ) AS following
)

SELECT lanes.queue, lanes.priority, counted.jobs
FROM lanes
CROSS JOIN LATERAL (
    SELECT count(*) AS jobs
    FROM (
        SELECT
        FROM holdfast.jobs AS j
        WHERE j.state = 'queued' AND j.queue = lanes.queue AND j.priority = lanes.priority
        LIMIT $1
    ) AS sample
) AS counted
WHERE NOT EXISTS (SELECT FROM holdfast.queues AS q WHERE q.name = lanes.queue AND q.paused_at IS NOT NULL);

-- name: unannounced_jobs
-- Read jobs of a lane, first come first, that were not handed to the delivery for so long.
SELECT id, queue, priority, floor(extract(epoch FROM run_at) * 1000)::bigint AS due_ms, claim
FROM holdfast.jobs
WHERE state = 'queued' AND queue = $1 AND priority = $2
    AND (
        announced_at <= holdfast.clock() - $3 * interval '1 millisecond'
        -- Whoever made it ready has had a second to hand it over.
        OR (announced_at IS NULL AND run_at <= holdfast.clock() - interval '1 second')
    )
ORDER BY position
LIMIT $4;
