-- Whether an earlier send of the same fenced write was accepted: '=' and the state the job is in, or null.
--
-- A claim that ended a life has that life's state as its outcome. Nobody but its holder can have written that: whoever
-- ends a job from outside counts the claim up. What was to wait again may have ended cancelled instead.
DROP FUNCTION IF EXISTS holdfast.accepted_before;
CREATE FUNCTION holdfast.accepted_before(p_id bigint, p_claim integer, p_verb text) RETURNS text
LANGUAGE plpgsql
AS $$
DECLARE
    v_outcomes text[] := CASE p_verb
        WHEN 'complete' THEN ARRAY['completed', 'completed_with_errors']
        WHEN 'fail' THEN ARRAY['failed']
        ELSE ARRAY[p_verb, 'cancelled']
    END;
    v_state text;
BEGIN
    IF p_verb IN ('withdraw', 'force') THEN
        RETURN NULL;
    END IF;
    SELECT '=' || h.state
    INTO v_state
    FROM holdfast.history AS h
    WHERE h.id = p_id AND (
        h.claim = p_claim
        OR (h.claim = p_claim + 1 AND h.extra ->> 'ended_by' = p_verb)
        OR EXISTS (
            SELECT
            FROM jsonb_to_recordset(COALESCE(h.attempts, '[]')) AS a (claim integer, outcome text)
            WHERE a.claim = p_claim AND a.outcome = ANY (v_outcomes)
        )
    );
    IF FOUND THEN
        RETURN v_state;
    END IF;
    SELECT '=' || j.state
    INTO v_state
    FROM holdfast.attempts AS a
    INNER JOIN holdfast.jobs AS j ON j.id = a.job_id
    WHERE a.job_id = p_id AND a.claim = p_claim AND a.outcome = ANY (v_outcomes);
    RETURN v_state;
END
$$;
