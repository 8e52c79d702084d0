-- Take a key in whatever transaction the caller is: a clash never ends it.
DROP FUNCTION IF EXISTS holdfast.hold_key_in_snapshot;
CREATE FUNCTION holdfast.hold_key_in_snapshot(
    p_scope text, p_key text, p_job_id bigint, p_kind text, p_hash bigint, p_now timestamptz, p_expires timestamptz,
    OUT job_id bigint, OUT same boolean
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    IF current_setting('transaction_isolation') = 'read committed' THEN
        SELECT h.job_id, h.same INTO job_id, same
        FROM holdfast.hold_key(p_scope, p_key, p_job_id, p_kind, p_hash, p_now, p_expires) AS h;
        RETURN;
    END IF;
    -- Twice, because the first try may have met an expired row on its way out.
    FOR round IN 1..2 LOOP
        BEGIN
            SELECT h.job_id, h.same INTO job_id, same
            FROM holdfast.hold_key(p_scope, p_key, p_job_id, p_kind, p_hash, p_now, p_expires) AS h;
            RETURN;
        EXCEPTION WHEN serialization_failure THEN
            SELECT NULL, true INTO job_id, same;
        END;
    END LOOP;
END
$$;
