-- Give one finished job, locked by the caller, a new life; a unique clash leaves it as it is.
DROP FUNCTION IF EXISTS holdfast.retry_job;
CREATE FUNCTION holdfast.retry_job(
    p_old holdfast.history, p_now timestamptz, p_from text DEFAULT NULL,
    OUT answer text, OUT state text, OUT other bigint
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    IF p_old.state = 'completed' THEN
        SELECT 'wrong_state', p_old.state INTO answer, state;
        RETURN;
    END IF;
    -- Too close to its end: a day, or half of a retention that is shorter than two.
    IF p_old.delete_at < p_now + LEAST(interval '1 day', (p_old.delete_at - p_old.finished_at) / 2) THEN
        SELECT 'expiring', p_old.state INTO answer, state;
        RETURN;
    END IF;
    INSERT INTO holdfast.jobs (
        id, kind, queue, priority, state, position, payload, tags, actor, run_at, enqueued_at, enqueued_seq, claim,
        life, max_attempts, max_crashes, timeout_ms, unique_key, idempotency_key, limit_key, fifo_key, debounce_key,
        schedule, fire_time, parent, workflow, origin, extra
    )
    VALUES (
        p_old.id, p_old.kind, p_old.queue, p_old.priority, 'queued', nextval('holdfast.position_seq'::regclass),
        p_old.payload, p_old.tags, p_old.actor, p_now, p_old.enqueued_at, p_old.enqueued_seq, p_old.claim,
        p_old.life + 1, p_old.max_attempts, p_old.max_crashes, p_old.timeout_ms, p_old.unique_key,
        p_old.idempotency_key, p_old.limit_key, p_old.fifo_key, p_old.debounce_key, p_old.schedule, p_old.fire_time,
        p_old.parent, p_old.workflow, p_old.origin,
        NULLIF(p_old.extra - '{traceback,ended_by,cancelled_by,cancel_reason}'::text[], '{}')
    )
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
        PERFORM holdfast.reopen_attempts(p_old);
        PERFORM holdfast.reopen_phases(p_old, p_from);
        DELETE FROM holdfast.history AS h WHERE h.id = p_old.id;
        DELETE FROM holdfast.retention_due AS d WHERE d.job_id = p_old.id;
        IF holdfast.is_watched() THEN
            PERFORM holdfast.publish_waiting(ARRAY[p_old.id]);
        END IF;
        SELECT 'done', 'queued' INTO answer, state;
        RETURN;
    END IF;
    SELECT j.id INTO other
    FROM holdfast.jobs AS j
    WHERE j.kind = p_old.kind AND j.unique_key = p_old.unique_key;
    SELECT 'unique_clash', p_old.state INTO answer, state;
END
$$;
