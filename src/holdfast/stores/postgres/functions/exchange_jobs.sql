-- End claims and take the next jobs in one commit. The first row carries the verdicts and whether the worker was
-- declared dead (the finish stands all the same); each further row is a claimed job, column by column: to take a
-- composite value apart costs more than to find the job. An array of claims, verbs or states may hold one value, which is
-- then that of every job.
DROP FUNCTION IF EXISTS holdfast.exchange_jobs;
CREATE FUNCTION holdfast.exchange_jobs(
    p_ids bigint[], p_claims integer[], p_verbs text[], p_states text[], p_delays bigint[], p_results jsonb[],
    p_error_classes text[], p_errors text[], p_tracebacks text[], p_fingerprints text[], p_started_agos bigint[],
    p_rollups jsonb,
    p_worker bigint, p_batch bigint, p_limit integer, p_queues text[], p_priorities smallint[], p_limits integer[],
    p_afters bigint[], p_claim_ids bigint[] DEFAULT NULL
) RETURNS TABLE (
    verdicts text[], worker_lost boolean, id bigint, kind text, queue text, priority smallint, state text,
    "position" bigint, payload jsonb, tags jsonb, actor text, run_at timestamptz, enqueued_at timestamptz, enqueued_seq bigint,
    claim integer, life integer, attempt integer, max_attempts integer, crashes integer, max_crashes integer,
    timeout_ms bigint, worker bigint, claim_batch bigint, claimed_at timestamptz, started_at timestamptz,
    cancel_requested_at timestamptz, announced_at timestamptz, unique_key text, idempotency_key text, limit_key text,
    fifo_key text, debounce_key text, schedule text, fire_time timestamptz, parent bigint, workflow bigint,
    pending integer, origin bigint, error_class text, error text, error_fingerprint text, extra jsonb, stale_at timestamptz,
    delete_at timestamptz
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    worker_lost := p_worker IS NOT NULL
        AND NOT EXISTS (SELECT FROM holdfast.workers AS w WHERE w.id = p_worker AND w.dead_at IS NULL);
    IF cardinality(p_ids) > 0 THEN
        IF cardinality(p_claims) = 1 THEN p_claims := array_fill(p_claims[1], ARRAY[cardinality(p_ids)]); END IF;
        IF cardinality(p_verbs) = 1 THEN p_verbs := array_fill(p_verbs[1], ARRAY[cardinality(p_ids)]); END IF;
        IF cardinality(p_states) = 1 THEN p_states := array_fill(p_states[1], ARRAY[cardinality(p_ids)]); END IF;
        verdicts := holdfast.finish_jobs(
            p_ids, p_claims, p_verbs, p_states, p_delays, p_results, p_error_classes, p_errors, p_tracebacks,
            p_fingerprints, p_started_agos, '{}', p_limit > 0 AND p_worker IS NOT NULL AND NOT worker_lost
        );
    END IF;
    IF p_rollups IS NOT NULL THEN
        INSERT INTO holdfast.rollups (minute, queue, kind, state, jobs, wait, run)
        SELECT date_trunc('minute', holdfast.clock(), 'UTC'), r.queue, r.kind, r.state, r.jobs, r.wait, r.run
        FROM jsonb_to_recordset(p_rollups) AS r (queue text, kind text, state text, jobs bigint, wait jsonb, run jsonb);
    END IF;
    RETURN NEXT;
    IF p_claim_ids IS NOT NULL AND NOT worker_lost THEN
        RETURN QUERY
        SELECT NULL::text[], false, claimed.*
        FROM holdfast.claim_jobs_by_id(p_worker, p_batch, p_limit, p_claim_ids) AS claimed;
    ELSIF p_worker IS NOT NULL AND NOT worker_lost THEN
        IF EXISTS (SELECT FROM holdfast.queues AS q WHERE q.name = ANY (p_queues) AND q.gated) THEN
            -- Not by way of claim_jobs(): each function that passes rows on copies them.
            PERFORM holdfast.require_worker(p_worker);
            RETURN QUERY
            SELECT NULL::text[], false, claimed.*
            FROM holdfast.claim_gated(
                p_worker, p_batch, p_limit, p_queues, p_priorities, p_limits, p_afters
            ) AS claimed;
        ELSE
            RETURN QUERY
            SELECT NULL::text[], false, claimed.*
            FROM holdfast.claim_jobs(
                p_worker, p_batch, p_limit, p_queues, p_priorities, p_limits, p_afters, false
            ) AS claimed;
        END IF;
    END IF;
    IF current_setting('holdfast_call.slots', true) <> '' THEN
        PERFORM holdfast.free_rest();
    END IF;
END
$$;
