-- Take the named jobs if they may run now: the same gates as a claim by lanes.
DROP FUNCTION IF EXISTS holdfast.claim_jobs_by_id;
CREATE FUNCTION holdfast.claim_jobs_by_id(p_worker bigint, p_batch bigint, p_limit integer, p_ids bigint[])
RETURNS SETOF holdfast.jobs
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    PERFORM holdfast.require_worker(p_worker);
    IF EXISTS (
        SELECT
        FROM unnest(p_ids) AS asked (id)
        INNER JOIN holdfast.jobs AS j ON j.id = asked.id
        INNER JOIN holdfast.queues AS q ON q.name = j.queue
        WHERE q.gated
    ) THEN
        RETURN QUERY
        SELECT * FROM holdfast.claim_gated(p_worker, p_batch, p_limit, NULL, NULL, NULL, NULL, p_ids);
        RETURN;
    END IF;
    RETURN QUERY
    -- plan: claim_jobs_by_id
    UPDATE holdfast.jobs
    SET
        state = 'running', claim = claim + 1, attempt = attempt + 1, worker = p_worker, claim_batch = p_batch,
        claimed_at = holdfast.clock(), started_at = NULL
    WHERE id = ANY (ARRAY(
        SELECT picked.id
        FROM unnest(p_ids) AS asked (id)
        CROSS JOIN LATERAL (
            SELECT j.id
            FROM holdfast.jobs AS j
            WHERE j.id = asked.id AND j.state = 'queued'
                AND NOT EXISTS (
                    SELECT FROM holdfast.queues AS q
                    WHERE q.name = j.queue AND (q.paused_at IS NOT NULL OR q.closed_until > holdfast.clock())
                )
            FOR UPDATE SKIP LOCKED
        ) AS picked
        LIMIT p_limit
    ))
    RETURNING *;
    -- plan end
END
$$;
