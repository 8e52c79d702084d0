-- Give back the slots of ended claims that the claim in the same transaction had no use for, and let jobs go on that are
-- held for them.
--
-- Whoever has locked keys or throttles already waits for no key: somebody else might wait for those in the other order.
-- Jobs that are parked for such a key in this moment go on with the next sweep.
DROP FUNCTION IF EXISTS holdfast.free_rest;
CREATE FUNCTION holdfast.free_rest() RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_left text[] := current_setting('holdfast_call.slots')::text[];
    v_may_wait boolean := COALESCE(current_setting('holdfast_call.freed', true), '') <> 'on'
        AND COALESCE(current_setting('holdfast_call.locked', true), '') <> 'on';
    v_key record;
BEGIN
    PERFORM set_config('holdfast_call.slots', '', true);
    FOR v_key IN
        SELECT parts.limit_key, parts.name, parts.key, parts.places
        FROM (
            SELECT
                v_left[i] AS limit_key, split_part(v_left[i], '/', 1) AS name,
                substr(v_left[i], strpos(v_left[i], '/') + 1) AS key, v_left[i + 1]::integer[] AS places
            FROM generate_series(1, cardinality(v_left), 2) AS i
        ) AS parts
        ORDER BY parts.key = '', parts.name, parts.key  -- as pass_gates locks them
    LOOP
        UPDATE holdfast.slots AS s
        SET job_id = NULL, claim = NULL, worker = NULL
        WHERE s.limit_name = v_key.name AND s.key = v_key.key AND s.n = ANY (v_key.places);
        IF v_may_wait THEN
            PERFORM pg_advisory_xact_lock_shared(holdfast.key_lock(v_key.limit_key));
        ELSIF NOT pg_try_advisory_xact_lock_shared(holdfast.key_lock(v_key.limit_key)) THEN
            CONTINUE;
        END IF;
        PERFORM holdfast.release_held(v_key.name, v_key.key, cardinality(v_key.places));
    END LOOP;
END
$$;
