-- End waiting jobs, mark running ones, answer for finished ones. Live rows are locked first and in the order of their
-- ids, so that each is what it was seen to be. A job that comes back to life between the two looks is not answered:
-- locking it now would be out of order, so the caller asks again.
DROP FUNCTION IF EXISTS holdfast.cancel_jobs;
CREATE FUNCTION holdfast.cancel_jobs(p_ids bigint[], p_notes jsonb)
RETURNS TABLE (id bigint, answer text, state text, other bigint)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_waiting bigint[];
    v_running bigint[];
BEGIN
    SELECT
        COALESCE(array_agg(live.id) FILTER (WHERE live.state <> 'running'), '{}'),
        COALESCE(array_agg(live.id) FILTER (WHERE live.state = 'running'), '{}')
    INTO v_waiting, v_running
    FROM (
        SELECT j.id, j.state FROM holdfast.jobs AS j WHERE j.id = ANY (p_ids) ORDER BY j.id FOR UPDATE
    ) AS live;

    RETURN QUERY
    SELECT e.id, 'done', e.verdict, NULL::bigint
    FROM holdfast.end_claims(
        v_waiting, array_fill(0, ARRAY[cardinality(v_waiting)]), 'withdraw', 'cancelled', NULL, NULL, p_notes
    ) AS e
    WHERE e.verdict IS NOT NULL;
    RETURN QUERY
    UPDATE holdfast.jobs AS j
    SET
        cancel_requested_at = COALESCE(j.cancel_requested_at, holdfast.clock()),
        extra = CASE WHEN p_notes IS NULL THEN j.extra ELSE COALESCE(j.extra, '{}') || p_notes END
    WHERE j.id = ANY (v_running)
    RETURNING j.id, 'requested', j.state, NULL::bigint;
    RETURN QUERY
    SELECT f.id, CASE f.state WHEN 'cancelled' THEN 'done' ELSE 'wrong_state' END, f.state, NULL::bigint
    FROM holdfast.finished_jobs AS f
    WHERE f.id = ANY (p_ids) AND NOT f.id = ANY (v_waiting);
END
$$;
