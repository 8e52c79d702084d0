-- Give finished jobs a new life: the same job, its claims counted on, its attempts fresh.
DROP FUNCTION IF EXISTS holdfast.retry_jobs;
CREATE FUNCTION holdfast.retry_jobs(p_ids bigint[])
RETURNS TABLE (id bigint, answer text, state text, other bigint)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := holdfast.clock();
    v_old holdfast.history;
    v_id bigint;
BEGIN
    FOR v_id IN SELECT DISTINCT t.id FROM unnest(p_ids) AS t (id) ORDER BY t.id LOOP
        SELECT v_id, 'not_found', NULL, NULL INTO id, answer, state, other;
        SELECT h.* INTO v_old FROM holdfast.history AS h WHERE h.id = v_id AND h.delete_at > v_now FOR UPDATE;
        IF NOT FOUND THEN
            SELECT j.state INTO state FROM holdfast.jobs AS j WHERE j.id = v_id;
            IF FOUND THEN
                answer := 'wrong_state';
            END IF;
        ELSIF v_old.state = 'completed' THEN
            SELECT 'wrong_state', v_old.state INTO answer, state;
        -- Too close to its end: a day, or half of a retention that is shorter than two.
        ELSIF v_old.delete_at < v_now + LEAST(interval '1 day', (v_old.delete_at - v_old.finished_at) / 2) THEN
            SELECT 'expiring', v_old.state INTO answer, state;
        ELSE
            INSERT INTO holdfast.jobs (
                id, kind, queue, priority, state, position, payload, tags, actor, run_at, enqueued_at, enqueued_seq,
                claim, life, max_attempts, max_crashes, timeout_ms, unique_key, idempotency_key, limit_key, fifo_key,
                debounce_key, schedule, fire_time, parent, workflow, origin, extra
            )
            VALUES (
                v_old.id, v_old.kind, v_old.queue, v_old.priority, 'queued',
                nextval('holdfast.position_seq'::regclass), v_old.payload, v_old.tags, v_old.actor, v_now,
                v_old.enqueued_at, v_old.enqueued_seq, v_old.claim, v_old.life + 1, v_old.max_attempts,
                v_old.max_crashes, v_old.timeout_ms, v_old.unique_key, v_old.idempotency_key, v_old.limit_key,
                v_old.fifo_key, v_old.debounce_key, v_old.schedule, v_old.fire_time, v_old.parent, v_old.workflow,
                v_old.origin, NULLIF(v_old.extra - '{traceback,ended_by,cancelled_by,cancel_reason}'::text[], '{}')
            )
            ON CONFLICT DO NOTHING;
            IF FOUND THEN
                PERFORM holdfast.reopen_attempts(v_old);
                DELETE FROM holdfast.history AS h WHERE h.id = v_id;
                SELECT 'done', 'queued' INTO answer, state;
            ELSE
                SELECT j.id INTO other
                FROM holdfast.jobs AS j
                WHERE j.kind = v_old.kind AND j.unique_key = v_old.unique_key;
                SELECT 'unique_clash', v_old.state INTO answer, state;
            END IF;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
