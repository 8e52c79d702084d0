-- Fold roll-ups that have grown old, at most p_limit groups: what was written into one row per minute, minutes into
-- half hours, those into hours, hours into days. Answers how many rows that made.
--
-- What is added up is exactly what the same statement deletes. A row that a finisher adds meanwhile is not seen and
-- stays for the next call, and of two who fold at once only one gets a row. So the lock below is not what keeps the
-- counts exact: it keeps the second from waiting for the first.
DROP FUNCTION IF EXISTS holdfast.fold_rollups;
CREATE FUNCTION holdfast.fold_rollups(p_limit integer) RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    v_step record;
    v_rows integer;
    v_made integer := 0;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('holdfast fold ' || 'holdfast.rollups'::regclass::oid, 0)) THEN
        RETURN 0;
    END IF;
    FOR v_step IN
        SELECT steps.span_s, steps.wider_s, steps.wider, date_bin(steps.wider, holdfast.clock() - steps.age, 'epoch') AS until
        FROM (
            VALUES
            (1, 60, interval '1 minute', interval '5 minutes'),
            (60, 1800, interval '30 minutes', interval '2 hours'),
            (1800, 3600, interval '1 hour', interval '2 days'),
            (3600, 86400, interval '24 hours', interval '90 days')
        ) AS steps (span_s, wider_s, wider, age)
    LOOP
        WITH old AS MATERIALIZED (
            SELECT r.minute, r.queue, r.kind, r.state
            FROM holdfast.rollups AS r
            WHERE r.span_s = v_step.span_s AND r.minute < v_step.until
            ORDER BY r.minute
            LIMIT 10000
        ),

        groups AS MATERIALIZED (
            SELECT DISTINCT date_bin(v_step.wider, old.minute, 'epoch') AS start, old.queue, old.kind, old.state
            FROM old
            ORDER BY 1, 2, 3, 4
            LIMIT p_limit - v_made
        ),

        -- With the row that an earlier call has made of the same group, if there is one.
        gone AS (
            DELETE FROM holdfast.rollups AS r
            USING groups AS g
            WHERE r.span_s IN (v_step.span_s, v_step.wider_s)
                AND r.minute >= (SELECT min(start) FROM groups)
                AND r.minute < (SELECT max(start) FROM groups) + v_step.wider
                AND (date_bin(v_step.wider, r.minute, 'epoch'), r.queue, r.kind, r.state)
                    = (g.start, g.queue, g.kind, g.state)
            RETURNING g.start, r.queue, r.kind, r.state, r.jobs, r.wait, r.run
        ),

        totals AS (
            SELECT start, queue, kind, state, sum(jobs) AS jobs FROM gone GROUP BY start, queue, kind, state
        ),

        buckets AS (
            SELECT gone.start, gone.queue, gone.kind, gone.state, b.what, b.bucket, sum(b.jobs) AS jobs
            FROM gone
            CROSS JOIN LATERAL (
                SELECT 'wait' AS what, w.key AS bucket, w.value::bigint AS jobs FROM jsonb_each_text(gone.wait) AS w
                UNION ALL
                SELECT 'run', e.key, e.value::bigint FROM jsonb_each_text(gone.run) AS e
            ) AS b
            GROUP BY 1, 2, 3, 4, 5, 6
        ),

        histograms AS (
            SELECT
                start, queue, kind, state,
                jsonb_object_agg(bucket, jobs) FILTER (WHERE what = 'wait') AS wait,
                jsonb_object_agg(bucket, jobs) FILTER (WHERE what = 'run') AS run
            FROM buckets
            GROUP BY start, queue, kind, state
        )

        INSERT INTO holdfast.rollups (minute, queue, kind, state, jobs, wait, run, span_s)
        SELECT
            t.start, t.queue, t.kind, t.state, t.jobs, COALESCE(h.wait, '{}'), COALESCE(h.run, '{}'), v_step.wider_s
        FROM totals AS t
        LEFT JOIN histograms AS h
            ON (h.start, h.queue, h.kind, h.state) = (t.start, t.queue, t.kind, t.state);
        GET DIAGNOSTICS v_rows = ROW_COUNT;
        v_made := v_made + v_rows;
        EXIT WHEN v_made >= p_limit;
    END LOOP;
    RETURN v_made;
END
$$;
