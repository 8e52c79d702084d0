-- Put jobs that have just failed into the inbox of dead letters, and into that of alarms where their queue escalates.
-- Both are only added to: jobs that fail together wait for no row.
DROP FUNCTION IF EXISTS holdfast.note_failures;
CREATE FUNCTION holdfast.note_failures(p_ids bigint[]) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO holdfast.failures (at, job_id, life, kind, queue, fingerprint, error_class, error)
    SELECT h.finished_at, h.id, h.life, h.kind, h.queue, h.error_fingerprint, h.error_class, left(h.error, 500)
    FROM holdfast.history AS h
    WHERE h.id = ANY (p_ids) AND h.state = 'failed'
    ORDER BY h.id;
    INSERT INTO holdfast.alarms (at, source, policy, queue, kind, fingerprint, job_id, life, title, details)
    SELECT
        h.finished_at, 'failed', q.escalation, h.queue, h.kind, h.error_fingerprint, h.id, h.life,
        h.kind || ' failed: ' || COALESCE(h.error_class, 'unknown'),
        jsonb_build_object(
            'error_class', h.error_class, 'error', left(h.error, 500), 'attempt', h.attempt,
            'max_attempts', h.max_attempts, 'crashes', h.crashes
        )
    FROM holdfast.history AS h
    INNER JOIN holdfast.queues AS q ON q.name = h.queue
    WHERE h.id = ANY (p_ids) AND h.state = 'failed' AND q.escalation IS NOT NULL
    ORDER BY h.id;
END
$$;
