-- Make due jobs `queued`, earliest first: scheduled ones, then those held for a time, as for the next period of a
-- budget. The arrays name them one by one, if that was asked for.
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
    -- plan: promote_held
    SELECT v_ids || array_agg(due.id)
    INTO v_ids
    FROM (
        SELECT j.id
        FROM holdfast.jobs AS j
        WHERE j.state = 'held' AND j.position IS NULL AND j.run_at <= v_now
        ORDER BY j.run_at, j.id
        LIMIT GREATEST(p_limit - COALESCE(cardinality(v_ids), 0), 0)
        FOR UPDATE SKIP LOCKED
    ) AS due;
    -- plan end
    SELECT array_agg(nextval('holdfast.position_seq'::regclass))
    INTO v_positions
    FROM generate_series(1, cardinality(v_ids));

    WITH promoted AS (
        UPDATE holdfast.jobs
        SET
            state = 'queued', position = v_positions[array_position(v_ids, id)],
            limit_key = CASE WHEN state = 'held' THEN NULL ELSE limit_key END
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

    jobs := jobs + holdfast.release_due(v_now);  -- which hints at their queues by itself
    SELECT GREATEST(ceil(extract(epoch FROM next.at - v_now) * 1000), 0)::bigint
    INTO next_due_ms
    FROM (SELECT LEAST(
        (SELECT k.wake_at FROM holdfast.limit_keys AS k WHERE k.wake_at IS NOT NULL ORDER BY k.wake_at LIMIT 1),
        (SELECT j.run_at FROM holdfast.jobs AS j WHERE j.state = 'scheduled' ORDER BY j.run_at, j.id LIMIT 1),
        (
            SELECT j.run_at
            FROM holdfast.jobs AS j
            WHERE j.state = 'held' AND j.position IS NULL
            ORDER BY j.run_at, j.id
            LIMIT 1
        )
    ) AS at) AS next
    WHERE next.at IS NOT NULL;
    RETURN NEXT;
END
$$;
