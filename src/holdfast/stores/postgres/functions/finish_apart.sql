-- End claims from outside as finish_jobs() does. If the database refuses a value of one job, the others still end: each job
-- is then ended by itself. The refused job loses its notes and its report and ends as failed, or as cancelled if that was
-- the wish. A job that the database refuses even then stays as it is, with null for an answer.
DROP FUNCTION IF EXISTS holdfast.finish_apart;
CREATE FUNCTION holdfast.finish_apart(
    p_ids bigint[], p_claims integer[], p_verbs text[], p_states text[], p_delays bigint[], p_results jsonb[],
    p_error_classes text[], p_errors text[], p_tracebacks text[], p_fingerprints text[], p_started_agos bigint[],
    p_extras jsonb[]
) RETURNS text[]
LANGUAGE plpgsql
AS $$
DECLARE
    v_reason text;
    v_constraint text;
    v_table text;
    v_is_wish boolean := p_verbs[1] IN ('withdraw', 'force');
    v_verdicts text[] := '{}';
BEGIN
    BEGIN
        RETURN holdfast.finish_jobs(
            p_ids, p_claims, p_verbs, p_states, p_delays, p_results, p_error_classes, p_errors, p_tracebacks,
            p_fingerprints, p_started_agos, p_extras
        );
    -- guard: refused-rescue, without: EXCEPTION WHEN division_by_zero THEN
    EXCEPTION WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded OR raise_exception THEN
        GET STACKED DIAGNOSTICS v_reason = MESSAGE_TEXT, v_constraint = CONSTRAINT_NAME, v_table = TABLE_NAME;
        IF SQLSTATE = '23514' AND v_constraint = '' AND v_table <> '' THEN
            RAISE;  -- a week of history is missing, which is no fault of the job: the caller makes it and asks again
        END IF;
    END;
    IF cardinality(p_ids) > 1 THEN
        FOR place IN 1..cardinality(p_ids) LOOP
            v_verdicts := v_verdicts || holdfast.finish_apart(
                p_ids[place:place], p_claims[place:place], p_verbs[place:place], p_states[place:place],
                p_delays[place:place], p_results[place:place], p_error_classes[place:place], p_errors[place:place],
                p_tracebacks[place:place], p_fingerprints[place:place], p_started_agos[place:place],
                p_extras[place:place]
            );
        END LOOP;
        RETURN v_verdicts;
    END IF;
    BEGIN
        PERFORM holdfast.strip_job(p_ids[1], p_claims[1], p_verbs[1] <> 'withdraw');
        IF v_is_wish THEN
            RETURN holdfast.finish_jobs(
                p_ids, p_claims, p_verbs, p_states, '{}', '{}', '{}', '{}', '{}', '{}', '{}', p_extras
            );
        END IF;
        RETURN holdfast.finish_jobs(
            p_ids, p_claims, ARRAY['force'], ARRAY['failed'], '{}', '{}', ARRAY['DataRefused'],
            ARRAY['PostgreSQL refuses a value: ' || v_reason], '{}', ARRAY['DataRefused'], '{}', '{}'
        );
    EXCEPTION WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded OR raise_exception THEN
        RAISE WARNING 'job % cannot be ended: %', p_ids[1], SQLERRM;
        RETURN ARRAY[NULL::text];
    END;
END
$$;
