-- Read the first job of every lane of some queues, and for how long it has been due; one entry of an index for each.
DROP FUNCTION IF EXISTS holdfast.lane_heads;
CREATE FUNCTION holdfast.lane_heads(p_queues text[])
RETURNS TABLE (queue text, priority smallint, waited_ms bigint)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN QUERY
    -- plan: lane_heads
    SELECT
        lane.queue, lane.priority,
        GREATEST(floor(extract(epoch FROM holdfast.clock() - head.run_at) * 1000), 0)::bigint
    FROM (
        SELECT t.queue, p.priority::smallint AS priority
        FROM unnest(p_queues) AS t (queue)
        CROSS JOIN generate_series(0, 10) AS p (priority)
        WHERE NOT EXISTS (
            SELECT FROM holdfast.queues AS q
            WHERE q.name = t.queue AND (q.paused_at IS NOT NULL OR q.closed_until > holdfast.clock())
        )
        OFFSET 0
    ) AS lane
    CROSS JOIN LATERAL (
        SELECT j.run_at
        FROM holdfast.jobs AS j
        WHERE j.queue = lane.queue AND j.priority = lane.priority AND j.state = 'queued'
        ORDER BY j.position
        LIMIT 1
    ) AS head;
    -- plan end
END
$$;
