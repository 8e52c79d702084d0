-- Tell those who watch that jobs wait: stored just now, or given a new life.
DROP FUNCTION IF EXISTS holdfast.publish_waiting;
CREATE FUNCTION holdfast.publish_waiting(p_ids bigint[]) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO holdfast.events (at, kind, job_id, task, queue, state, life, claim, attempt, data)
    SELECT
        holdfast.clock(), 'job:enqueued', j.id, j.kind, j.queue, j.state, j.life, j.claim, j.attempt,
        CASE WHEN j.state = 'scheduled' THEN jsonb_build_object('run_at', j.run_at) END
    FROM unnest(p_ids) WITH ORDINALITY AS t (id, ordinal)
    INNER JOIN holdfast.jobs AS j ON j.id = t.id
    ORDER BY t.ordinal;
END
$$;
