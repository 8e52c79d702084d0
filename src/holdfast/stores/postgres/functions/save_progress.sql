-- Keep the last report of running jobs, and what changed beside it; `p_ids` must be sorted. Answers, in order, whether
-- the claim was still ours.
--
-- After the first report of a claim only the narrow progress row is touched: it carries the claim, which ends with it.
-- Jobs are locked before progress, as a finish does it.
DROP FUNCTION IF EXISTS holdfast.save_progress;
CREATE FUNCTION holdfast.save_progress(
    p_ids bigint[], p_claims integer[], p_percents double precision[], p_messages text[], p_datas jsonb[],
    p_phases text[] DEFAULT '{}', p_phase_percents double precision[] DEFAULT '{}', p_changes jsonb[] DEFAULT '{}'
) RETURNS boolean[]
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_now timestamptz := holdfast.clock();
    v_first bigint[];
    v_done boolean[] := '{}';
    v_report record;
    v_starts boolean := false;
BEGIN
    -- While somebody watches, what tells that its handler began changes the job too: such rows are locked as well, and
    -- before any row of progress.
    IF holdfast.is_watched() THEN
        v_first := ARRAY(
            SELECT held.id
            FROM (
                SELECT t.id, t.claim
                FROM unnest(p_ids, p_claims, p_changes) AS t (id, claim, changes)
                WHERE t.changes ? 'started'
                    OR NOT EXISTS (SELECT FROM holdfast.progress AS p WHERE p.job_id = t.id AND p.claim = t.claim)
                OFFSET 0
            ) AS t
            CROSS JOIN LATERAL (
                SELECT j.id FROM holdfast.jobs AS j
                -- guard: watched-progress-fence, without: WHERE j.id = t.id AND j.state = 'running'
                WHERE j.id = t.id AND j.claim = t.claim AND j.state = 'running'
                FOR NO KEY UPDATE
            ) AS held
        );
        v_starts := true;
    ELSE
        v_first := ARRAY(
            SELECT held.id
            FROM (
                SELECT t.id, t.claim
                FROM unnest(p_ids, p_claims) AS t (id, claim)
                WHERE NOT EXISTS (SELECT FROM holdfast.progress AS p WHERE p.job_id = t.id AND p.claim = t.claim)
                OFFSET 0
            ) AS t
            CROSS JOIN LATERAL (
                SELECT j.id FROM holdfast.jobs AS j
                -- guard: progress-fence, without: WHERE j.id = t.id AND j.state = 'running'
                WHERE j.id = t.id AND j.claim = t.claim AND j.state = 'running'
                FOR KEY SHARE
            ) AS held
        );
    END IF;
    FOR v_report IN
        SELECT *
        FROM unnest(
            p_ids, p_claims, p_percents, p_messages, p_datas, p_phases, p_phase_percents, p_changes
        ) AS t (id, claim, percent, message, data, phase, phase_percent, changes)
    LOOP
        IF v_report.id = ANY (v_first) THEN
            INSERT INTO holdfast.progress AS p (
                job_id, claim, percent, message, data, updated_at, phase, phase_percent
            )
            VALUES (
                v_report.id, v_report.claim, v_report.percent, v_report.message, v_report.data, v_now, v_report.phase,
                v_report.phase_percent
            )
            ON CONFLICT (job_id) DO UPDATE
            SET
                claim = excluded.claim, updated_at = excluded.updated_at,
                percent = CASE WHEN v_report.changes ? 'bare' THEN p.percent ELSE excluded.percent END,
                message = CASE WHEN v_report.changes ? 'bare' THEN p.message ELSE excluded.message END,
                data = CASE WHEN v_report.changes ? 'bare' THEN p.data ELSE excluded.data END,
                phase = CASE WHEN v_report.changes ? 'bare' THEN p.phase ELSE excluded.phase END,
                phase_percent = CASE WHEN v_report.changes ? 'bare' THEN p.phase_percent ELSE excluded.phase_percent END;
        ELSIF v_report.changes ? 'bare' THEN
            UPDATE holdfast.progress SET updated_at = v_now WHERE job_id = v_report.id AND claim = v_report.claim;
        ELSE
            UPDATE holdfast.progress
            SET
                percent = v_report.percent, message = v_report.message, data = v_report.data, updated_at = v_now,
                phase = v_report.phase, phase_percent = v_report.phase_percent
            WHERE job_id = v_report.id AND claim = v_report.claim;  -- guard: reported-claim, without: WHERE job_id = v_report.id;
        END IF;
        v_done := v_done || FOUND;
        IF FOUND AND v_report.changes ?| '{reset,sets,items,logs}' THEN
            PERFORM holdfast.save_changes(v_report.id, v_report.claim, v_report.changes, v_now);
        END IF;
    END LOOP;
    -- Ends of phases, which are what most reports have to say, all in one go.
    INSERT INTO holdfast.phases AS known (
        job_id, name, ordinal, weight, state, claim, percent, message, data, error, result, started_at, ended_at
    )
    SELECT
        t.id, c.name, c.ordinal, c.weight, c.state, t.claim, c.percent, c.message, c.data, c.error, c.result,
        v_now - c.started_ago * interval '1 millisecond', v_now - c.ended_ago * interval '1 millisecond'
    FROM unnest(p_ids, p_claims, p_changes, v_done) AS t (id, claim, changes, is_done)
    CROSS JOIN LATERAL jsonb_to_recordset(t.changes -> 'phases') AS c (
        name text, ordinal integer, weight double precision, state text, percent double precision, message text,
        data jsonb, error text, result jsonb, started_ago bigint, ended_ago bigint
    )
    WHERE t.is_done AND t.changes ? 'phases'
    -- A phase that a claim has completed stays so, whatever word of the same claim comes later than it should.
    ON CONFLICT (job_id, name) DO UPDATE
    SET
        ordinal = excluded.ordinal, weight = excluded.weight, state = excluded.state, claim = excluded.claim,
        percent = excluded.percent, message = excluded.message, data = excluded.data, error = excluded.error,
        result = excluded.result, started_at = excluded.started_at, ended_at = excluded.ended_at
    WHERE known.state <> 'completed' OR known.claim <> excluded.claim OR excluded.state = 'completed';
    -- Now that nothing is waited for any more: whoever registered meanwhile hears of it.
    IF holdfast.is_watched() THEN
        PERFORM holdfast.publish_report(t.id, t.changes, v_now, v_starts)
        FROM unnest(p_ids, p_changes, v_done) AS t (id, changes, is_done)
        WHERE t.is_done;
    END IF;
    RETURN v_done;
END
$$;
