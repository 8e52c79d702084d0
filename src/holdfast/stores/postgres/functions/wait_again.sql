-- Let a running job, locked by the caller, wait again: for its retry, after a snooze, given back or after a crash.
DROP FUNCTION IF EXISTS holdfast.wait_again;
CREATE FUNCTION holdfast.wait_again(
    p_id bigint, p_verb text, p_state text, p_delay bigint, p_error_class text, p_error text, p_traceback text,
    p_fingerprint text, p_started_ago bigint, p_now timestamptz
) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_claim integer;
BEGIN
    INSERT INTO holdfast.attempts (
        job_id, claim, attempt, worker, claimed_at, started_at, ended_at, outcome, error_class, error, traceback
    )
    SELECT
        id, claim, attempt, worker, claimed_at,
        COALESCE(p_now - p_started_ago * interval '1 millisecond', started_at),
        p_now, p_verb, p_error_class, p_error, p_traceback
    FROM holdfast.jobs
    WHERE id = p_id
    RETURNING claim INTO v_claim;
    DELETE FROM holdfast.attempts WHERE job_id = p_id AND claim <= v_claim - 100;
    UPDATE holdfast.progress SET claim = NULL WHERE job_id = p_id;

    UPDATE holdfast.jobs
    SET
        state = p_state,
        -- Given back and rescued jobs keep their place; whatever waits for a time of its own goes to the end.
        position = CASE
            WHEN p_state = 'scheduled' THEN NULL
            WHEN p_verb IN ('interrupt', 'crash') THEN position
            ELSE nextval('holdfast.position_seq'::regclass)
        END,
        run_at = CASE p_verb
            WHEN 'interrupt' THEN run_at
            WHEN 'crash' THEN CASE p_state WHEN 'queued' THEN run_at ELSE p_now + LEAST(
                interval '10 seconds' * power(2, LEAST(crashes - 1, 20)) * (0.75 + random() / 2), interval '1 hour'
            ) END
            ELSE p_now + COALESCE(p_delay, 0) * interval '1 millisecond'
        END,
        attempt = attempt - CASE WHEN p_verb = 'retry' THEN 0 ELSE 1 END,
        crashes = crashes + CASE WHEN p_verb = 'crash' THEN 1 ELSE 0 END,
        error_class = COALESCE(p_error_class, error_class),
        error = COALESCE(p_error, error),
        error_fingerprint = COALESCE(p_fingerprint, error_fingerprint),
        announced_at = NULL, worker = NULL, claim_batch = NULL, claimed_at = NULL, started_at = NULL
    WHERE id = p_id;
END
$$;
