-- Look at jobs that were stored a moment ago in queues with limits. Those that run one after the other get their place in
-- the row. Where a hundred others are held for the same key, new ones are held with them: a claim would only park them.
--
-- No lock is taken, since the caller's transaction may go on for long. Should all the others have gone on before it ends,
-- the next sweep lets these go on too.
DROP FUNCTION IF EXISTS holdfast.hold_back;
CREATE FUNCTION holdfast.hold_back(p_ids bigint[]) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_group record;
BEGIN
    FOR v_group IN
        SELECT
            l.name || '/' || k.key AS limit_key, l.fifo, array_agg(j.id) AS ids
        FROM unnest(p_ids) AS t (id)
        INNER JOIN holdfast.jobs AS j ON j.id = t.id
        INNER JOIN holdfast.queues AS q ON q.name = j.queue AND q.gated
        INNER JOIN holdfast.limits AS l ON l.queue = j.queue OR j.kind = ANY (l.kinds)
        CROSS JOIN LATERAL (
            SELECT CASE
                WHEN l.path = '{}' THEN ''  -- a call costs more than all the rest of this line
                ELSE holdfast.limit_key_of(l.path, j.payload, j.tags, j.actor, j.kind, j.queue)
            END AS key
        ) AS k
        WHERE l.fifo OR l.rotate OR l.throttle_us IS NOT NULL OR (l.concurrency IS NOT NULL AND l.scope = 'cluster')
        GROUP BY l.name, k.key, l.fifo
        ORDER BY l.name, k.key
    LOOP
        IF v_group.fifo THEN
            UPDATE holdfast.jobs AS j
            SET
                fifo_key = v_group.limit_key,
                enqueued_seq = COALESCE(j.enqueued_seq, j.position, nextval('holdfast.position_seq'::regclass))
            WHERE j.id = ANY (v_group.ids);
        END IF;
        IF EXISTS (
            SELECT
            FROM holdfast.jobs AS j
            WHERE j.state = 'held' AND j.limit_key = v_group.limit_key AND j.position IS NOT NULL
            OFFSET 99
        ) THEN
            UPDATE holdfast.jobs AS j
            SET state = 'held', limit_key = v_group.limit_key
            WHERE j.id = ANY (v_group.ids) AND j.state = 'queued';
        END IF;
    END LOOP;
END
$$;
