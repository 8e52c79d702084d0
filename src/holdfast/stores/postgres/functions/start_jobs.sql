-- Record that handlers began; answers the jobs whose claim was still held. `p_ids` must be sorted, so that rows are locked
-- in the order of their ids; who watches is asked when nothing is waited for any more.
DROP FUNCTION IF EXISTS holdfast.start_jobs;
CREATE FUNCTION holdfast.start_jobs(p_ids bigint[], p_claims integer[], p_started_agos bigint[]) RETURNS bigint[]
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_now timestamptz := holdfast.clock();
    v_held bigint[];
    v_new bigint[];
BEGIN
    SELECT
        -- guard: told-start, without: COALESCE(array_agg(held.id), '{}'), COALESCE(array_agg(held.id), '{}')
        COALESCE(array_agg(held.id), '{}'), COALESCE(array_agg(held.id) FILTER (WHERE held.started_at IS NULL), '{}')
    INTO v_held, v_new
    FROM unnest(p_ids, p_claims) AS t (id, claim)
    CROSS JOIN LATERAL (
        SELECT j.id, j.started_at
        FROM holdfast.jobs AS j
        -- guard: start-fence, without: WHERE j.id = t.id AND j.state = 'running'
        WHERE j.id = t.id AND j.claim = t.claim AND j.state = 'running'
        FOR UPDATE
    ) AS held;
    UPDATE holdfast.jobs AS j
    SET started_at = v_now - t.started_ago * interval '1 millisecond'
    FROM unnest(p_ids, p_started_agos) AS t (id, started_ago)
    WHERE j.id = t.id AND j.id = ANY (v_held);
    IF cardinality(v_new) > 0 AND holdfast.is_watched() THEN
        INSERT INTO holdfast.events (at, kind, job_id, task, queue, state, life, claim, attempt)
        SELECT j.started_at, 'job:started', j.id, j.kind, j.queue, 'running', j.life, j.claim, j.attempt
        FROM holdfast.jobs AS j
        WHERE j.id = ANY (v_new)
        ORDER BY j.id;
    END IF;
    RETURN v_held;
END
$$;
