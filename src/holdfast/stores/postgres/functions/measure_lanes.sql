-- Count the live jobs of each lane and state, reading at most p_cap entries of an index for each number, and write that
-- down. A lane that is gone stays with no jobs, for a day after it was last seen.
--
-- Only what may run now has an index by lanes. Of the other states the first p_cap jobs are read and dealt out.
DROP FUNCTION IF EXISTS holdfast.measure_lanes;
CREATE FUNCTION holdfast.measure_lanes(p_cap integer) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
BEGIN
    WITH RECURSIVE lanes AS (
        (
            SELECT j.queue, j.priority
            FROM holdfast.jobs AS j
            WHERE j.state = 'queued'
            ORDER BY j.queue, j.priority, j.position
            LIMIT 1
        )
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
    ),

    measured AS MATERIALIZED (
        SELECT lanes.queue, lanes.priority, 'queued' AS state, counted.jobs, head.run_at AS oldest_at
        FROM lanes
        CROSS JOIN LATERAL (
            SELECT count(*) AS jobs
            FROM (
                SELECT
                FROM holdfast.jobs AS j
                WHERE j.state = 'queued' AND j.queue = lanes.queue AND j.priority = lanes.priority
                ORDER BY j.position
                LIMIT p_cap
            ) AS sample
        ) AS counted
        CROSS JOIN LATERAL (
            SELECT j.run_at
            FROM holdfast.jobs AS j
            WHERE j.state = 'queued' AND j.queue = lanes.queue AND j.priority = lanes.priority
            ORDER BY j.position
            LIMIT 1
        ) AS head
        UNION ALL
        SELECT sample.queue, sample.priority, sample.state, count(*), NULL
        FROM (
            (
                SELECT j.queue, j.priority, j.state
                FROM holdfast.jobs AS j
                WHERE j.state = 'scheduled'
                ORDER BY j.run_at, j.id
                LIMIT p_cap
            )
            UNION ALL
            (
                SELECT j.queue, j.priority, j.state
                FROM holdfast.jobs AS j
                WHERE j.state = 'running'
                ORDER BY j.worker, j.claim_batch
                LIMIT p_cap
            )
            UNION ALL
            (
                SELECT j.queue, j.priority, j.state
                FROM holdfast.jobs AS j
                WHERE j.state = 'held'
                ORDER BY j.limit_key, j.enqueued_seq
                LIMIT p_cap
            )
            UNION ALL
            (
                SELECT j.queue, j.priority, j.state
                FROM holdfast.jobs AS j
                WHERE j.state = 'blocked'
                ORDER BY j.limit_key, j.enqueued_seq
                LIMIT p_cap
            )
        ) AS sample
        GROUP BY sample.queue, sample.priority, sample.state
    ),

    written AS (
        INSERT INTO holdfast.gauges AS g (queue, priority, state, jobs, oldest_at, measured_at)
        SELECT m.queue, m.priority, m.state, m.jobs, m.oldest_at, holdfast.clock()
        FROM measured AS m
        ORDER BY m.queue, m.priority, m.state
        ON CONFLICT (queue, priority, state) DO UPDATE
        SET jobs = excluded.jobs, oldest_at = excluded.oldest_at, measured_at = excluded.measured_at
    ),

    gone AS (
        SELECT g.queue, g.priority, g.state, g.measured_at < holdfast.clock() - interval '1 day' AS is_old
        FROM holdfast.gauges AS g
        WHERE NOT EXISTS (
            SELECT FROM measured AS m WHERE (m.queue, m.priority, m.state) = (g.queue, g.priority, g.state)
        )
    ),

    emptied AS (
        UPDATE holdfast.gauges AS g
        SET jobs = 0, oldest_at = NULL
        FROM gone
        WHERE (gone.queue, gone.priority, gone.state) = (g.queue, g.priority, g.state) AND NOT gone.is_old AND g.jobs > 0
    )

    DELETE FROM holdfast.gauges AS g
    USING gone
    WHERE (gone.queue, gone.priority, gone.state) = (g.queue, g.priority, g.state) AND gone.is_old;
END
$$;
