-- Remove from a job what the database may refuse to move: its notes, and its report. A waiting job has no claim to name.
DROP FUNCTION IF EXISTS holdfast.strip_job;
CREATE FUNCTION holdfast.strip_job(p_id bigint, p_claim integer, p_is_running boolean) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE holdfast.jobs
    SET extra = NULL
    WHERE id = p_id AND CASE WHEN p_is_running THEN state = 'running' AND claim = p_claim ELSE state <> 'running' END;
    IF FOUND THEN
        DELETE FROM holdfast.progress WHERE job_id = p_id;
        DELETE FROM holdfast.phases WHERE job_id = p_id;
        DELETE FROM holdfast.item_sets WHERE job_id = p_id;
        DELETE FROM holdfast.items WHERE job_id = p_id;
        DELETE FROM holdfast.logs WHERE job_id = p_id;
    END IF;
END
$$;
