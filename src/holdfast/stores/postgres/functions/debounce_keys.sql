-- Tell which jobs are debounced, by their places in the call: the key that those of their kind share. Null when none is.
-- A job that names its own time is not: it is to run then.
DROP FUNCTION IF EXISTS holdfast.debounce_keys;
CREATE FUNCTION holdfast.debounce_keys(
    p_kinds text[], p_queues text[], p_payloads jsonb[], p_tags jsonb[], p_actors text[], p_run_ats timestamptz[],
    p_delays bigint[]
) RETURNS text[]
LANGUAGE plpgsql STABLE
AS $$
BEGIN
    RETURN (
        SELECT CASE
            WHEN bool_or(k.name IS NOT NULL) THEN array_agg(
                CASE
                    WHEN k.name IS NOT NULL
                        THEN holdfast.limit_key_of(k.debounce_path, t.payload, t.tags, t.actor, t.kind, t.queue)
                END
                ORDER BY t.ordinal
            )
        END
        FROM unnest(p_kinds, p_queues, p_payloads, p_tags, p_actors, p_run_ats, p_delays)
            WITH ORDINALITY AS t (kind, queue, payload, tags, actor, run_at, delay, ordinal)
        LEFT JOIN holdfast.kinds AS k
            ON k.name = t.kind AND k.debounce_ms IS NOT NULL AND t.run_at IS NULL AND t.delay IS NULL
    );
END
$$;
