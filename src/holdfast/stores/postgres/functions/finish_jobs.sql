-- End claims under the fence `(id, claim)` and `running`. Answers one text per job, in order: the state it went to;
-- '=' and a state when an earlier send of the same write had been accepted; null when the claim is no longer ours.
--
-- `p_ids` must be sorted and free of repeats, so that rows are locked in the order of their ids. Beside the verbs of
-- a worker there are two that end a job from outside: 'withdraw' takes a waiting job, 'force' a running one. What is
-- ended for good by somebody who does not hold the claim counts the claim up: the holder's late write is then lost,
-- and not taken for its own.
DROP FUNCTION IF EXISTS holdfast.finish_jobs;
CREATE FUNCTION holdfast.finish_jobs(
    p_ids bigint[], p_claims integer[], p_verbs text[], p_states text[], p_delays bigint[], p_results jsonb[],
    p_error_classes text[], p_errors text[], p_tracebacks text[], p_fingerprints text[], p_started_agos bigint[],
    p_extras jsonb[], p_hands_over boolean DEFAULT false
) RETURNS text[]
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_now timestamptz := holdfast.clock();
    v_verdicts text[];
    v_moved bigint[];
    v_waiting boolean;
    v_begun bigint[];
    v_begun_at timestamptz[];
    v_begun_as integer[];
    v_posts boolean;
    v_tells boolean;
    v_failed boolean;
    v_gated boolean;
    v_rows text[];
    v_first bigint;
    v_last bigint;
    v_is_lost boolean;
BEGIN
    -- plan: finish_jobs
    WITH locked AS MATERIALIZED (
        SELECT
            t.ordinal, t.verb, t.result, t.failure_class, t.failure_text, t.failure_trace, t.failure_print, t.notes,
            v_now - t.started_ago * interval '1 millisecond' AS began,
            q.retention AS kept, q.stale AS stale_after, q.tells, q.webhook AS hook, q.gated, j.*,
            CASE
                WHEN t.verb IN ('complete', 'fail', 'cancel', 'withdraw', 'force') THEN t.target
                WHEN j.cancel_requested_at IS NOT NULL THEN 'cancelled'  -- guard: cancelled-claim
                WHEN j.extra ->> 'on_restart' = 'fail'
                    AND (t.verb = 'crash' OR (t.verb = 'interrupt' AND j.started_at IS NOT NULL)) THEN 'failed'
                WHEN t.verb <> 'crash' THEN t.target
                -- guard: last-crash, without: WHEN j.crashes >= j.max_crashes THEN 'failed'
                WHEN j.crashes + 1 >= j.max_crashes THEN 'failed'
                WHEN j.crashes = 0 THEN 'queued'
                ELSE 'scheduled'
            END AS goes_to
        FROM unnest(
            p_ids, p_claims, p_verbs, p_states, p_results, p_error_classes, p_errors, p_tracebacks, p_fingerprints,
            p_started_agos, p_extras
        ) WITH ORDINALITY AS t (
            job_id, fence, verb, target, result, failure_class, failure_text, failure_trace, failure_print,
            started_ago, notes, ordinal
        )
        LEFT JOIN LATERAL (
            SELECT *
            FROM holdfast.jobs
            WHERE id = t.job_id
                -- guard: finish-fence, without: AND (state = 'running') = (t.verb <> 'withdraw')
                AND CASE t.verb WHEN 'withdraw' THEN state <> 'running' ELSE state = 'running' AND claim = t.fence END
            FOR UPDATE
        ) AS j ON true
        LEFT JOIN holdfast.queues AS q ON q.name = j.queue
    ),

    moved AS (
        INSERT INTO holdfast.history (
            id, kind, queue, priority, state, position, payload, tags, actor, run_at, enqueued_at, enqueued_seq,
            claim, life, attempt, max_attempts, crashes, max_crashes, timeout_ms, worker, claim_batch, claimed_at,
            started_at, cancel_requested_at, announced_at, unique_key, idempotency_key, limit_key, fifo_key,
            debounce_key, schedule, fire_time, parent, workflow, pending, origin, error_class, error,
            error_fingerprint, extra, stale_at, delete_at, finished_at, result, progress, attempts, phases, items, logs
        )
        SELECT
            e.id, e.kind, e.queue, e.priority, e.goes_to, e.position, e.payload, e.tags, e.actor, e.run_at,
            e.enqueued_at, e.enqueued_seq,
            -- guard: outside-claim, without: e.claim, e.life,
            e.claim + CASE WHEN e.verb IN ('crash', 'force', 'withdraw') AND e.claim > 0 THEN 1 ELSE 0 END, e.life,
            e.attempt - CASE WHEN e.verb = 'crash' THEN 1 ELSE 0 END, e.max_attempts,
            e.crashes + CASE WHEN e.verb = 'crash' THEN 1 ELSE 0 END, e.max_crashes, e.timeout_ms, e.worker,
            e.claim_batch, e.claimed_at, COALESCE(e.began, e.started_at), e.cancel_requested_at, e.announced_at,
            e.unique_key, e.idempotency_key, e.limit_key, e.fifo_key, e.debounce_key, e.schedule, e.fire_time,
            e.parent, e.workflow, e.pending, e.origin,
            CASE
                WHEN e.verb = 'complete' THEN NULL
                WHEN e.verb = 'interrupt' AND e.goes_to = 'failed' THEN 'Interrupted'
                ELSE COALESCE(e.failure_class, e.error_class)
            END,
            CASE
                WHEN e.verb = 'complete' THEN NULL
                WHEN e.verb = 'interrupt' AND e.goes_to = 'failed' THEN 'its worker left before it had ended'
                ELSE COALESCE(e.failure_text, e.error)
            END,
            CASE
                WHEN e.verb = 'complete' THEN NULL
                WHEN e.verb = 'interrupt' AND e.goes_to = 'failed'
                    THEN 'Interrupted:its worker left before it had ended'
                WHEN e.goes_to = 'failed'
                    THEN COALESCE(e.failure_print, e.error_fingerprint, e.failure_class, 'unknown')
                ELSE COALESCE(e.failure_print, e.error_fingerprint)
            END,
            CASE
                WHEN e.notes IS NULL AND e.failure_trace IS NULL AND e.verb NOT IN ('crash', 'force') THEN e.extra
                ELSE COALESCE(e.extra, '{}') || COALESCE(e.notes, '{}') || jsonb_strip_nulls(jsonb_build_object(
                    'traceback', e.failure_trace,
                    'ended_by', CASE WHEN e.verb IN ('crash', 'force') THEN e.verb END
                ))
            END,
            v_now + (e.stale_after ->> e.goes_to)::bigint * interval '1 millisecond',
            holdfast.keep_until(e.kept, e.goes_to, v_now), v_now, e.result,
            CASE WHEN p.job_id IS NOT NULL THEN holdfast.folded_progress(p) END,
            -- Only the second claim of a job can find an ended one, and only then is it worth a look.
            CASE WHEN e.claim > 1 OR e.verb = 'withdraw' THEN (
                SELECT jsonb_agg(
                    to_jsonb(a) - 'job_id' - CASE WHEN a.claim < e.claim - 10 THEN 'traceback' ELSE '' END
                    ORDER BY a.claim
                )
                FROM holdfast.attempts AS a
                WHERE a.job_id = e.id
            ) END,
            -- Whoever has phases, items or lines has a report too: all others cost no further look.
            CASE WHEN p.job_id IS NOT NULL THEN (
                SELECT jsonb_agg(to_jsonb(f) - 'job_id' ORDER BY f.ordinal, f.started_at, f.name)
                FROM holdfast.phases AS f
                WHERE f.job_id = e.id
            ) END,
            CASE
                WHEN p.job_id IS NOT NULL AND EXISTS (SELECT FROM holdfast.item_sets AS s WHERE s.job_id = e.id)
                    THEN holdfast.folded_items(e.id)
            END,
            CASE
                WHEN p.job_id IS NOT NULL AND EXISTS (SELECT FROM holdfast.logs AS l WHERE l.job_id = e.id)
                    THEN holdfast.folded_logs(e.id)
            END
        FROM locked AS e
        LEFT JOIN holdfast.progress AS p ON p.job_id = e.id
        WHERE e.id IS NOT NULL AND e.goes_to NOT IN ('queued', 'scheduled')
    ),

    gone AS (
        DELETE FROM holdfast.jobs
        WHERE id = ANY (ARRAY(SELECT id FROM locked WHERE id IS NOT NULL AND goes_to NOT IN ('queued', 'scheduled')))
    )

    SELECT
        array_agg(CASE WHEN id IS NOT NULL THEN goes_to END ORDER BY ordinal),
        array_agg(id) FILTER (WHERE id IS NOT NULL AND goes_to NOT IN ('queued', 'scheduled')),
        bool_or(id IS NOT NULL AND goes_to IN ('queued', 'scheduled')),
        array_agg(id) FILTER (WHERE id IS NOT NULL AND began IS NOT NULL AND started_at IS NULL),
        array_agg(began) FILTER (WHERE id IS NOT NULL AND began IS NOT NULL AND started_at IS NULL),
        array_agg(attempt) FILTER (WHERE id IS NOT NULL AND began IS NOT NULL AND started_at IS NULL),
        bool_or(goes_to NOT IN ('queued', 'scheduled') AND (hook IS NOT NULL OR extra ? 'webhook')),
        bool_or(goes_to NOT IN ('queued', 'scheduled') AND tells),
        bool_or(id IS NOT NULL AND goes_to = 'failed'), bool_or(gated),
        array_agg(fifo_key) FILTER (WHERE fifo_key IS NOT NULL AND goes_to NOT IN ('queued', 'scheduled')),
        min(worker), max(worker), bool_or(id IS NULL)
    INTO
        v_verdicts, v_moved, v_waiting, v_begun, v_begun_at, v_begun_as, v_posts, v_tells, v_failed, v_gated, v_rows,
        v_first, v_last, v_is_lost
    FROM locked;
    -- plan end

    IF v_moved IS NOT NULL AND v_waiting THEN
        -- Both steps below take rows of progress: here in one order, which is that of save_progress().
        PERFORM FROM (
            SELECT FROM holdfast.progress AS p WHERE p.job_id = ANY (p_ids) ORDER BY p.job_id FOR UPDATE
        ) AS ordered;
    END IF;
    IF v_moved IS NOT NULL THEN
        DELETE FROM holdfast.progress WHERE job_id = ANY (v_moved);
        IF FOUND THEN
            DELETE FROM holdfast.phases WHERE job_id = ANY (v_moved);
            DELETE FROM holdfast.item_sets WHERE job_id = ANY (v_moved);
            DELETE FROM holdfast.items WHERE job_id = ANY (v_moved);
            DELETE FROM holdfast.logs WHERE job_id = ANY (v_moved);
        END IF;
        DELETE FROM holdfast.attempts WHERE job_id = ANY (v_moved);
    END IF;
    IF v_waiting THEN
        PERFORM holdfast.wait_again(
            t.id, t.verb, t.state, t.delay, t.error_class, t.error, t.traceback, t.fingerprint, t.started_ago, v_now
        )
        FROM unnest(
            p_ids, p_verbs, v_verdicts, p_delays, p_error_classes, p_errors, p_tracebacks, p_fingerprints,
            p_started_agos
        ) AS t (id, verb, state, delay, error_class, error, traceback, fingerprint, started_ago)
        WHERE t.state IN ('queued', 'scheduled');
    END IF;
    IF v_failed THEN
        PERFORM holdfast.note_failures(v_moved);
    END IF;
    IF EXISTS (SELECT FROM holdfast.reservations AS r WHERE r.job_id = ANY (p_ids)) THEN
        PERFORM holdfast.settle_spends(p_ids, p_claims, p_verbs, v_verdicts);
    END IF;
    IF v_waiting AND 'throttle' = ANY (p_verbs) THEN
        PERFORM holdfast.close_queues(p_ids, p_verbs);
    END IF;
    IF v_gated OR v_rows IS NOT NULL OR v_is_lost THEN
        -- What is forced to end still runs: its slots stay with it until its worker tells of its end, or is gone. Who held
        -- a claim that was lost is not known, and somebody else may be giving its slots back.
        IF v_is_lost OR v_first IS NULL THEN
            v_first := 0;
            v_last := 9223372036854775807;
            p_hands_over := false;
        END IF;
        PERFORM holdfast.free_slots(array_agg(t.id), array_agg(t.claim), v_rows, v_first, v_last, p_hands_over)
        FROM unnest(p_ids, p_claims, p_verbs) AS t (id, claim, verb)
        WHERE t.verb <> 'force';
    END IF;
    IF v_posts THEN
        PERFORM holdfast.post_ends(v_moved);
    END IF;
    IF v_tells THEN
        PERFORM holdfast.note_retention(v_moved);
    END IF;
    IF holdfast.is_watched() THEN
        PERFORM holdfast.publish_ends(p_ids, p_verbs, v_verdicts, v_begun, v_begun_at, v_begun_as, v_now);
    END IF;
    IF v_is_lost THEN
        -- guard: repeated-finish, without: SELECT array_agg(t.state ORDER BY t.ordinal)
        SELECT array_agg(COALESCE(t.state, holdfast.accepted_before(t.id, t.claim, t.verb)) ORDER BY t.ordinal)
        INTO v_verdicts
        FROM unnest(p_ids, p_claims, p_verbs, v_verdicts) WITH ORDINALITY AS t (id, claim, verb, state, ordinal);
    END IF;
    RETURN v_verdicts;
END
$$;
