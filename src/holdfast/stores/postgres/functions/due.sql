-- When a new job is due, and whether that is now.
DROP FUNCTION IF EXISTS holdfast.due;
CREATE FUNCTION holdfast.due(
    p_run_at timestamptz, p_delay_ms bigint, p_now timestamptz, OUT run_at timestamptz, OUT state text
)
LANGUAGE sql IMMUTABLE
RETURN (
    COALESCE(p_run_at, p_now + COALESCE(p_delay_ms, 0) * interval '1 millisecond'),
    CASE
        WHEN COALESCE(p_run_at, p_now + COALESCE(p_delay_ms, 0) * interval '1 millisecond') > p_now THEN 'scheduled'
        ELSE 'queued'
    END
);
