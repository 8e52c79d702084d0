-- Write what a handler has spent into the ledger; sent twice, it is written once. The one thing that a claim may still
-- write when it is lost: the money is gone all the same, and the row says that it came late.
DROP FUNCTION IF EXISTS holdfast.record_spend;
CREATE FUNCTION holdfast.record_spend(
    p_job bigint, p_claim integer, p_n integer, p_budget text, p_key text, p_kind text, p_queue text, p_actor text,
    p_unit text, p_amount bigint, p_note text, p_starts timestamptz, p_ends timestamptz
) RETURNS TABLE (
    outcome text, at timestamptz, is_late boolean, spent bigint, reserved bigint, lost bigint, ceiling bigint
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_state text;
    v_used bigint := 0;
BEGIN
    at := holdfast.clock();
    outcome := 'recorded';
    -- Whether it was late is decided when it first arrives.
    SELECT l.is_late, l.at INTO is_late, at
    FROM holdfast.ledger AS l
    WHERE l.job_id = p_job AND l.claim = p_claim AND l.n = p_n;
    IF NOT FOUND THEN
        at := holdfast.clock();
        IF p_budget IS NOT NULL AND (at < p_starts OR at >= p_ends) THEN
            outcome := 'stale';
            RETURN NEXT;
            RETURN;
        END IF;
        is_late := NOT EXISTS (
            SELECT FROM holdfast.jobs WHERE id = p_job AND claim = p_claim AND state = 'running'
        );
        IF p_budget IS NOT NULL THEN
            INSERT INTO holdfast.budget_periods (budget, key, starts_at, ends_at)
            VALUES (p_budget, p_key, p_starts, p_ends)
            ON CONFLICT DO NOTHING;
            -- Before the claim's reservation, as all who change one do.
            PERFORM FROM holdfast.budget_periods
            WHERE budget = p_budget AND key = p_key AND starts_at = p_starts
            FOR UPDATE;
        END IF;
        INSERT INTO holdfast.ledger (
            at, budget, key, kind, queue, actor, job_id, claim, n, unit, amount, note, is_late
        )
        VALUES (
            at, p_budget, p_key, p_kind, p_queue, p_actor, p_job, p_claim, p_n, p_unit, p_amount, p_note, is_late
        )
        ON CONFLICT (job_id, claim, n) DO NOTHING;
        IF FOUND AND p_budget IS NOT NULL THEN
            UPDATE holdfast.reservations AS r
            SET spent = r.spent + p_amount
            WHERE r.job_id = p_job AND r.claim = p_claim AND r.budget = p_budget AND r.key = p_key
                AND r.starts_at = p_starts
            RETURNING LEAST(GREATEST(r.amount - r.spent + p_amount, 0), p_amount), r.state
            INTO v_used, v_state;
            UPDATE holdfast.budget_periods AS p
            SET
                spent = p.spent + p_amount,
                reserved = p.reserved - CASE WHEN v_state = 'open' THEN v_used ELSE 0 END,
                lost = p.lost - CASE WHEN v_state = 'lost' THEN v_used ELSE 0 END
            WHERE p.budget = p_budget AND p.key = p_key AND p.starts_at = p_starts;
            PERFORM holdfast.note_alerts(p_budget, p_key, p_starts, p_queue, NULL);
        END IF;
    END IF;
    SELECT p.spent, p.reserved, p.lost, b.ceiling
    INTO spent, reserved, lost, ceiling
    FROM holdfast.budget_periods AS p
    INNER JOIN holdfast.budgets AS b ON b.name = p.budget
    WHERE p.budget = p_budget AND p.key = p_key AND p.starts_at = p_starts;
    RETURN NEXT;
END
$$;
