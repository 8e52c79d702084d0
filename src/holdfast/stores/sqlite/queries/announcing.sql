-- name: mark_announced
-- Note that jobs were handed to the delivery.
UPDATE holdfast_jobs
SET announced_at = :now
WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'queued';

-- name: ready_lanes
-- Count the jobs that may run now by queue and priority, reading at most :cap entries of an index for each number.
WITH RECURSIVE lanes (queue, priority) AS (
    SELECT * FROM (
        SELECT queue, priority FROM holdfast_jobs WHERE state = 'queued' ORDER BY queue, priority LIMIT 1
    )
    UNION ALL
    SELECT
        following.queue,
        following.priority
    FROM lanes
    JOIN holdfast_jobs AS following ON following.id = (
        SELECT job.id FROM holdfast_jobs AS job
        WHERE job.state = 'queued' AND (job.queue, job.priority) > (lanes.queue, lanes.priority)
        ORDER BY job.queue, job.priority
        LIMIT 1
    )
)

SELECT
    queue,
    priority,
    (
        SELECT count(*) FROM (
            SELECT 1 FROM holdfast_jobs AS job
            WHERE job.state = 'queued' AND job.queue = lanes.queue AND job.priority = lanes.priority
            LIMIT :cap
        )
    )
FROM lanes
WHERE NOT EXISTS (SELECT 1 FROM holdfast_queues WHERE name = lanes.queue AND paused_at IS NOT NULL);

-- name: unannounced_jobs
-- Read jobs of a lane, first come first, that were not handed to the delivery for so long.
SELECT id, queue, priority, run_at, claim
FROM holdfast_jobs
WHERE state = 'queued' AND queue = :queue AND priority = :priority
    -- Whoever made it ready has had a second to hand it over.
    AND (announced_at <= :now - :age_ms OR (announced_at IS NULL AND run_at <= :now - 1000))
ORDER BY position
LIMIT :limit;
