-- Let the first jobs that are held for a key go on: at their old place, or (`p_fresh`) at the end of their lanes. Jobs in a
-- row go on one at a time: the first of those that live, if it is held. Answers how many, and hints at their queues.
--
-- Whoever gives something back calls this under the lock of the key, in a statement after the one that gave it back.
DROP FUNCTION IF EXISTS holdfast.release_held;
CREATE FUNCTION holdfast.release_held(p_name text, p_key text, p_most integer, p_fresh boolean DEFAULT false)
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    v_limit_key text := p_name || '/' || p_key;
    v_ids bigint[];
    v_queues text[];
    v_jobs integer;
BEGIN
    SELECT array_agg(held.id)
    INTO v_ids
    FROM (
        SELECT j.id
        FROM holdfast.jobs AS j
        WHERE j.state = 'held' AND j.limit_key = v_limit_key AND j.position IS NOT NULL
        ORDER BY j.priority, j.position
        LIMIT p_most
        FOR UPDATE SKIP LOCKED
    ) AS held;
    IF v_ids IS NULL THEN
        RETURN 0;
    END IF;
    IF EXISTS (SELECT FROM holdfast.limits AS l WHERE l.name = p_name AND l.fifo) THEN
        SELECT array_agg(head.id)
        INTO v_ids
        FROM (
            SELECT j.id FROM holdfast.jobs AS j WHERE j.fifo_key = v_limit_key ORDER BY j.enqueued_seq LIMIT 1
        ) AS head;
    END IF;

    WITH released AS (
        UPDATE holdfast.jobs AS j
        SET
            state = 'queued', limit_key = NULL,
            position = CASE WHEN p_fresh THEN nextval('holdfast.position_seq'::regclass) ELSE j.position END
        WHERE j.id = ANY (ARRAY(
                SELECT k.id
                FROM holdfast.jobs AS k
                WHERE k.id = ANY (v_ids) AND k.state = 'held' AND k.limit_key = v_limit_key
                FOR UPDATE SKIP LOCKED
            ))
        RETURNING j.queue
    )

    SELECT count(*), array_agg(DISTINCT queue) INTO v_jobs, v_queues FROM released;
    PERFORM holdfast.hint_at(v_queues);
    RETURN v_jobs;
END
$$;
