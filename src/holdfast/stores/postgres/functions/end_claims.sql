-- End claims from outside, all in the same way: give back, rescue, withdraw or force. Ids need not be sorted.
DROP FUNCTION IF EXISTS holdfast.end_claims;
CREATE FUNCTION holdfast.end_claims(
    p_ids bigint[], p_claims integer[], p_verb text, p_state text, p_error_class text, p_error text, p_notes jsonb
) RETURNS TABLE (id bigint, verdict text)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_ids bigint[];
    v_claims integer[];
    v_size integer[] := ARRAY[cardinality(p_ids)];
    v_verdicts text[];
BEGIN
    IF cardinality(p_ids) = 0 THEN
        RETURN;
    END IF;
    SELECT array_agg(t.id ORDER BY t.id), array_agg(t.claim ORDER BY t.id)
    INTO v_ids, v_claims
    FROM unnest(p_ids, p_claims) AS t (id, claim);
    v_verdicts := holdfast.finish_apart(
        v_ids, v_claims, array_fill(p_verb, v_size), array_fill(p_state, v_size), '{}', '{}',
        array_fill(p_error_class, v_size), array_fill(p_error, v_size), '{}',
        array_fill(p_error_class || ':' || p_error, v_size), '{}', array_fill(p_notes, v_size)
    );
    RETURN QUERY SELECT t.id, t.verdict FROM unnest(v_ids, v_verdicts) AS t (id, verdict);
END
$$;
