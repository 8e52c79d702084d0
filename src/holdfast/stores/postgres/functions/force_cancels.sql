-- End running jobs whose cancellation was requested longer than the grace ago; their handlers are zombies from here.
DROP FUNCTION IF EXISTS holdfast.force_cancels;
CREATE FUNCTION holdfast.force_cancels(p_grace_ms bigint, p_limit integer) RETURNS SETOF bigint
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_ids bigint[];
    v_claims integer[];
BEGIN
    SELECT COALESCE(array_agg(late.id), '{}'), COALESCE(array_agg(late.claim), '{}')
    INTO v_ids, v_claims
    FROM (
        SELECT id, claim
        FROM holdfast.jobs
        WHERE cancel_requested_at <= holdfast.clock() - p_grace_ms * interval '1 millisecond' AND state = 'running'
        ORDER BY cancel_requested_at
        LIMIT p_limit
    ) AS late;
    RETURN QUERY
    SELECT e.id
    FROM holdfast.end_claims(v_ids, v_claims, 'force', 'cancelled', NULL, NULL, NULL) AS e
    WHERE e.verdict IS NOT NULL;
END
$$;
