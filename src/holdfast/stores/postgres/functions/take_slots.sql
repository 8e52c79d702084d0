-- Let jobs have free slots of one key, the first jobs first; answers how many of them got one, or null while somebody else
-- makes the slots of that key, which is done when it is first seen. A slot that is taken or given back in this moment is
-- passed over: nobody waits for a slot. Slots that ended claims of the same transaction have left come first.
DROP FUNCTION IF EXISTS holdfast.take_slots;
CREATE FUNCTION holdfast.take_slots(
    p_name text, p_key text, p_most integer, p_ids bigint[], p_claims integer[], p_worker bigint
) RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    v_taken integer := 0;
    v_rows integer;
    v_slots integer[];
    v_beyond integer;
    v_left text[] := NULLIF(current_setting('holdfast_call.slots', true), '')::text[];
    v_at integer := array_position(v_left, p_name || '/' || p_key) + 1;
    v_places integer[];
BEGIN
    -- Where there were more slots once, and their holders still run, as many of the others stay free.
    SELECT count(*)
    INTO v_beyond
    FROM holdfast.slots AS s
    WHERE s.limit_name = p_name AND s.key = p_key AND s.n > p_most AND s.job_id IS NOT NULL;
    IF v_at IS NOT NULL AND v_beyond = 0 THEN
        v_places := v_left[v_at]::integer[];
        v_slots := v_places[:cardinality(p_ids)];
        UPDATE holdfast.slots AS s
        SET
            job_id = p_ids[array_position(v_slots, s.n)], claim = p_claims[array_position(v_slots, s.n)],
            worker = p_worker, taken_at = holdfast.clock()
        WHERE s.limit_name = p_name AND s.key = p_key AND s.n = ANY (v_slots);
        v_taken := cardinality(v_slots);
        IF cardinality(v_places) > v_taken THEN
            v_left[v_at] := v_places[v_taken + 1:]::text;
        ELSE
            v_left := v_left[:v_at - 2] || v_left[v_at + 1:];
        END IF;
        PERFORM set_config('holdfast_call.slots', CASE WHEN v_left = '{}' THEN '' ELSE v_left::text END, true);
        IF v_taken = cardinality(p_ids) THEN
            RETURN v_taken;
        END IF;
    END IF;
    FOR round IN 1..2 LOOP
        SELECT array_agg(free.n)
        INTO v_slots
        FROM (
            SELECT s.n
            FROM holdfast.slots AS s
            WHERE s.limit_name = p_name AND s.key = p_key AND s.job_id IS NULL AND s.n <= p_most
            ORDER BY s.n
            LIMIT cardinality(p_ids) - v_taken
            OFFSET v_beyond
            FOR UPDATE SKIP LOCKED
        ) AS free;
        UPDATE holdfast.slots AS s
        SET
            job_id = p_ids[v_taken + array_position(v_slots, s.n)],
            claim = p_claims[v_taken + array_position(v_slots, s.n)], worker = p_worker, taken_at = holdfast.clock()
        WHERE s.limit_name = p_name AND s.key = p_key AND s.n = ANY (v_slots);
        GET DIAGNOSTICS v_rows = ROW_COUNT;
        v_taken := v_taken + v_rows;
        EXIT WHEN v_taken >= cardinality(p_ids) OR round = 2 OR EXISTS (
            SELECT FROM holdfast.slots AS s WHERE s.limit_name = p_name AND s.key = p_key AND s.n = p_most
        );
        IF NOT pg_try_advisory_xact_lock(holdfast.key_lock('make ' || p_name || '/' || p_key)) THEN
            RETURN NULLIF(v_taken, 0);
        END IF;
        INSERT INTO holdfast.slots (limit_name, key, n, taken_at)
        SELECT p_name, p_key, n, holdfast.clock() FROM generate_series(1, p_most) AS n
        ON CONFLICT DO NOTHING;
    END LOOP;
    RETURN v_taken;
END
$$;
