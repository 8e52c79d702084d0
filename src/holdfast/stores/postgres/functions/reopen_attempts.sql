-- Lay the ended claims of a finished job out as rows again, the last one included.
DROP FUNCTION IF EXISTS holdfast.reopen_attempts;
CREATE FUNCTION holdfast.reopen_attempts(p_old holdfast.history) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO holdfast.attempts (
        job_id, claim, attempt, worker, claimed_at, started_at, ended_at, outcome, error_class, error, traceback
    )
    SELECT
        p_old.id, a.claim, a.attempt, a.worker, a.claimed_at, a.started_at, a.ended_at, a.outcome, a.error_class,
        a.error, a.traceback
    FROM jsonb_to_recordset(COALESCE(p_old.attempts, '[]')) AS a (
        claim integer, attempt integer, worker bigint, claimed_at timestamptz, started_at timestamptz,
        ended_at timestamptz, outcome text, error_class text, error text, traceback text
    )
    WHERE a.claim > p_old.claim - 100
    UNION ALL
    SELECT
        p_old.id, p_old.claim, p_old.attempt, p_old.worker, p_old.claimed_at, p_old.started_at, p_old.finished_at,
        p_old.state, p_old.error_class, p_old.error, p_old.extra ->> 'traceback'
    WHERE p_old.claimed_at IS NOT NULL;
END
$$;
