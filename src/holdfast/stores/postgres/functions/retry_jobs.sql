-- Give finished jobs a new life: the same job, its claims counted on, its attempts fresh.
--
-- Rows of history are locked in the order of their ids; then unique keys are taken in the order in which inserts take
-- them. A job that ends between the two looks is not answered: locking it now would be out of order, so the caller asks
-- again.
DROP FUNCTION IF EXISTS holdfast.retry_jobs;
CREATE FUNCTION holdfast.retry_jobs(p_ids bigint[], p_from text DEFAULT NULL)
RETURNS TABLE (id bigint, answer text, state text, other bigint)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := holdfast.clock();
    v_locked bigint[];
    v_old holdfast.history;
BEGIN
    v_locked := ARRAY(
        SELECT h.id FROM holdfast.history AS h
        WHERE h.id = ANY (p_ids) AND h.delete_at > v_now
        ORDER BY h.id
        FOR UPDATE
    );
    FOR v_old IN
        SELECT h.* FROM holdfast.history AS h
        WHERE h.id = ANY (v_locked) AND h.delete_at > v_now
        ORDER BY h.kind, h.unique_key, h.id
    LOOP
        RETURN QUERY SELECT v_old.id, r.answer, r.state, r.other FROM holdfast.retry_job(v_old, v_now, p_from) AS r;
    END LOOP;
    RETURN QUERY
    SELECT j.id, 'wrong_state', j.state, NULL::bigint
    FROM holdfast.jobs AS j
    WHERE j.id = ANY (p_ids) AND NOT j.id = ANY (v_locked);
END
$$;
