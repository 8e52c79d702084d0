-- Let what was set aside for claims end with them. A claim whose handler came to its end has told what it spent, and
-- the rest is free again; of any other one the rest counts as spent, until a late report or somebody tells otherwise.
--
-- A state of null stands for a claim that did not end here. The rows of the periods are locked first and in order, as
-- by everybody who changes a reservation; what was read before that wait decides nothing.
DROP FUNCTION IF EXISTS holdfast.settle_spends;
CREATE FUNCTION holdfast.settle_spends(p_ids bigint[], p_claims integer[], p_verbs text[], p_states text[])
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    v_row record;
    v_settled integer := 0;
    v_left bigint;
BEGIN
    PERFORM FROM (
        SELECT
        FROM holdfast.budget_periods AS p
        WHERE (p.budget, p.key, p.starts_at) IN (
            SELECT r.budget, r.key, r.starts_at FROM holdfast.reservations AS r WHERE r.job_id = ANY (p_ids)
        )
        ORDER BY p.budget, p.key, p.starts_at
        FOR UPDATE
    ) AS ordered;
    FOR v_row IN
        WITH ended AS MATERIALIZED (
            -- guard: killed-reservation, without: SELECT t.id, t.claim, false AS is_lost, t.verb = 'settle' AS by_hand
            SELECT t.id, t.claim, t.verb IN ('crash', 'force', 'interrupt') AS is_lost, t.verb = 'settle' AS by_hand
            FROM unnest(p_ids, p_claims, p_verbs, p_states) AS t (id, claim, verb, state)
            WHERE t.state IS NOT NULL  -- guard: reservation-claim
        ),

        kept AS (
            UPDATE holdfast.reservations AS r
            SET state = 'lost'
            FROM ended AS e
            WHERE r.job_id = e.id AND r.claim = e.claim AND e.is_lost AND r.state = 'open' AND r.amount > r.spent
            RETURNING r.budget, r.key, r.starts_at, r.queue, r.amount - r.spent AS open, r.spent - r.amount AS lost
        ),

        gone AS (
            DELETE FROM holdfast.reservations AS r
            USING ended AS e
            WHERE r.job_id = e.id AND r.claim = e.claim  -- guard: reservation-claim, without: WHERE r.job_id = e.id
                AND (e.by_hand OR (r.state = 'open' AND (NOT e.is_lost OR r.amount <= r.spent)))
            RETURNING
                r.budget, r.key, r.starts_at, r.queue,
                CASE r.state WHEN 'open' THEN GREATEST(r.amount - r.spent, 0) ELSE 0 END AS open,
                CASE r.state WHEN 'lost' THEN GREATEST(r.amount - r.spent, 0) ELSE 0 END AS lost
        )

        SELECT budget, key, starts_at, min(queue) AS queue, sum(open) AS open, sum(lost) AS lost, count(*) AS claims
        FROM (SELECT * FROM kept UNION ALL SELECT * FROM gone) AS changed
        GROUP BY budget, key, starts_at
    LOOP
        v_settled := v_settled + v_row.claims;
        UPDATE holdfast.budget_periods
        SET reserved = reserved - v_row.open, lost = lost - v_row.lost
        WHERE budget = v_row.budget AND key = v_row.key AND starts_at = v_row.starts_at
        RETURNING reserved INTO v_left;
        IF v_row.lost < 0 THEN
            PERFORM holdfast.note_alerts(v_row.budget, v_row.key, v_row.starts_at, v_row.queue, NULL);
        END IF;
        -- As many as have ended may have room now; after the last one nobody else would let the others know. Whoever is
        -- being changed by somebody else looks again by itself.
        UPDATE holdfast.jobs
        SET run_at = holdfast.clock()
        WHERE id = ANY (ARRAY(
            SELECT j.id
            FROM holdfast.jobs AS j
            WHERE j.state = 'held' AND j.limit_key = 'budget:' || v_row.budget || ' room'
            ORDER BY j.enqueued_seq
            LIMIT CASE v_left WHEN 0 THEN 1000 ELSE v_row.claims END
            FOR UPDATE SKIP LOCKED
        ));
    END LOOP;
    RETURN v_settled;
END
$$;
