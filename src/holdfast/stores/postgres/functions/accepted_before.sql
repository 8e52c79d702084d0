-- Whether an earlier send of the same fenced write was accepted: '=' and the state the job is in, or null.
DROP FUNCTION IF EXISTS holdfast.accepted_before;
CREATE FUNCTION holdfast.accepted_before(p_id bigint, p_claim integer, p_verb text) RETURNS text
LANGUAGE plpgsql
AS $$
DECLARE
    v_state text;
BEGIN
    IF p_verb IN ('withdraw', 'force') THEN
        RETURN NULL;
    END IF;
    SELECT '=' || state
    INTO v_state
    FROM holdfast.history
    WHERE id = p_id AND (
        claim = p_claim
        OR (claim = p_claim + 1 AND extra ->> 'ended_by' = p_verb)
        OR attempts @> jsonb_build_array(jsonb_build_object('claim', p_claim, 'outcome', p_verb))
    );
    IF FOUND THEN
        RETURN v_state;
    END IF;
    SELECT '=' || j.state
    INTO v_state
    FROM holdfast.attempts AS a
    INNER JOIN holdfast.jobs AS j ON j.id = a.job_id
    WHERE a.job_id = p_id AND a.claim = p_claim AND a.outcome = p_verb;
    RETURN v_state;
END
$$;
