-- When a job is due that names a time, a delay, or neither. STABLE, as what it does is, so that it costs no call.
DROP FUNCTION IF EXISTS holdfast.due_at;
CREATE FUNCTION holdfast.due_at(p_run_at timestamptz, p_delay_ms bigint, p_now timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE
RETURN COALESCE(p_run_at, p_now + COALESCE(p_delay_ms, 0) * interval '1 millisecond');
