-- Mend what no call has mended: give back slots of claims that run no more (`p_leaks`), and let jobs go on that are held
-- for a key which could let them. Looks at `p_limit` keys after a given one; answers where it ended, null at the end.
--
-- The slots of a claim that was ended from outside stay taken while its worker lives and has not told of its end.
DROP FUNCTION IF EXISTS holdfast.sweep_limits;
CREATE FUNCTION holdfast.sweep_limits(
    p_after text, p_limit integer, p_leaks boolean, OUT freed integer, OUT released integer, OUT next_after text
)
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_key record;
    v_ids bigint[];
    v_claims integer[];
    v_free integer;
BEGIN
    freed := 0;
    released := 0;
    IF p_leaks THEN
        SELECT array_agg(s.job_id), array_agg(s.claim)
        INTO v_ids, v_claims
        FROM holdfast.slots AS s
        WHERE s.worker IS NOT NULL
            AND NOT EXISTS (
                SELECT FROM holdfast.jobs AS j WHERE j.id = s.job_id AND j.claim = s.claim AND j.state = 'running'
            )
            AND NOT EXISTS (SELECT FROM holdfast.workers AS w WHERE w.id = s.worker AND w.dead_at IS NULL);
        IF v_ids IS NOT NULL THEN
            freed := cardinality(v_ids);
            PERFORM holdfast.free_slots(v_ids, v_claims, '{}');
        END IF;
    END IF;

    FOR v_key IN
        WITH RECURSIVE keys AS (
            (
                SELECT j.limit_key, 1 AS place
                FROM holdfast.jobs AS j
                WHERE j.state = 'held' AND j.position IS NOT NULL AND j.limit_key > p_after
                ORDER BY j.limit_key
                LIMIT 1
            )
            UNION ALL
            SELECT following.limit_key, keys.place + 1
            FROM keys
            CROSS JOIN LATERAL (
                SELECT j.limit_key
                FROM holdfast.jobs AS j
                WHERE j.state = 'held' AND j.position IS NOT NULL AND j.limit_key > keys.limit_key
                ORDER BY j.limit_key
                LIMIT 1
            ) AS following
            WHERE keys.place < p_limit
        )

        SELECT keys.limit_key, parts.name, parts.key, l.concurrency, l.fifo, l.rotate, l.scope, l.throttle_us
        FROM keys
        CROSS JOIN LATERAL (
            SELECT
                split_part(keys.limit_key, '/', 1) AS name,
                substr(keys.limit_key, strpos(keys.limit_key, '/') + 1) AS key
        ) AS parts
        LEFT JOIN holdfast.limits AS l ON l.name = parts.name
    LOOP
        next_after := v_key.limit_key;
        IF v_key.fifo OR (v_key.concurrency IS NOT NULL AND v_key.scope = 'cluster') THEN
            v_free := CASE WHEN v_key.fifo THEN 1 ELSE v_key.concurrency END - (
                SELECT count(*)
                FROM holdfast.slots AS s
                WHERE s.limit_name = v_key.name AND s.key = v_key.key AND s.job_id IS NOT NULL
            );
        ELSIF v_key.rotate THEN
            v_free := 10;
        ELSIF v_key.throttle_us IS NOT NULL THEN
            v_free := CASE
                WHEN EXISTS (
                    SELECT
                    FROM holdfast.limit_keys AS k
                    WHERE k.limit_name = v_key.name AND k.key = v_key.key AND k.wake_at IS NOT NULL
                ) THEN 0
                ELSE 1
            END;
        ELSE
            v_free := 1000;
        END IF;
        IF v_free > 0 THEN
            -- Whoever parks jobs for it just now looks for free slots himself.
            CONTINUE WHEN NOT pg_try_advisory_xact_lock_shared(holdfast.key_lock(v_key.limit_key));
            released := released + holdfast.release_held(v_key.name, v_key.key, v_free);
        END IF;
    END LOOP;
END
$$;
