-- Let queued jobs, locked by the caller, wait for a key; they keep their place. Others of the same lanes and key that
-- stand near the front are parked with them, or each claim would walk over them.
DROP FUNCTION IF EXISTS holdfast.park_jobs;
CREATE FUNCTION holdfast.park_jobs(p_name text, p_key text, p_ids bigint[]) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_lane record;
BEGIN
    FOR v_lane IN
        WITH parked AS (
            UPDATE holdfast.jobs AS j
            SET state = 'held', limit_key = p_name || '/' || p_key, announced_at = NULL
            WHERE j.id = ANY (p_ids)
            RETURNING j.queue, j.priority
        )

        SELECT DISTINCT queue, priority FROM parked ORDER BY queue, priority
    LOOP
        PERFORM holdfast.park_lane(p_name, p_key, v_lane.queue, v_lane.priority, 0);
    END LOOP;
END
$$;
