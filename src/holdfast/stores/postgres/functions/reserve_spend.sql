-- Set an estimate aside for a claim before its handler starts; asked again, the answer is the same.
--
-- 'granted', 'refused' (the job is to fail), 'held' (the claim has ended, the job waits), 'lost' (the claim is no
-- longer ours), 'stale' (the period is over, or has not begun), 'free' (there is no such budget any more).
--
-- What is certain is spent or lost; what is reserved may come back. A job that only reservations keep out waits for
-- those to end, one that money keeps out waits for the next period or fails.
DROP FUNCTION IF EXISTS holdfast.reserve_spend;
CREATE FUNCTION holdfast.reserve_spend(
    p_job bigint, p_claim integer, p_budget text, p_key text, p_estimate bigint, p_starts timestamptz,
    p_ends timestamptz, p_jitter_ms bigint, p_patience_ms bigint
) RETURNS TABLE (
    outcome text, at timestamptz, spent bigint, reserved bigint, lost bigint, ceiling bigint, wakes_at timestamptz
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_budget holdfast.budgets;
    v_period holdfast.budget_periods;
    v_queue text;
    v_needed bigint := GREATEST(p_estimate, 1);
    v_certain bigint;
    v_defer bigint;
    v_stop bigint;
    v_blocked bigint;
    v_mark text := 'budget:' || p_budget;
BEGIN
    at := holdfast.clock();
    outcome := 'stale';
    IF at < p_starts OR at >= p_ends THEN
        RETURN NEXT;
        RETURN;
    END IF;
    -- guard: reserve-fence, without: SELECT queue INTO v_queue FROM holdfast.jobs WHERE id = p_job FOR UPDATE;
    SELECT queue INTO v_queue FROM holdfast.jobs WHERE id = p_job AND claim = p_claim AND state = 'running' FOR UPDATE;
    IF NOT FOUND THEN
        SELECT CASE WHEN state = 'held' AND limit_key IN (v_mark, v_mark || ' room') THEN 'held' END, run_at
        INTO outcome, wakes_at
        FROM holdfast.jobs
        WHERE id = p_job AND claim = p_claim;
        outcome := COALESCE(outcome, 'lost');
        RETURN NEXT;
        RETURN;
    END IF;
    INSERT INTO holdfast.budget_periods (budget, key, starts_at, ends_at)
    VALUES (p_budget, p_key, p_starts, p_ends)
    ON CONFLICT DO NOTHING;
    SELECT * INTO v_period
    FROM holdfast.budget_periods
    WHERE budget = p_budget AND key = p_key AND starts_at = p_starts
    FOR UPDATE;
    v_certain := v_period.spent + v_period.lost;

    FOR v_round IN 1..2 LOOP
        -- Who is about to keep a job out waits for those who change the budget, so that nobody is held by what it was:
        -- whoever changes it lets go of all that is held by then.
        IF v_round = 1 THEN
            SELECT * INTO v_budget FROM holdfast.budgets WHERE name = p_budget;
        ELSE
            SELECT * INTO v_budget FROM holdfast.budgets WHERE name = p_budget FOR SHARE;
        END IF;
        SELECT
            min((t.pair ->> 0)::bigint) FILTER (WHERE t.pair ->> 1 = 'defer'),
            min((t.pair ->> 0)::bigint) FILTER (WHERE t.pair ->> 1 = 'stop')
        INTO v_defer, v_stop
        FROM jsonb_array_elements(v_budget.thresholds) AS t (pair);
        v_blocked := CASE
            WHEN v_budget.name IS NULL THEN NULL
            WHEN v_certain >= holdfast.share_of(v_budget.ceiling, v_stop) THEN v_stop
            WHEN v_certain + v_period.reserved + v_needed > holdfast.share_of(v_budget.ceiling, v_defer) THEN v_defer
            WHEN v_certain + v_period.reserved + v_needed > holdfast.share_of(v_budget.ceiling, v_stop) THEN v_stop
        END;
        outcome := CASE
            WHEN v_budget.name IS NULL THEN 'free'
            WHEN EXISTS (SELECT FROM holdfast.reservations WHERE job_id = p_job AND claim = p_claim) THEN 'granted'
            WHEN v_blocked IS NULL THEN 'granted'
            WHEN v_certain >= holdfast.share_of(v_budget.ceiling, v_stop) THEN 'refused'
            WHEN v_needed > holdfast.share_of(v_budget.ceiling, v_blocked) THEN 'refused'
            WHEN v_certain + v_needed <= holdfast.share_of(v_budget.ceiling, v_blocked) THEN 'room'
            WHEN v_blocked = v_defer THEN 'held'
            ELSE 'refused'
        END;
        EXIT WHEN outcome IN ('granted', 'free');
    END LOOP;

    IF outcome = 'granted' THEN
        INSERT INTO holdfast.reservations (job_id, claim, budget, key, starts_at, queue, amount, at)
        VALUES (p_job, p_claim, p_budget, p_key, p_starts, v_queue, p_estimate, at)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            UPDATE holdfast.budget_periods
            SET reserved = reserved + p_estimate
            WHERE budget = p_budget AND key = p_key AND starts_at = p_starts;
            v_period.reserved := v_period.reserved + p_estimate;
        END IF;
    ELSIF outcome IN ('refused', 'held') THEN
        PERFORM holdfast.note_alerts(p_budget, p_key, p_starts, v_queue, v_blocked);
    END IF;
    IF outcome IN ('held', 'room') THEN
        wakes_at := CASE outcome
            WHEN 'held' THEN p_ends + p_jitter_ms * interval '1 millisecond'
            ELSE at + p_patience_ms * interval '1 millisecond'
        END;
        PERFORM holdfast.finish_jobs(
            ARRAY[p_job], ARRAY[p_claim], ARRAY['snooze'], ARRAY['scheduled'],
            ARRAY[ceil(extract(epoch FROM wakes_at - at) * 1000)::bigint], '{}', '{}', '{}', '{}', '{}', '{}', '{}'
        );
        UPDATE holdfast.jobs
        SET state = 'held', position = NULL, limit_key = v_mark || CASE outcome WHEN 'room' THEN ' room' ELSE '' END
        WHERE id = p_job AND state = 'scheduled';
        outcome := 'held';
    END IF;
    spent := v_period.spent;
    reserved := v_period.reserved;
    lost := v_period.lost;
    ceiling := v_budget.ceiling;
    RETURN NEXT;
END
$$;
