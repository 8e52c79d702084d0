-- Tell of the thresholds that a period of a budget has reached, each once. What is spent or lost counts; `p_blocked` is
-- the share of the threshold that has stopped a job, which is then reached as well.
--
-- The caller has locked the row of the period, so that nobody else tells of the same.
DROP FUNCTION IF EXISTS holdfast.note_alerts;
CREATE FUNCTION holdfast.note_alerts(
    p_budget text, p_key text, p_starts timestamptz, p_queue text, p_blocked bigint
) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_period holdfast.budget_periods;
    v_budget holdfast.budgets;
    v_share bigint;
BEGIN
    SELECT * INTO v_budget FROM holdfast.budgets WHERE name = p_budget;
    SELECT * INTO v_period
    FROM holdfast.budget_periods
    WHERE budget = p_budget AND key = p_key AND starts_at = p_starts;
    FOR v_share IN
        SELECT DISTINCT (t.pair ->> 0)::bigint
        FROM jsonb_array_elements(v_budget.thresholds) AS t (pair)
        WHERE t.pair ->> 1 = 'alert' AND NOT v_period.alerts @> (t.pair -> 0)
            AND (
                (t.pair ->> 0)::bigint <= p_blocked
                OR v_period.spent + v_period.lost >= holdfast.share_of(v_budget.ceiling, (t.pair ->> 0)::bigint)
            )
        ORDER BY 1
    LOOP
        UPDATE holdfast.budget_periods
        SET alerts = alerts || to_jsonb(v_share)
        WHERE budget = p_budget AND key = p_key AND starts_at = p_starts;
        INSERT INTO holdfast.alarms (at, source, queue, fingerprint, title, details)
        VALUES (
            holdfast.clock(), 'budget', p_queue, p_budget || ':' || p_key || ':' || v_share,
            'budget ' || p_budget || CASE p_key WHEN '' THEN '' ELSE ' of ' || p_key END || ' has reached '
            || trim_scale(v_share / 10000.0) || ' %',
            jsonb_build_object(
                'budget', p_budget, 'key', p_key, 'share', v_share / 1000000.0, 'unit', v_budget.unit,
                'spent', v_period.spent, 'reserved', v_period.reserved, 'lost', v_period.lost,
                'ceiling', v_budget.ceiling, 'period_starts', v_period.starts_at, 'period_ends', v_period.ends_at
            )
        );
    END LOOP;
END
$$;
