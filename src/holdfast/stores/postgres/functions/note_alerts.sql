-- Tell of the thresholds that a period of a budget has reached, each once. What is spent or lost counts. `p_blocked` is
-- the share of the threshold that has kept a job out: before the last alert up to it is reached, that is told of too.
--
-- The caller has locked the row of the period, so that nobody else tells of the same. What was told is remembered by its
-- share, and a job that was kept out by the negative of it.
DROP FUNCTION IF EXISTS holdfast.note_alerts;
CREATE FUNCTION holdfast.note_alerts(
    p_budget text, p_key text, p_starts timestamptz, p_queue text, p_blocked bigint
) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_period holdfast.budget_periods;
    v_budget holdfast.budgets;
    v_certain bigint;
    v_told bigint;
    v_percent numeric;
BEGIN
    SELECT * INTO v_budget FROM holdfast.budgets WHERE name = p_budget;
    SELECT * INTO v_period
    FROM holdfast.budget_periods
    WHERE budget = p_budget AND key = p_key AND starts_at = p_starts;
    v_certain := v_period.spent + v_period.lost;
    FOR v_told IN
        SELECT DISTINCT CASE WHEN alert.is_reached THEN alert.share ELSE -alert.share END
        FROM (
            SELECT
                a.share,
                v_certain >= holdfast.share_of(v_budget.ceiling, a.share) AS is_reached,
                max(a.share) FILTER (WHERE a.share <= p_blocked) OVER () AS last_share
            FROM (
                SELECT (t.pair ->> 0)::bigint AS share
                FROM jsonb_array_elements(v_budget.thresholds) AS t (pair)
                WHERE t.pair ->> 1 = 'alert'
            ) AS a
        ) AS alert
        WHERE (alert.is_reached OR alert.share = alert.last_share)
            AND NOT v_period.alerts @> to_jsonb(CASE WHEN alert.is_reached THEN alert.share ELSE -alert.share END)
        ORDER BY 1
    LOOP
        v_percent := CASE WHEN v_told >= 0 THEN v_told / 10000.0 ELSE floor(v_certain * 100.0 / v_budget.ceiling) END;
        UPDATE holdfast.budget_periods
        SET alerts = alerts || to_jsonb(v_told)
        WHERE budget = p_budget AND key = p_key AND starts_at = p_starts;
        INSERT INTO holdfast.alarms (at, source, queue, fingerprint, title, details)
        VALUES (
            holdfast.clock(), 'budget', p_queue, p_budget || ':' || p_key || ':' || v_told,
            'budget ' || p_budget || CASE p_key WHEN '' THEN '' ELSE ' of ' || p_key END || ' has reached '
            || trim_scale(v_percent) || ' %'
            || CASE
                WHEN v_told >= 0 THEN ''
                ELSE ' and keeps jobs out that do not fit below ' || trim_scale(p_blocked / 10000.0) || ' %'
            END,
            jsonb_build_object(
                'budget', p_budget, 'key', p_key, 'share', v_percent / 100, 'unit', v_budget.unit,
                'spent', v_period.spent, 'reserved', v_period.reserved, 'lost', v_period.lost,
                'ceiling', v_budget.ceiling, 'period_starts', v_period.starts_at, 'period_ends', v_period.ends_at
            )
        );
    END LOOP;
END
$$;
