-- Mark workers whose lease has ended, then take back every running job without a living worker.
--
-- Candidates are found first and taken by `(id, claim)` afterwards: a job that was given back and claimed anew in
-- between carries another claim, and the worker that holds it may be younger than this statement's snapshot.
--
-- Who had to wait for the tables judges nobody: the renewals of the living have waited for them as well. Who slept
-- judges nobody for it either: the others may have slept too, so only leases count that had ended before `p_before`.
--
-- A claim whose lease has ended is charged, unless it is known that it had not begun: a worker has the start of a job
-- stored before it begins if one more crash may end it for good, or if it crashed before. All others count as begun.
DROP FUNCTION IF EXISTS holdfast.rescue_jobs;
CREATE FUNCTION holdfast.rescue_jobs(p_limit integer, p_before timestamptz DEFAULT NULL)
RETURNS TABLE (workers integer, requeued bigint[], failed bigint[], cancelled bigint[], looked_at timestamptz)
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
    v_ids bigint[];
    v_claims integer[];
    v_verbs text[];
    v_classes text[];
    v_errors text[];
    v_fingerprints text[];
    v_verdicts text[] := '{}';
BEGIN
    LOCK TABLE holdfast.jobs, holdfast.workers IN ROW EXCLUSIVE MODE;
    workers := 0;
    requeued := '{}';
    failed := '{}';
    cancelled := '{}';
    -- guard: rescue-after-wait, without: IF false THEN
    IF clock_timestamp() - statement_timestamp() > interval '0.5 seconds' THEN
        RETURN NEXT;
        RETURN;
    END IF;

    v_now := holdfast.clock();
    looked_at := v_now;
    UPDATE holdfast.workers
    SET dead_at = v_now
    WHERE id = ANY (ARRAY(
        SELECT w.id
        FROM holdfast.workers AS w
        -- guard: rescue-before, without: WHERE w.dead_at IS NULL AND w.lease_until < v_now
        WHERE w.dead_at IS NULL AND w.lease_until < LEAST(v_now, p_before)
        ORDER BY w.id
        FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS workers = ROW_COUNT;

    -- plan: rescue_jobs
    SELECT array_agg(lost.id), array_agg(lost.claim), array_agg(lost.verb)
    INTO v_ids, v_claims, v_verbs
    FROM (
        SELECT
            j.id, j.claim,
            -- guard: unbegun-claim, without: 'crash'
            CASE WHEN (j.crashes > 0 OR j.max_crashes = 1) AND j.started_at IS NULL THEN 'interrupt' ELSE 'crash' END
        FROM holdfast.jobs AS j
        WHERE j.state = 'running'
            -- guard: rescue-living
            AND NOT EXISTS (SELECT FROM holdfast.workers AS w WHERE w.id = j.worker AND w.dead_at IS NULL)
        LIMIT p_limit
    ) AS lost (id, claim, verb);
    -- plan end

    IF v_ids IS NOT NULL THEN
        SELECT
            array_agg(t.id ORDER BY t.id), array_agg(t.claim ORDER BY t.id), array_agg(t.verb ORDER BY t.id),
            array_agg(t.class ORDER BY t.id), array_agg(t.error ORDER BY t.id),
            array_agg(t.class || ':' || t.error ORDER BY t.id)
        INTO v_ids, v_claims, v_verbs, v_classes, v_errors, v_fingerprints
        FROM (
            SELECT
                lost.*, CASE lost.verb WHEN 'crash' THEN 'WorkerLost' END AS class,
                CASE lost.verb WHEN 'crash' THEN 'its worker''s lease ended' END AS error
            FROM unnest(v_ids, v_claims, v_verbs) AS lost (id, claim, verb)
        ) AS t;
        v_verdicts := holdfast.finish_apart(
            v_ids, v_claims, v_verbs, array_fill('queued'::text, ARRAY[cardinality(v_ids)]), '{}', '{}', v_classes,
            v_errors, '{}', v_fingerprints, '{}', '{}'
        );
    END IF;
    SELECT
        COALESCE(array_agg(e.id) FILTER (WHERE e.verdict IN ('queued', 'scheduled')), '{}'),
        COALESCE(array_agg(e.id) FILTER (WHERE e.verdict = 'failed'), '{}'),
        COALESCE(array_agg(e.id) FILTER (WHERE e.verdict = 'cancelled'), '{}')
    INTO requeued, failed, cancelled
    FROM unnest(v_ids, v_verdicts) AS e (id, verdict);
    RETURN NEXT;
END
$$;
