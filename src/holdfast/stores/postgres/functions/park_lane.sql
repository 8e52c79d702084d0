-- Park the jobs of one key among the first thousand of a lane, but for the first `p_keep` of them; answers how many. Of
-- jobs in a row the first stays, for whom all others wait.
DROP FUNCTION IF EXISTS holdfast.park_lane;
CREATE FUNCTION holdfast.park_lane(p_name text, p_key text, p_queue text, p_priority smallint, p_keep integer)
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    v_parked integer;
BEGIN
    UPDATE holdfast.jobs
    SET state = 'held', limit_key = p_name || '/' || p_key, announced_at = NULL
    WHERE id = ANY (ARRAY(
        SELECT mine.id
        FROM (
            SELECT ahead.id
            FROM (
                SELECT j.id, j.kind, j.payload, j.tags, j.actor, j.position, j.fifo_key
                FROM holdfast.jobs AS j
                WHERE j.queue = p_queue AND j.priority = p_priority AND j.state = 'queued'
                ORDER BY j.position
                LIMIT 1000
            ) AS ahead
            INNER JOIN holdfast.limits AS l ON l.name = p_name AND (l.queue = p_queue OR ahead.kind = ANY (l.kinds))
            WHERE holdfast.limit_key_of(l.path, ahead.payload, ahead.tags, ahead.actor, ahead.kind, p_queue) = p_key
                AND (
                    NOT l.fifo
                    OR (
                        ahead.fifo_key = p_name || '/' || p_key
                        AND ahead.id <> (
                            SELECT f.id
                            FROM holdfast.jobs AS f
                            WHERE f.fifo_key = p_name || '/' || p_key
                            ORDER BY f.enqueued_seq
                            LIMIT 1
                        )
                    )
                )
            ORDER BY ahead.position
            OFFSET p_keep
        ) AS mine
        CROSS JOIN LATERAL (
            SELECT FROM holdfast.jobs AS j WHERE j.id = mine.id AND j.state = 'queued' FOR UPDATE SKIP LOCKED
        ) AS locked
    ));
    GET DIAGNOSTICS v_parked = ROW_COUNT;
    RETURN v_parked;
END
$$;
