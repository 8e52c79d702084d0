-- name: measure_lanes
-- Count the live jobs of each lane and state, reading at most :cap entries of an index for each number.
INSERT INTO holdfast_gauges (queue, priority, state, jobs, oldest_at, measured_at)
WITH RECURSIVE lanes (queue, priority) AS (
    SELECT * FROM (
        SELECT queue, priority FROM holdfast_jobs WHERE state = 'queued' ORDER BY queue, priority LIMIT 1
    )
    UNION ALL
    -- The next priority of the queue, else the first one of the next queue.
    SELECT
        CASE
            WHEN EXISTS (
                SELECT 1 FROM holdfast_jobs AS job
                WHERE job.state = 'queued' AND job.queue = lanes.queue AND job.priority > lanes.priority
            ) THEN lanes.queue
            ELSE (
                SELECT job.queue FROM holdfast_jobs AS job
                WHERE job.state = 'queued' AND job.queue > lanes.queue
                ORDER BY job.queue
                LIMIT 1
            )
        END,
        COALESCE(
            (
                SELECT job.priority FROM holdfast_jobs AS job
                WHERE job.state = 'queued' AND job.queue = lanes.queue AND job.priority > lanes.priority
                ORDER BY job.priority
                LIMIT 1
            ),
            (
                SELECT job.priority FROM holdfast_jobs AS job
                WHERE job.state = 'queued' AND job.queue > lanes.queue
                ORDER BY job.queue, job.priority
                LIMIT 1
            )
        )
    FROM lanes
    WHERE lanes.queue IS NOT NULL
),

parked (queue, priority, state) AS (
    SELECT * FROM (SELECT queue, priority, state FROM holdfast_jobs WHERE state = 'scheduled' ORDER BY run_at, id LIMIT :cap)
    UNION ALL
    SELECT * FROM (
        SELECT queue, priority, state FROM holdfast_jobs WHERE state = 'running' ORDER BY worker, claim_batch LIMIT :cap
    )
    UNION ALL
    SELECT * FROM (
        SELECT queue, priority, state FROM holdfast_jobs
        WHERE state = 'held' AND state IN ('held', 'blocked')
        ORDER BY limit_key, enqueued_seq
        LIMIT :cap
    )
    UNION ALL
    SELECT * FROM (
        SELECT queue, priority, state FROM holdfast_jobs
        WHERE state = 'blocked' AND state IN ('held', 'blocked')
        ORDER BY limit_key, enqueued_seq
        LIMIT :cap
    )
)

SELECT
    lanes.queue,
    lanes.priority,
    'queued',
    (
        SELECT count(*)
        FROM (
            SELECT 1 FROM holdfast_jobs AS job
            WHERE job.state = 'queued' AND job.queue = lanes.queue AND job.priority = lanes.priority
            LIMIT :cap
        )
    ),
    (
        SELECT job.run_at FROM holdfast_jobs AS job
        WHERE job.state = 'queued' AND job.queue = lanes.queue AND job.priority = lanes.priority
        ORDER BY job.position
        LIMIT 1
    ),
    :now
FROM lanes
WHERE lanes.queue IS NOT NULL
UNION ALL
SELECT queue, priority, state, count(*), NULL, :now FROM parked GROUP BY queue, priority, state
ON CONFLICT (queue, priority, state) DO UPDATE
SET jobs = excluded.jobs, oldest_at = excluded.oldest_at, measured_at = excluded.measured_at;

-- A lane that is gone stays with no jobs, for a day after it was last seen.
UPDATE holdfast_gauges SET jobs = 0, oldest_at = NULL WHERE measured_at <> :now AND jobs > 0;
DELETE FROM holdfast_gauges WHERE measured_at < :now - 86400000;

-- name: read_gauges
-- Read what was measured last; of what was dealt out from one sample, all is capped when the sample was.
SELECT
    queue,
    priority,
    state,
    jobs,
    CASE state WHEN 'queued' THEN jobs ELSE sum(jobs) OVER (PARTITION BY state, measured_at) END >= :cap AS capped,
    oldest_at,
    measured_at
FROM holdfast_gauges
ORDER BY queue, priority, state;
