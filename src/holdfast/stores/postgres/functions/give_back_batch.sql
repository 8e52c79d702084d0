-- Give back uncharged what a claim whose reply was lost may have taken.
DROP FUNCTION IF EXISTS holdfast.give_back_batch;
CREATE FUNCTION holdfast.give_back_batch(p_worker bigint, p_batch bigint) RETURNS integer
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_ids bigint[];
    v_claims integer[];
BEGIN
    -- A null batch stands for everything that the worker holds.
    SELECT COALESCE(array_agg(id), '{}'), COALESCE(array_agg(claim), '{}')
    INTO v_ids, v_claims
    FROM holdfast.jobs
    -- guard: lost-batch, without: WHERE state = 'running' AND worker = p_worker;
    WHERE state = 'running' AND worker = p_worker AND (p_batch IS NULL OR claim_batch = p_batch);
    RETURN count(verdict) FROM holdfast.end_claims(v_ids, v_claims, 'interrupt', 'queued', NULL, NULL, NULL);
END
$$;
