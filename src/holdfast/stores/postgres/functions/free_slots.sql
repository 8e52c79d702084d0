-- Give back the slots that ended claims have held, and let jobs go on that were held for them. `p_rows` are the keys of
-- jobs in a row of which one has ended for good; `p_first` and `p_last` the workers among which the holders are. A claim
-- that was taken from its worker frees its slots here as well, when the worker tells that the handler has ended.
--
-- Where a claim follows in the same transaction (`p_hands_over`), slots that nobody waits for stay with the ended claims:
-- take_slots() hands them on, and free_rest() gives back what is left of them.
DROP FUNCTION IF EXISTS holdfast.free_slots;
CREATE FUNCTION holdfast.free_slots(
    p_ids bigint[], p_claims integer[], p_rows text[], p_first bigint DEFAULT 0,
    p_last bigint DEFAULT 9223372036854775807, p_hands_over boolean DEFAULT false
) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_kept text[] := '{}';  -- keys, and after each its slots
    v_has_others boolean := true;
    v_names text[];
    v_keys text[];
    v_counts integer[];
BEGIN
    IF p_hands_over THEN
        SELECT
            COALESCE(array_agg(k.part) FILTER (WHERE NOT k.is_awaited), '{}'), COALESCE(bool_or(k.is_awaited), false)
        INTO v_kept, v_has_others
        FROM (
            SELECT
                unnest(ARRAY[ended.limit_key, ended.places::text]) AS part,
                EXISTS (
                    SELECT
                    FROM holdfast.jobs AS j
                    WHERE j.state = 'held' AND j.limit_key = ended.limit_key AND j.position IS NOT NULL
                ) AS is_awaited
            FROM (
                SELECT s.limit_name || '/' || s.key AS limit_key, array_agg(s.n) AS places
                FROM holdfast.slots AS s
                WHERE s.worker BETWEEN p_first AND p_last
                    AND s.job_id = ANY (p_ids) AND s.claim = p_claims[array_position(p_ids, s.job_id)]
                GROUP BY s.limit_name, s.key
            ) AS ended
        ) AS k;
        IF v_kept <> '{}' THEN
            PERFORM set_config('holdfast_call.slots', v_kept::text, true);
        END IF;
    END IF;
    IF v_has_others OR p_rows IS NOT NULL THEN
        WITH freed AS (
            UPDATE holdfast.slots AS s
            SET job_id = NULL, claim = NULL, worker = NULL
            WHERE s.worker BETWEEN p_first AND p_last
                -- guard: slot-claim, without: AND s.job_id = ANY (p_ids)
                AND s.job_id = ANY (p_ids) AND s.claim = p_claims[array_position(p_ids, s.job_id)]
                AND NOT (s.limit_name || '/' || s.key) = ANY (v_kept)
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
    END IF;
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
