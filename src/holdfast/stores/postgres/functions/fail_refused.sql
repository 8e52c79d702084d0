-- End as failed a claim whose end the database has refused in every other form; the job loses its notes and its report.
-- Answers as finish_jobs() does.
DROP FUNCTION IF EXISTS holdfast.fail_refused;
CREATE FUNCTION holdfast.fail_refused(
    p_id bigint, p_claim integer, p_error_class text, p_error text, p_traceback text, p_fingerprint text,
    p_started_ago bigint
) RETURNS text
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM holdfast.strip_job(p_id, p_claim, true);
    RETURN (holdfast.finish_jobs(
        ARRAY[p_id], ARRAY[p_claim], ARRAY['fail'], ARRAY['failed'], '{}', '{}', ARRAY[p_error_class], ARRAY[p_error],
        ARRAY[p_traceback], ARRAY[p_fingerprint], ARRAY[p_started_ago], '{}'
    ))[1];
END
$$;
