-- Make due jobs `queued`, earliest first. The arrays name them one by one, if that was asked for.
DROP FUNCTION IF EXISTS holdfast.promote_jobs;
CREATE FUNCTION holdfast.promote_jobs(p_limit integer, p_named boolean DEFAULT false)
RETURNS TABLE (
    jobs integer, queues text[], next_due_ms bigint, lag_ms bigint,
    ids bigint[], all_queues text[], priorities smallint[], dues bigint[], claims integer[]
)
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
        RETURNING id, queue, priority, floor(extract(epoch FROM run_at) * 1000)::bigint AS due_ms, claim
    )

    SELECT
        count(*), COALESCE(array_agg(DISTINCT queue), '{}'),
        GREATEST(COALESCE(floor(extract(epoch FROM v_now) * 1000)::bigint - min(due_ms), 0), 0),
        COALESCE(array_agg(id) FILTER (WHERE p_named), '{}'),
        COALESCE(array_agg(queue) FILTER (WHERE p_named), '{}'),
        COALESCE(array_agg(priority) FILTER (WHERE p_named), '{}'),
        COALESCE(array_agg(due_ms) FILTER (WHERE p_named), '{}'),
        COALESCE(array_agg(claim) FILTER (WHERE p_named), '{}')
    INTO jobs, queues, lag_ms, ids, all_queues, priorities, dues, claims
    FROM promoted;

    SELECT GREATEST(ceil(extract(epoch FROM j.run_at - v_now) * 1000), 0)::bigint
    INTO next_due_ms
    FROM holdfast.jobs AS j
    WHERE j.state = 'scheduled'
    ORDER BY j.run_at, j.id
    LIMIT 1;
    RETURN NEXT;
END
$$;
