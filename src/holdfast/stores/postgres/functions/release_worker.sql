-- Declare a worker dead whose process is known to be gone. Its claims that are named end as they are told to, all
-- others are given back uncharged; what the worker does not hold, under the very claim named, is left alone.
--
-- The mark comes first: a claim that is still on its way is then refused, or found by the next rescue. All claims end
-- in one call, so that rows are locked once and in the order of their ids.
DROP FUNCTION IF EXISTS holdfast.release_worker;
CREATE FUNCTION holdfast.release_worker(
    p_worker bigint,
    p_ids bigint[], p_claims integer[], p_verbs text[], p_states text[], p_delays bigint[], p_results jsonb[],
    p_error_classes text[], p_errors text[], p_tracebacks text[], p_fingerprints text[], p_started_agos bigint[]
) RETURNS TABLE (workers integer, requeued bigint[], failed bigint[], cancelled bigint[])
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_ids bigint[];
    v_verdicts text[] := '{}';
BEGIN
    -- Before the row of the worker, so that nobody's renewal waits for that while this waits for the table.
    LOCK TABLE holdfast.jobs IN ROW EXCLUSIVE MODE;
    UPDATE holdfast.workers SET dead_at = holdfast.clock() WHERE id = p_worker AND dead_at IS NULL;
    GET DIAGNOSTICS workers = ROW_COUNT;

    SELECT
        array_agg(held.id ORDER BY held.id), array_agg(held.claim ORDER BY held.id),
        array_agg(COALESCE(t.verb, 'interrupt') ORDER BY held.id),
        array_agg(COALESCE(t.state, 'queued') ORDER BY held.id), array_agg(t.delay ORDER BY held.id),
        array_agg(t.result ORDER BY held.id), array_agg(t.error_class ORDER BY held.id),
        array_agg(t.error ORDER BY held.id), array_agg(t.traceback ORDER BY held.id),
        array_agg(t.fingerprint ORDER BY held.id), array_agg(t.started_ago ORDER BY held.id)
    INTO
        v_ids, p_claims, p_verbs, p_states, p_delays, p_results, p_error_classes, p_errors, p_tracebacks,
        p_fingerprints, p_started_agos
    FROM holdfast.jobs AS held
    LEFT JOIN unnest(
        p_ids, p_claims, p_verbs, p_states, p_delays, p_results, p_error_classes, p_errors, p_tracebacks,
        p_fingerprints, p_started_agos
    ) AS t (
        id, claim, verb, state, delay, result, error_class, error, traceback, fingerprint, started_ago
    ) ON t.id = held.id AND t.claim = held.claim  -- guard: release-claim, without: ) ON t.id = held.id
    -- guard: release-holder, without: WHERE held.state = 'running';
    WHERE held.state = 'running' AND held.worker = p_worker;

    IF v_ids IS NOT NULL THEN
        v_verdicts := holdfast.finish_apart(
            v_ids, p_claims, p_verbs, p_states, p_delays, p_results, p_error_classes, p_errors, p_tracebacks,
            p_fingerprints, p_started_agos, '{}'
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
