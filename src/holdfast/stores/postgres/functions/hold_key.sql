-- Take a key for a job unless an unexpired row holds it; answers who holds it now, and for which request.
--
-- A second statement looks for what the insert met, because the insert's own snapshot may be older than that row. In a
-- caller's REPEATABLE READ transaction the row may stay invisible: the answer is then an unknown holder, not an error.
DROP FUNCTION IF EXISTS holdfast.hold_key;
CREATE FUNCTION holdfast.hold_key(
    p_scope text, p_key text, p_job_id bigint, p_kind text, p_hash bigint, p_now timestamptz, p_expires timestamptz,
    OUT job_id bigint, OUT same boolean
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_expires timestamptz;
BEGIN
    FOR round IN 1..3 LOOP
        INSERT INTO holdfast.idempotency (scope, key, job_id, kind, payload_hash, expires_at)
        VALUES (p_scope, p_key, p_job_id, p_kind, p_hash, p_expires)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            SELECT p_job_id, true INTO job_id, same;
            RETURN;
        END IF;

        SELECT i.job_id, (i.kind, i.payload_hash) = (p_kind, p_hash), i.expires_at
        INTO job_id, same, v_expires
        FROM holdfast.idempotency AS i
        WHERE i.scope = p_scope AND i.key = p_key;
        IF FOUND AND v_expires > p_now THEN
            RETURN;
        END IF;

        UPDATE holdfast.idempotency AS i
        SET job_id = p_job_id, kind = p_kind, payload_hash = p_hash, expires_at = p_expires
        WHERE i.scope = p_scope AND i.key = p_key AND i.expires_at <= p_now;
        IF FOUND THEN
            SELECT p_job_id, true INTO job_id, same;
            RETURN;
        END IF;
    END LOOP;
    RAISE EXCEPTION 'the key is taken and freed faster than it can be read' USING ERRCODE = 'lock_not_available';
END
$$;
