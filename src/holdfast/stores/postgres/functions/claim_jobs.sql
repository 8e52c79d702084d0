-- Take jobs from lanes, in the order of the lanes, under one claim batch. `p_is_gated` is for callers who know already
-- whether any of them have limits.
--
-- One plan exists whatever the statistics say: equality per lane on the partial index of queued jobs, an array of ids
-- picked once, and no scan, sort or join method that a stale estimate could prefer.
DROP FUNCTION IF EXISTS holdfast.claim_jobs;
CREATE FUNCTION holdfast.claim_jobs(
    p_worker bigint, p_batch bigint, p_limit integer, p_queues text[], p_priorities smallint[], p_limits integer[],
    p_afters bigint[], p_is_gated boolean DEFAULT NULL
) RETURNS SETOF holdfast.jobs
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    PERFORM holdfast.require_worker(p_worker);
    IF COALESCE(p_is_gated, EXISTS (SELECT FROM holdfast.queues AS q WHERE q.name = ANY (p_queues) AND q.gated)) THEN
        RETURN QUERY
        SELECT *
        FROM holdfast.claim_gated(p_worker, p_batch, p_limit, p_queues, p_priorities, p_limits, p_afters);
        RETURN;
    END IF;
    RETURN QUERY
    -- plan: claim_jobs
    UPDATE holdfast.jobs
    SET
        state = 'running', claim = claim + 1, attempt = attempt + 1, worker = p_worker, claim_batch = p_batch,
        claimed_at = holdfast.clock(), started_at = NULL
    WHERE id = ANY (ARRAY(
        SELECT picked.id
        FROM (
            SELECT t.queue, t.priority, t.most, t.after
            FROM unnest(p_queues, p_priorities, p_limits, p_afters) AS t (queue, priority, most, after)
            WHERE NOT EXISTS (
                SELECT FROM holdfast.queues AS q
                WHERE q.name = t.queue AND (q.paused_at IS NOT NULL OR q.closed_until > holdfast.clock())
            )
            OFFSET 0
        ) AS lane
        CROSS JOIN LATERAL (
            SELECT j.id
            FROM holdfast.jobs AS j
            WHERE j.queue = lane.queue AND j.priority = lane.priority AND j.state = 'queued'
                AND j.position > lane.after
            ORDER BY j.position
            LIMIT lane.most
            FOR UPDATE SKIP LOCKED
        ) AS picked
        LIMIT p_limit
    ))
    RETURNING *;
    -- plan end
END
$$;
