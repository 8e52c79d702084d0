-- Give the starts of jobs, queued and locked by the caller, the times that the throttles on them leave, at most 100 ms
-- ahead; the others are parked, and the row of their key says when to let the next go on. Starts of one key are spaced
-- (GCRA: the row holds when the next is due, and `burst` of them may come together).
--
-- `permits` maps ids to microseconds since 1970.
DROP FUNCTION IF EXISTS holdfast.space_starts;
CREATE FUNCTION holdfast.space_starts(
    p_ids bigint[], OUT permits jsonb, OUT refused bigint[], OUT has_spaced boolean
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_group record;
    v_now timestamptz := holdfast.clock();
    v_until timestamptz;
    v_at timestamptz;
    v_given integer;
    v_ids bigint[];
BEGIN
    permits := '{}';
    refused := '{}';
    has_spaced := false;
    FOR v_group IN
        SELECT
            l.name, k.key, l.throttle_us * interval '1 microsecond' AS step,
            (l.burst - 1) * l.throttle_us * interval '1 microsecond' AS ahead, array_agg(j.id ORDER BY t.place) AS ids
        FROM unnest(p_ids) WITH ORDINALITY AS t (id, place)
        INNER JOIN holdfast.jobs AS j ON j.id = t.id
        INNER JOIN holdfast.queues AS q ON q.name = j.queue AND q.gated
        INNER JOIN holdfast.limits AS l ON l.queue = j.queue OR j.kind = ANY (l.kinds)
        CROSS JOIN LATERAL (
            SELECT CASE
                WHEN l.path = '{}' THEN ''  -- a call costs more than all the rest of this line
                ELSE holdfast.limit_key_of(l.path, j.payload, j.tags, j.actor, j.kind, j.queue)
            END AS key
        ) AS k
        WHERE l.throttle_us IS NOT NULL
        GROUP BY l.name, k.key, l.throttle_us, l.burst
        ORDER BY l.name, k.key
    LOOP
        v_ids := ARRAY(SELECT t.id FROM unnest(v_group.ids) AS t (id) WHERE NOT t.id = ANY (refused));
        CONTINUE WHEN cardinality(v_ids) = 0;
        has_spaced := true;
        INSERT INTO holdfast.limit_keys (limit_name, key, seen_at)
        VALUES (v_group.name, v_group.key, v_now)
        ON CONFLICT DO NOTHING;
        SELECT COALESCE(k.throttled_until, v_now)
        INTO v_until
        FROM holdfast.limit_keys AS k
        WHERE k.limit_name = v_group.name AND k.key = v_group.key
        FOR UPDATE;
        v_given := 0;
        LOOP
            v_at := GREATEST(v_now, v_until - v_group.ahead);
            EXIT WHEN v_given = cardinality(v_ids) OR v_at > v_now + interval '100 milliseconds';
            v_given := v_given + 1;
            v_until := GREATEST(v_now, v_until) + v_group.step;
            permits := permits || jsonb_build_object(
                v_ids[v_given],
                GREATEST(
                    (permits ->> v_ids[v_given]::text)::bigint, floor(extract(epoch FROM v_at) * 1000000)::bigint
                )
            );
        END LOOP;
        -- A little earlier than a permit can be had, so that the job is there when it can.
        UPDATE holdfast.limit_keys AS k
        SET
            throttled_until = v_until, seen_at = v_now,
            wake_at = CASE
                WHEN v_given < cardinality(v_ids) THEN v_until - v_group.ahead - interval '60 milliseconds'
                ELSE k.wake_at
            END
        WHERE k.limit_name = v_group.name AND k.key = v_group.key;
        IF v_given < cardinality(v_ids) THEN
            refused := refused || v_ids[v_given + 1:];
            PERFORM holdfast.park_jobs(v_group.name, v_group.key, v_ids[v_given + 1:]);
        END IF;
    END LOOP;
END
$$;
