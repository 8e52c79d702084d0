-- Refuse a job of enqueue_v1() that no worker could read, or that Python would refuse, and say what is wrong with it.
DROP FUNCTION IF EXISTS holdfast.check_enqueued;
CREATE FUNCTION holdfast.check_enqueued(p_job jsonb, p_ordinal bigint, p_fields text[]) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_wrong text;
    v_args jsonb := COALESCE(p_job -> 'args', p_job -> 'payload');  -- as callers of the last release call them
BEGIN
    v_wrong := CASE
        WHEN jsonb_typeof(p_job) <> 'object' THEN 'expected an object, got ' || jsonb_typeof(p_job)
        WHEN p_job ->> 'kind' IS NULL THEN 'kind is missing'
        WHEN jsonb_path_exists(
            p_job, 'strict $.keyvalue() ? (
                (@.key == "kind" || @.key == "queue" || @.key == "run_at" || @.key == "unique" || @.key == "key"
                || @.key == "actor") && @.value.type() != "string" && @.value != null
            )'
        ) THEN 'kind, queue, run_at, unique, key, actor: expected text'
        WHEN p_job ->> 'kind' !~ '^[A-Za-z0-9_.:-]{1,64}$' THEN 'kind: expected 1 to 64 letters, digits, _ . : or -'
        WHEN p_job ->> 'queue' !~ '^[A-Za-z0-9_.:-]{1,64}$' THEN 'queue: expected 1 to 64 letters, digits, _ . : or -'
        WHEN p_job ? 'args' AND p_job ? 'payload' THEN 'expected args or payload, which is its former name, got both'
        WHEN jsonb_typeof(v_args) <> 'object' THEN 'args: expected an object'
        WHEN octet_length(v_args::text) > 256000 THEN 'args: expected at most 256000 bytes of JSON'
        WHEN jsonb_path_exists(v_args, '$.**{65}') THEN 'args: expected at most 64 levels of nesting'
        WHEN jsonb_path_exists(
            v_args,
            '$.** ? (@.type() == "number" && (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308))'
        ) THEN 'args: expected numbers that a double can hold'
        WHEN p_job ->> 'run_at' IS NOT NULL AND p_job ->> 'delay_ms' IS NOT NULL
            THEN 'run_at and delay_ms exclude each other'
        WHEN NOT holdfast.is_due_time(p_job ->> 'run_at')
            THEN 'run_at: expected a time with an offset between the years 1970 and 9998'
        WHEN p_job ->> 'unique_for_ms' IS NOT NULL AND p_job ->> 'unique' IS NULL THEN 'unique_for_ms needs unique'
        WHEN octet_length(p_job ->> 'unique') NOT BETWEEN 1 AND 512 THEN 'unique: expected 1 to 512 bytes'
        WHEN octet_length(p_job ->> 'key') NOT BETWEEN 1 AND 512 THEN 'key: expected 1 to 512 bytes'
        WHEN octet_length(p_job ->> 'actor') NOT BETWEEN 1 AND 256 THEN 'actor: expected 1 to 256 bytes'
        WHEN holdfast.check_extra(NULLIF(p_job -> 'extra', 'null')) IS NOT NULL
            THEN holdfast.check_extra(p_job -> 'extra')
        WHEN holdfast.check_tags(NULLIF(p_job -> 'tags', 'null')) IS NOT NULL THEN holdfast.check_tags(p_job -> 'tags')
        ELSE COALESCE(
            (
                SELECT
                    number.field || ': expected a whole number from ' || number.least || ' to ' || number.most
                    || ', got ' || left(p_job ->> number.field, 40)
                FROM (
                    VALUES
                    ('priority', 0, 10), ('delay_ms', 0, 3153600000000), ('unique_for_ms', 1, 3153600000000),
                    ('max_attempts', 1, 1000000), ('max_crashes', 1, 1000000), ('timeout_ms', 1, 3153600000000)
                ) AS number (field, least, most)
                WHERE p_job ->> number.field IS NOT NULL AND CASE jsonb_typeof(p_job -> number.field)
                    -- Written as a whole number: neither 5.0 nor what is equal to it.
                    WHEN 'number' THEN p_job ->> number.field !~ '^-?[0-9]{1,20}$'
                        OR (p_job ->> number.field)::numeric NOT BETWEEN number.least AND number.most
                    ELSE true
                END
                LIMIT 1
            ),
            (
                SELECT 'unknown field ' || field || '; expected one of ' || array_to_string(p_fields, ', ')
                FROM jsonb_object_keys(p_job) AS field
                WHERE NOT field = ANY (p_fields) AND field <> 'payload'
                LIMIT 1
            )
        )
    END;
    IF v_wrong IS NOT NULL THEN
        RAISE EXCEPTION 'enqueue_v1: job %: %', p_ordinal, v_wrong USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$$;
