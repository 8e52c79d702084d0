-- Give back the slots that ended claims have held, and let jobs go on that were held for them. `p_rows` are the keys of
-- jobs in a row of which one has ended for good. A claim that was taken from its worker frees its slots here as well, when
-- the worker tells that the handler has ended.
DROP FUNCTION IF EXISTS holdfast.free_slots;
CREATE FUNCTION holdfast.free_slots(p_ids bigint[], p_claims integer[], p_rows text[]) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_names text[];
    v_keys text[];
    v_counts integer[];
BEGIN
    WITH freed AS (
        UPDATE holdfast.slots AS s
        SET job_id = NULL, claim = NULL, worker = NULL
        WHERE s.job_id = ANY (p_ids)
            AND s.claim = (
                SELECT t.claim FROM unnest(p_ids, p_claims) AS t (id, claim) WHERE t.id = s.job_id LIMIT 1
            )
        RETURNING s.limit_name, s.key
    ),

    ended AS (
        SELECT limit_name, key, 1 AS freed FROM freed
        UNION ALL
        SELECT split_part(r.fifo_key, '/', 1), substr(r.fifo_key, strpos(r.fifo_key, '/') + 1), 1
        FROM unnest(p_rows) AS r (fifo_key)
    )

    SELECT array_agg(k.limit_name), array_agg(k.key), array_agg(k.freed)
    INTO v_names, v_keys, v_counts
    FROM (
        SELECT e.limit_name, e.key, sum(e.freed)::integer AS freed
        FROM ended AS e
        GROUP BY e.limit_name, e.key
        ORDER BY e.key = '', e.limit_name, e.key  -- as pass_gates locks them
    ) AS k;
    IF v_names IS NULL THEN
        RETURN;
    END IF;

    PERFORM set_config('holdfast_call.freed', 'on', true);
    PERFORM pg_advisory_xact_lock_shared(holdfast.key_lock(k.name || '/' || k.key))
    FROM unnest(v_names, v_keys) WITH ORDINALITY AS k (name, key, place);
    PERFORM holdfast.release_held(k.name, k.key, k.freed)
    FROM unnest(v_names, v_keys, v_counts) AS k (name, key, freed);
END
$$;
