-- Whether a job waits for its time or may run now.
DROP FUNCTION IF EXISTS holdfast.due_state;
CREATE FUNCTION holdfast.due_state(p_run_at timestamptz, p_delay_ms bigint, p_now timestamptz) RETURNS text
LANGUAGE sql STABLE
RETURN CASE
    WHEN COALESCE(p_run_at, p_now + COALESCE(p_delay_ms, 0) * interval '1 millisecond') > p_now THEN 'scheduled'
    ELSE 'queued'
END;
