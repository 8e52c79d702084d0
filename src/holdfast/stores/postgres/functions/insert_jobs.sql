-- Store jobs in the order given. Answers only where there is something to say: a row per job that has a key, a unique
-- key, is sent again, was merged with one that waits, or was refused by a rate limit (`detail` says which); every other
-- job was created under its own id.
--
-- `p_admission` says what rate limits let in: each job by itself, the `whole` call or nothing, or all of it (`free`, which
-- is not debounced either).
--
-- An array of kinds, queues, priorities, attempts, crashes, timeouts or parents may hold one value, which is then that
-- of every job; any array but those of ids and payloads may be empty, which is then null for every job.
DROP FUNCTION IF EXISTS holdfast.insert_jobs;
CREATE FUNCTION holdfast.insert_jobs(
    p_ids bigint[], p_kinds text[], p_queues text[], p_priorities smallint[], p_payloads jsonb[],
    p_run_ats timestamptz[], p_delays bigint[], p_uniques text[], p_unique_fors bigint[], p_keys text[],
    p_max_attempts integer[], p_max_crashes integer[], p_timeouts bigint[], p_tags jsonb[], p_actors text[],
    p_again boolean, p_extras jsonb[] DEFAULT '{}', p_admission text DEFAULT 'each',
    p_parents bigint[] DEFAULT '{}'
) RETURNS TABLE (ordinal integer, outcome text, id bigint, detail jsonb)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := holdfast.clock();
    v_size integer[] := ARRAY[cardinality(p_ids)];
    v_positions bigint[];
    v_settled integer[] := '{}';
    v_holder bigint;
    v_same boolean;
    v_job record;
    v_debounced text[];
    v_is_gated boolean;
BEGIN
    IF v_size[1] > 1 THEN
        IF cardinality(p_kinds) = 1 THEN p_kinds := array_fill(p_kinds[1], v_size); END IF;
        IF cardinality(p_queues) = 1 THEN p_queues := array_fill(p_queues[1], v_size); END IF;
        IF cardinality(p_priorities) = 1 THEN p_priorities := array_fill(p_priorities[1], v_size); END IF;
        IF cardinality(p_max_attempts) = 1 THEN p_max_attempts := array_fill(p_max_attempts[1], v_size); END IF;
        IF cardinality(p_max_crashes) = 1 THEN p_max_crashes := array_fill(p_max_crashes[1], v_size); END IF;
        IF cardinality(p_timeouts) = 1 THEN p_timeouts := array_fill(p_timeouts[1], v_size); END IF;
        IF cardinality(p_parents) = 1 THEN p_parents := array_fill(p_parents[1], v_size); END IF;
    END IF;

    IF p_admission <> 'free'
        AND EXISTS (SELECT FROM holdfast.queues AS q WHERE q.name = ANY (p_queues) AND q.screened) THEN
        FOR v_job IN
            SELECT * FROM holdfast.admit_jobs(
                p_ids, p_kinds, p_queues, p_payloads, p_tags, p_actors, p_keys, p_again, p_admission = 'whole', v_now
            )
        LOOP
            v_settled := v_settled || v_job.ordinal;
            RETURN QUERY SELECT v_job.ordinal, 'limited', NULL::bigint, v_job.detail;
        END LOOP;
        IF p_admission = 'whole' AND cardinality(v_settled) > 0 THEN
            RETURN;
        END IF;
        v_debounced := holdfast.debounce_keys(p_kinds, p_queues, p_payloads, p_tags, p_actors, p_run_ats, p_delays);
    END IF;

    -- Jobs with keys are stored after the others and in another order: their places are drawn beforehand.
    IF p_again OR cardinality(p_uniques) > 0 OR cardinality(p_keys) > 0 OR v_debounced IS NOT NULL THEN
        v_positions := ARRAY(
            SELECT nextval('holdfast.position_seq'::regclass) FROM generate_series(1, cardinality(p_ids))
        );
    END IF;

    INSERT INTO holdfast.jobs (
        id, kind, queue, priority, state, position, payload, tags, actor, run_at, enqueued_at, max_attempts,
        max_crashes, timeout_ms, extra, parent
    )
    SELECT
        t.id, t.kind, t.queue, t.priority, holdfast.due_state(t.run_at, t.delay, v_now),
        CASE holdfast.due_state(t.run_at, t.delay, v_now)
            WHEN 'queued' THEN COALESCE(v_positions[t.ordinal], nextval('holdfast.position_seq'::regclass))
        END,
        t.payload, t.tags, t.actor, holdfast.due_at(t.run_at, t.delay, v_now), v_now, t.max_attempts, t.max_crashes,
        t.timeout_ms, t.extra, t.parent
    FROM unnest(
        p_ids, p_kinds, p_queues, p_priorities, p_payloads, p_run_ats, p_delays, p_uniques, p_keys, p_max_attempts,
        p_max_crashes, p_timeouts, p_tags, p_actors, p_extras, p_parents
    ) WITH ORDINALITY AS t (
        id, kind, queue, priority, payload, run_at, delay, unique_key, key, max_attempts, max_crashes, timeout_ms,
        tags, actor, extra, parent, ordinal
    )
    WHERE NOT p_again AND t.unique_key IS NULL AND t.key IS NULL AND v_debounced[t.ordinal] IS NULL
        AND NOT t.ordinal = ANY (v_settled);
    v_is_gated := EXISTS (SELECT FROM holdfast.queues AS q WHERE q.name = ANY (p_queues) AND q.gated);
    IF v_is_gated THEN
        PERFORM holdfast.hold_back(p_ids);
    END IF;
    IF NOT p_again AND holdfast.is_watched() THEN
        PERFORM holdfast.publish_waiting(p_ids);
    END IF;
    IF v_positions IS NULL THEN
        RETURN;
    END IF;

    -- Keys first, then unique keys, each in order: two calls that share several never wait for each other in a ring.
    FOR v_job IN
        SELECT t.*, jsonb_hash_extended(t.payload, 0) AS hash
        FROM unnest(p_ids, p_kinds, p_payloads, p_keys) WITH ORDINALITY AS t (id, kind, payload, key, ordinal)
        WHERE t.key IS NOT NULL AND NOT t.ordinal = ANY (v_settled)
        ORDER BY t.key, t.ordinal
    LOOP
        SELECT held.job_id, held.same
        INTO v_holder, v_same
        FROM holdfast.hold_key_in_snapshot(
            '', v_job.key, v_job.id, v_job.kind, v_job.hash, v_now, v_now + interval '24 hours'
        ) AS held;
        -- A key that was ours before this call is an earlier send that arrived: that job is there, or was.
        -- guard: repeated-insert, without: IF v_holder IS DISTINCT FROM v_job.id THEN
        IF v_holder IS DISTINCT FROM v_job.id OR (p_again AND holdfast.job_exists(v_job.id)) THEN
            v_settled := v_settled || v_job.ordinal::integer;
            RETURN QUERY SELECT
                v_job.ordinal::integer,
                CASE WHEN NOT v_same THEN 'conflict' WHEN v_holder = v_job.id THEN 'created' ELSE 'existing' END,
                v_holder, NULL::jsonb;
        END IF;
    END LOOP;

    RETURN QUERY
    SELECT t.ordinal::integer, stored.outcome, stored.id, NULL::jsonb
    FROM (
        SELECT *
        FROM unnest(
            p_ids, p_kinds, p_queues, p_priorities, p_payloads, p_run_ats, p_delays, p_uniques, p_unique_fors, p_keys,
            p_max_attempts, p_max_crashes, p_timeouts, p_tags, p_actors, p_extras, p_parents
        ) WITH ORDINALITY AS t (
            id, kind, queue, priority, payload, run_at, delay, unique_key, unique_for, key, max_attempts, max_crashes,
            timeout_ms, tags, actor, extra, parent, ordinal
        )
        WHERE (p_again OR unique_key IS NOT NULL OR key IS NOT NULL OR v_debounced[ordinal] IS NOT NULL)
            AND NOT ordinal = ANY (v_settled)
        ORDER BY kind, v_debounced[ordinal], unique_key, ordinal  -- guard: insert-order
    ) AS t
    CROSS JOIN LATERAL holdfast.insert_job(
        t.id, t.kind, t.queue, t.priority, t.payload, holdfast.due_state(t.run_at, t.delay, v_now),
        holdfast.due_at(t.run_at, t.delay, v_now), t.unique_key, t.unique_for, t.key,
        t.max_attempts, t.max_crashes, t.timeout_ms, t.tags, t.actor, v_positions[t.ordinal], v_now, p_again, t.extra,
        v_debounced[t.ordinal], t.parent
    ) AS stored;
    IF v_is_gated THEN
        PERFORM holdfast.hold_back(p_ids);
    END IF;
END
$$;
