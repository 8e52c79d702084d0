-- When a finished job may be deleted: the policy of its queue, or the default of its state. The last instant that
-- every reader can represent means "for ever".
DROP FUNCTION IF EXISTS holdfast.keep_until;
CREATE FUNCTION holdfast.keep_until(p_retention jsonb, p_state text, p_now timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE
RETURN CASE
    WHEN p_retention -> p_state = 'null'::jsonb THEN timestamptz '9999-01-01Z'
    ELSE p_now + COALESCE(
        (p_retention ->> p_state)::bigint * interval '1 millisecond',
        CASE p_state WHEN 'failed' THEN interval '30 days' ELSE interval '7 days' END
    )
END;
