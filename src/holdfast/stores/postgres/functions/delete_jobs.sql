-- Delete finished jobs; answers their states. Rows are locked in the order of their ids, and who watches is asked when
-- nothing is waited for any more.
DROP FUNCTION IF EXISTS holdfast.delete_jobs;
CREATE FUNCTION holdfast.delete_jobs(p_ids bigint[]) RETURNS TABLE (id bigint, state text)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_ids bigint[] := ARRAY(
        SELECT h.id FROM holdfast.history AS h
        WHERE h.id = ANY (p_ids) AND h.delete_at > holdfast.clock()
        ORDER BY h.id
        FOR UPDATE
    );
BEGIN
    IF holdfast.is_watched() THEN
        INSERT INTO holdfast.events (at, kind, job_id, task, queue, state, life, claim, attempt)
        SELECT holdfast.clock(), 'job:deleted', h.id, h.kind, h.queue, h.state, h.life, h.claim, h.attempt
        FROM holdfast.history AS h
        WHERE h.id = ANY (v_ids)
        ORDER BY h.id;
    END IF;
    DELETE FROM holdfast.retention_due WHERE job_id = ANY (v_ids);
    RETURN QUERY DELETE FROM holdfast.history AS h WHERE h.id = ANY (v_ids) RETURNING h.id, h.state;
END
$$;
