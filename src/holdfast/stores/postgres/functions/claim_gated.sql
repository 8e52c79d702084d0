-- Take jobs from lanes of which some have limits: as claim_jobs does, but each job has to pass its limits. What may not run
-- is parked, and others are looked for in its place.
DROP FUNCTION IF EXISTS holdfast.claim_gated;
CREATE FUNCTION holdfast.claim_gated(
    p_worker bigint, p_batch bigint, p_limit integer, p_queues text[], p_priorities smallint[], p_limits integer[],
    p_afters bigint[], p_ids bigint[] DEFAULT NULL
) RETURNS SETOF holdfast.jobs
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_ids bigint[];
    v_claims integer[];
    v_queues text[];
    v_gates record;
    v_claimed bigint[] := '{}';
    v_may_wait boolean := COALESCE(current_setting('holdfast_call.freed', true), '') <> 'on';
    v_from_start boolean := COALESCE(current_setting('holdfast_call.released', true), '') = 'on';
BEGIN
    FOR round IN 1..4 LOOP
        IF p_ids IS NULL THEN
            -- plan: claim_gated
            SELECT array_agg(picked.id), array_agg(picked.claim + 1), array_agg(picked.queue)
            INTO v_ids, v_claims, v_queues
            FROM (
                SELECT candidate.id, candidate.claim, candidate.queue
                FROM (
                    SELECT t.queue, t.priority, t.most, CASE WHEN v_from_start THEN 0 ELSE t.after END AS after
                    FROM unnest(p_queues, p_priorities, p_limits, p_afters) AS t (queue, priority, most, after)
                    WHERE NOT EXISTS (
                        SELECT FROM holdfast.queues AS q
                        WHERE q.name = t.queue AND (q.paused_at IS NOT NULL OR q.closed_until > holdfast.clock())
                    )
                    OFFSET 0
                ) AS lane
                CROSS JOIN LATERAL (
                    SELECT j.id, j.claim, j.queue
                    FROM holdfast.jobs AS j
                    WHERE j.queue = lane.queue AND j.priority = lane.priority AND j.state = 'queued'
                        AND j.position > lane.after
                    ORDER BY j.position
                    LIMIT lane.most
                    FOR UPDATE SKIP LOCKED
                ) AS candidate
                LIMIT p_limit - cardinality(v_claimed)
            ) AS picked;
            -- plan end
        ELSE
            SELECT array_agg(picked.id), array_agg(picked.claim + 1), array_agg(picked.queue)
            INTO v_ids, v_claims, v_queues
            FROM (
                SELECT candidate.id, candidate.claim, candidate.queue
                FROM unnest(p_ids) AS asked (id)
                CROSS JOIN LATERAL (
                    SELECT j.id, j.claim, j.queue
                    FROM holdfast.jobs AS j
                    WHERE j.id = asked.id AND j.state = 'queued'
                        AND NOT EXISTS (
                            SELECT FROM holdfast.queues AS q
                            WHERE q.name = j.queue AND (q.paused_at IS NOT NULL OR q.closed_until > holdfast.clock())
                        )
                    FOR UPDATE SKIP LOCKED
                ) AS candidate
                LIMIT p_limit
            ) AS picked;
        END IF;
        EXIT WHEN v_ids IS NULL;

        SELECT * INTO v_gates FROM holdfast.pass_gates(v_ids, v_claims, v_queues, p_worker, v_may_wait AND round = 1);
        IF cardinality(v_gates.passed) > 0 THEN
            RETURN QUERY
            UPDATE holdfast.jobs
            SET
                state = 'running', claim = claim + 1, attempt = attempt + 1, worker = p_worker, claim_batch = p_batch,
                claimed_at = holdfast.clock(), started_at = NULL,
                extra = CASE
                    WHEN v_gates.has_spaced AND v_gates.permits ? id::text
                        THEN COALESCE(extra, '{}') || jsonb_build_object('permit_at', v_gates.permits -> id::text)
                    ELSE extra - 'permit_at'
                END
            WHERE id = ANY (v_gates.passed)
            RETURNING *;
            v_claimed := v_claimed || v_gates.passed;
            IF EXISTS (SELECT FROM holdfast.limits AS l WHERE l.rotate) THEN
                PERFORM holdfast.rotate_keys(v_gates.passed);
            END IF;
        END IF;
        -- Whoever holds the row of a throttle looks for no others: it would lock rows out of order.
        EXIT WHEN NOT v_gates.parked OR v_gates.has_spaced OR p_ids IS NOT NULL OR cardinality(v_claimed) >= p_limit;
    END LOOP;
END
$$;
