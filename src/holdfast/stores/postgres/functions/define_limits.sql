-- Let these limits hold and no others, and mark the queues whose jobs may have to wait for one. What did not change is not
-- written. Jobs that are held for a limit that is gone, or has grown, go on with the next sweep.
DROP FUNCTION IF EXISTS holdfast.define_limits;
CREATE FUNCTION holdfast.define_limits(p_limits jsonb, p_gated text[]) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    DELETE FROM holdfast.limits AS l
    WHERE NOT EXISTS (SELECT FROM jsonb_array_elements(p_limits) AS e (limit_row) WHERE e.limit_row ->> 'name' = l.name);
    INSERT INTO holdfast.limits AS l (
        name, definition, queue, kinds, path, concurrency, scope, throttle_us, burst, rate_us, rate_burst, rotate, fifo,
        metric, changed_at
    )
    SELECT
        t.name, t.definition::jsonb, t.queue, t.kinds, t.path, t.concurrency, t.scope, t.throttle_us, t.burst, t.rate_us,
        t.rate_burst, t.rotate, t.fifo, t.metric, holdfast.clock()
    FROM jsonb_to_recordset(p_limits) AS t (
        name text, definition text, queue text, kinds text[], path text[], concurrency integer, scope text,
        throttle_us bigint, burst integer, rate_us bigint, rate_burst integer, rotate boolean, fifo boolean, metric text
    )
    ORDER BY t.name
    ON CONFLICT (name) DO UPDATE
    SET
        definition = excluded.definition, queue = excluded.queue, kinds = excluded.kinds, path = excluded.path,
        concurrency = excluded.concurrency, scope = excluded.scope, throttle_us = excluded.throttle_us,
        burst = excluded.burst, rate_us = excluded.rate_us, rate_burst = excluded.rate_burst, rotate = excluded.rotate,
        fifo = excluded.fifo, metric = excluded.metric, changed_at = excluded.changed_at
    WHERE (
        l.definition, l.queue, l.kinds, l.path, l.concurrency, l.scope, l.throttle_us, l.burst, l.rate_us, l.rate_burst,
        l.rotate, l.fifo, l.metric
    ) IS DISTINCT FROM (
        excluded.definition, excluded.queue, excluded.kinds, excluded.path, excluded.concurrency, excluded.scope,
        excluded.throttle_us, excluded.burst, excluded.rate_us, excluded.rate_burst, excluded.rotate, excluded.fifo,
        excluded.metric
    );

    INSERT INTO holdfast.queues AS q (name, gated)
    SELECT t.name, true FROM unnest(p_gated) AS t (name) GROUP BY t.name ORDER BY t.name
    ON CONFLICT (name) DO UPDATE SET gated = true WHERE NOT q.gated;
    UPDATE holdfast.queues AS q SET gated = false WHERE q.gated AND NOT q.name = ANY (p_gated);
END
$$;
