-- Store one job that has a unique key, an idempotency key, or may be there already because it is sent again; or, if it is
-- debounced, merge it with the one of its kind and key that still waits.
DROP FUNCTION IF EXISTS holdfast.insert_job;
CREATE FUNCTION holdfast.insert_job(
    p_id bigint, p_kind text, p_queue text, p_priority smallint, p_payload jsonb, p_state text, p_run_at timestamptz,
    p_unique text, p_unique_for bigint, p_key text, p_max_attempts integer, p_max_crashes integer, p_timeout bigint,
    p_tags jsonb, p_actor text, p_position bigint, p_now timestamptz, p_again boolean,
    p_extra jsonb DEFAULT NULL, p_debounce text DEFAULT NULL, p_parent bigint DEFAULT NULL,
    OUT outcome text, OUT id bigint
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_stored boolean;
    v_holder bigint;
    v_wait bigint;
BEGIN
    IF p_debounce IS NOT NULL THEN
        SELECT k.debounce_ms INTO v_wait FROM holdfast.kinds AS k WHERE k.name = p_kind;
        IF v_wait IS NULL THEN
            p_debounce := NULL;  -- it was debounced until just now
        ELSE
            p_state := 'scheduled';
            p_run_at := p_now + v_wait * interval '1 millisecond';
        END IF;
    END IF;
    FOR round IN 1..3 LOOP
        IF p_again AND holdfast.job_exists(p_id) THEN  -- guard: repeated-insert, without: IF false THEN
            SELECT 'created', p_id INTO outcome, id;
            RETURN;
        END IF;
        IF p_unique_for IS NOT NULL THEN
            SELECT held.job_id
            INTO v_holder
            FROM holdfast.hold_key_in_snapshot(
                p_kind, p_unique, p_id, p_kind, 0, p_now, p_now + p_unique_for * interval '1 millisecond'
            ) AS held;
            IF v_holder IS DISTINCT FROM p_id THEN
                EXIT;
            END IF;
        END IF;

        IF p_debounce IS NOT NULL THEN
            -- After a wait it is looked at again: one that was made ready meanwhile is left alone.
            BEGIN
                UPDATE holdfast.jobs AS j
                SET payload = p_payload, actor = p_actor, extra = p_extra, run_at = p_run_at
                WHERE j.kind = p_kind AND j.debounce_key = p_debounce AND j.state = 'scheduled' AND j.claim = 0
                RETURNING j.id INTO v_holder;
            EXCEPTION WHEN serialization_failure THEN
                -- The caller's snapshot is older than what another call made of that job: that must not end theirs.
                v_holder := NULL;
                EXIT;
            END;
            IF v_holder IS NOT NULL THEN
                PERFORM holdfast.hold_back(ARRAY[v_holder]);  -- with its payload its keys may have changed
                EXIT;
            END IF;
        END IF;

        v_stored := NULL;
        IF current_setting('transaction_isolation') = 'read committed' THEN
            INSERT INTO holdfast.jobs (
                id, kind, queue, priority, state, position, payload, tags, actor, run_at, enqueued_at, max_attempts,
                max_crashes, timeout_ms, unique_key, idempotency_key, extra, debounce_key, parent
            )
            VALUES (
                p_id, p_kind, p_queue, p_priority, p_state,
                CASE p_state WHEN 'queued' THEN p_position END,
                p_payload, p_tags, p_actor, p_run_at, p_now, p_max_attempts, p_max_crashes, p_timeout, p_unique,
                p_key, p_extra, p_debounce, p_parent
            )
            ON CONFLICT DO NOTHING;
            v_stored := FOUND;
        ELSE
            -- The row we clash with may be invisible to the caller's snapshot: that must not end their transaction.
            BEGIN
                INSERT INTO holdfast.jobs (
                    id, kind, queue, priority, state, position, payload, tags, actor, run_at, enqueued_at,
                    max_attempts, max_crashes, timeout_ms, unique_key, idempotency_key, extra, debounce_key, parent
                )
                VALUES (
                    p_id, p_kind, p_queue, p_priority, p_state,
                    CASE p_state WHEN 'queued' THEN p_position END,
                    p_payload, p_tags, p_actor, p_run_at, p_now, p_max_attempts, p_max_crashes, p_timeout, p_unique,
                    p_key, p_extra, p_debounce, p_parent
                )
                ON CONFLICT DO NOTHING;
                v_stored := FOUND;
            EXCEPTION WHEN serialization_failure THEN
                v_holder := NULL;
                EXIT;
            END;
        END IF;

        IF v_stored THEN
            -- An earlier send may have arrived, run and finished. Had it been in flight, the insert would have waited.
            -- guard: repeated-insert, without: IF false THEN
            IF p_again AND EXISTS (SELECT FROM holdfast.history AS h WHERE h.id = p_id) THEN
                DELETE FROM holdfast.jobs AS j WHERE j.id = p_id;
            ELSIF holdfast.is_watched() THEN
                PERFORM holdfast.publish_waiting(ARRAY[p_id]);
            END IF;
            SELECT 'created', p_id INTO outcome, id;
            RETURN;
        END IF;
        IF EXISTS (SELECT FROM holdfast.jobs AS j WHERE j.id = p_id) THEN
            SELECT 'created', p_id INTO outcome, id;
            RETURN;
        END IF;
        SELECT j.id INTO v_holder FROM holdfast.jobs AS j WHERE j.kind = p_kind AND j.unique_key = p_unique;
        IF FOUND THEN
            EXIT;
        END IF;
        IF round = 3 THEN
            RAISE EXCEPTION 'the unique key is taken and freed faster than it can be read'
                USING ERRCODE = 'lock_not_available';
        END IF;
    END LOOP;

    -- Not stored: what was taken for this job now stands for the one that was met.
    DELETE FROM holdfast.idempotency AS i WHERE i.scope = p_kind AND i.key = p_unique AND i.job_id = p_id;
    IF v_holder IS NULL THEN
        DELETE FROM holdfast.idempotency AS i WHERE i.scope = '' AND i.key = p_key AND i.job_id = p_id;
    ELSE
        UPDATE holdfast.idempotency AS i SET job_id = v_holder
        WHERE i.scope = '' AND i.key = p_key AND i.job_id = p_id;
    END IF;
    SELECT 'existing', v_holder INTO outcome, id;
END
$$;
