-- End waiting jobs, mark running ones. A job that changes between the two looks is looked at again.
DROP FUNCTION IF EXISTS holdfast.cancel_jobs;
CREATE FUNCTION holdfast.cancel_jobs(p_ids bigint[], p_notes jsonb)
RETURNS TABLE (id bigint, answer text, state text)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_open bigint[] := p_ids;
    v_done bigint[];
BEGIN
    FOR round IN 1..3 LOOP
        SELECT COALESCE(array_agg(e.id) FILTER (WHERE e.verdict IS NOT NULL), '{}')
        INTO v_done
        FROM holdfast.end_claims(
            v_open, array_fill(0, ARRAY[cardinality(v_open)]), 'withdraw', 'cancelled', NULL, NULL, p_notes
        ) AS e;
        RETURN QUERY SELECT t.id, 'done', 'cancelled' FROM unnest(v_done) AS t (id);
        v_open := ARRAY(SELECT t.id FROM unnest(v_open) AS t (id) WHERE NOT t.id = ANY (v_done) ORDER BY t.id);

        WITH marked AS (
            UPDATE holdfast.jobs AS j
            SET
                cancel_requested_at = COALESCE(j.cancel_requested_at, holdfast.clock()),
                extra = CASE WHEN p_notes IS NULL THEN j.extra ELSE COALESCE(j.extra, '{}') || p_notes END
            WHERE j.id = ANY (v_open) AND j.state = 'running'
            RETURNING j.id
        )

        SELECT COALESCE(array_agg(marked.id), '{}') INTO v_done FROM marked;
        RETURN QUERY SELECT t.id, 'requested', 'running' FROM unnest(v_done) AS t (id);
        v_open := ARRAY(SELECT t.id FROM unnest(v_open) AS t (id) WHERE NOT t.id = ANY (v_done) ORDER BY t.id);

        RETURN QUERY
        SELECT h.id, CASE h.state WHEN 'cancelled' THEN 'done' ELSE 'wrong_state' END, h.state
        FROM holdfast.history AS h
        WHERE h.id = ANY (v_open) AND h.delete_at > holdfast.clock();
        v_open := ARRAY(SELECT j.id FROM holdfast.jobs AS j WHERE j.id = ANY (v_open) ORDER BY j.id);
        EXIT WHEN v_open = '{}';
    END LOOP;
END
$$;
