-- Make due jobs `queued`, earliest first.
DROP FUNCTION IF EXISTS holdfast.promote_jobs;
CREATE FUNCTION holdfast.promote_jobs(p_limit integer)
RETURNS TABLE (jobs integer, queues text[], next_due_ms bigint)
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := holdfast.clock();
    v_ids bigint[];
    v_positions bigint[];
BEGIN
    -- plan: promote_jobs
    SELECT array_agg(due.id)
    INTO v_ids
    FROM (
        SELECT j.id
        FROM holdfast.jobs AS j
        WHERE j.state = 'scheduled' AND j.run_at <= v_now
        ORDER BY j.run_at, j.id
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    ) AS due;
    -- plan end
    SELECT array_agg(nextval('holdfast.position_seq'::regclass))
    INTO v_positions
    FROM generate_series(1, cardinality(v_ids));

    WITH promoted AS (
        UPDATE holdfast.jobs
        SET state = 'queued', position = v_positions[array_position(v_ids, id)]
        WHERE id = ANY (v_ids)
        RETURNING queue
    )

    SELECT count(*), COALESCE(array_agg(DISTINCT queue), '{}') INTO jobs, queues FROM promoted;

    SELECT GREATEST(ceil(extract(epoch FROM j.run_at - v_now) * 1000), 0)::bigint
    INTO next_due_ms
    FROM holdfast.jobs AS j
    WHERE j.state = 'scheduled'
    ORDER BY j.run_at, j.id
    LIMIT 1;
    RETURN NEXT;
END
$$;
