-- Let jobs go on that are held for a throttle and can have a permit by now; answers how many.
DROP FUNCTION IF EXISTS holdfast.release_due;
CREATE FUNCTION holdfast.release_due(p_now timestamptz) RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    v_key record;
    v_released integer;
    v_sum integer := 0;
BEGIN
    FOR v_key IN
        SELECT
            k.limit_name, k.key, l.throttle_us * interval '1 microsecond' AS step,
            COALESCE(k.throttled_until, p_now) - (l.burst - 1) * l.throttle_us * interval '1 microsecond' AS next_at,
            GREATEST(floor(extract(epoch FROM
                p_now + interval '100 milliseconds' - COALESCE(k.throttled_until, p_now)
            ) * 1000000 / l.throttle_us)::integer + l.burst, 1) AS most
        FROM holdfast.limit_keys AS k
        LEFT JOIN holdfast.limits AS l ON l.name = k.limit_name
        WHERE k.wake_at <= p_now
        ORDER BY k.wake_at
        LIMIT 100
        FOR UPDATE OF k SKIP LOCKED
    LOOP
        v_released := holdfast.release_held(
            v_key.limit_name, v_key.key, LEAST(COALESCE(v_key.most, 1000), 1000)
        );
        v_sum := v_sum + v_released;
        UPDATE holdfast.limit_keys AS k
        SET
            wake_at = CASE WHEN v_released > 0 THEN GREATEST(
                GREATEST(v_key.next_at, p_now) + v_released * v_key.step - interval '60 milliseconds',
                p_now + interval '20 milliseconds'
            ) END
        WHERE k.limit_name = v_key.limit_name AND k.key = v_key.key;
    END LOOP;
    RETURN v_sum;
END
$$;
