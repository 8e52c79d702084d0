-- name: measure_lanes
-- Count the live jobs of each lane and state, and write that down.
SELECT holdfast.measure_lanes($1);

-- name: read_gauges
-- Read what was measured last; of what was dealt out from one sample, all is capped when the sample was.
SELECT
    queue,
    priority,
    state,
    jobs,
    CASE state WHEN 'queued' THEN jobs ELSE sum(jobs) OVER (PARTITION BY state, measured_at) END >= $1 AS capped,
    oldest_at,
    measured_at
FROM holdfast.gauges
ORDER BY queue, priority, state;
