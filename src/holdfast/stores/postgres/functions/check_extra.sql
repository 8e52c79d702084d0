-- Say what is wrong with the notes that another program gives a job, or null: a worker would stumble over them.
DROP FUNCTION IF EXISTS holdfast.check_extra;
CREATE FUNCTION holdfast.check_extra(p_extra jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    v_note record;
    v_expected text;
BEGIN
    IF jsonb_typeof(p_extra) <> 'object' THEN
        RETURN 'extra: expected an object';
    END IF;
    FOR v_note IN SELECT key, value FROM jsonb_each(p_extra) LOOP
        v_expected := CASE v_note.key
            WHEN 'phases' THEN CASE
                WHEN jsonb_typeof(v_note.value) <> 'array' OR EXISTS (
                    SELECT
                    FROM jsonb_array_elements(v_note.value) AS phase
                    WHERE CASE
                        WHEN jsonb_typeof(phase) <> 'array' OR jsonb_array_length(phase) <> 2
                            OR jsonb_typeof(phase -> 0) <> 'string' OR jsonb_typeof(phase -> 1) <> 'number' THEN true
                        ELSE octet_length(phase ->> 0) NOT BETWEEN 1 AND 128
                            OR (phase ->> 1)::numeric NOT BETWEEN 1e-300 AND 1e300
                    END
                ) THEN 'a list of [name, weight], with names of 1 to 128 bytes and weights above 0'
            END
            WHEN 'on_restart' THEN CASE
                WHEN v_note.value NOT IN ('"fail"', '"requeue"') THEN '"fail" or "requeue"'
            END
            WHEN 'webhook' THEN CASE
                WHEN jsonb_typeof(v_note.value) <> 'object' OR jsonb_typeof(v_note.value -> 'url') IS DISTINCT FROM 'string'
                    OR v_note.value ->> 'url' !~* '^https?://[^\s]+$' OR length(v_note.value ->> 'url') > 2000
                    OR v_note.value - '{url,events}'::text[] <> '{}'
                    OR NOT COALESCE(
                        v_note.value -> 'events' <@ '["job:completed", "job:failed", "job:cancelled"]'
                        AND jsonb_typeof(v_note.value -> 'events') = 'array'
                        AND v_note.value -> 'events' <> '[]',
                        NOT v_note.value ? 'events'
                    )
                    THEN '{"url": "https://...", "events": ["job:completed", "job:failed", "job:cancelled"]}'
            END
            WHEN 'estimate' THEN CASE
                WHEN CASE jsonb_typeof(v_note.value)
                    WHEN 'number' THEN v_note.value::numeric NOT BETWEEN 0 AND 9223372036854775807
                        OR v_note.value::numeric % 1 <> 0
                    ELSE true
                END THEN 'a whole number from 0 to 9223372036854775807'
            END
            WHEN 'traceparent' THEN CASE
                WHEN v_note.value::text !~ '^"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"$' THEN 'a traceparent of W3C'
            END
            WHEN 'tracestate' THEN CASE
                WHEN jsonb_typeof(v_note.value) <> 'string' OR octet_length(v_note.value ->> 0) > 512
                    THEN 'text of at most 512 bytes'
            END
            ELSE 'one of phases, on_restart, webhook, estimate, traceparent, tracestate'
        END;
        IF v_expected IS NOT NULL THEN
            RETURN format('extra.%s: expected %s', left(v_note.key, 40), v_expected);
        END IF;
    END LOOP;
    RETURN NULL;
END
$$;
