-- Tell those who watch how claims ended; a start that nobody recorded before is told first.
DROP FUNCTION IF EXISTS holdfast.publish_ends;
CREATE FUNCTION holdfast.publish_ends(
    p_ids bigint[], p_verbs text[], p_verdicts text[], p_begun bigint[], p_begun_at timestamptz[],
    p_begun_as integer[], p_now timestamptz
) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO holdfast.events (at, kind, job_id, task, queue, state, life, claim, attempt, data)
    SELECT
        told.at, told.kind, job.id, job.kind, job.queue, told.state, job.life, job.claim, told.attempt, told.data
    FROM unnest(p_ids, p_verbs, p_verdicts) WITH ORDINALITY AS t (id, verb, verdict, ordinal)
    CROSS JOIN LATERAL (
        SELECT h.id, h.kind, h.queue, h.life, h.claim, h.attempt, h.error_class, h.error, h.run_at
        FROM holdfast.history AS h
        WHERE h.id = t.id
        UNION ALL
        SELECT j.id, j.kind, j.queue, j.life, j.claim, j.attempt, j.error_class, j.error, j.run_at
        FROM holdfast.jobs AS j
        WHERE j.id = t.id
    ) AS job
    CROSS JOIN LATERAL (
        SELECT 0 AS step, 'job:started' AS kind, b.at, 'running' AS state, b.attempt, NULL::jsonb AS data
        FROM unnest(p_begun, p_begun_at, p_begun_as) AS b (id, at, attempt)
        WHERE b.id = t.id
        UNION ALL
        SELECT
            1,
            CASE
                WHEN t.verdict IN ('queued', 'scheduled') THEN
                    CASE t.verb WHEN 'retry' THEN 'job:retrying' WHEN 'crash' THEN 'job:rescued' ELSE 'job:interrupted' END
                WHEN t.verdict = 'completed_with_errors' THEN 'job:completed'
                ELSE 'job:' || t.verdict
            END,
            p_now, t.verdict, job.attempt,
            NULLIF(jsonb_strip_nulls(jsonb_build_object(
                'error_class', job.error_class, 'error', job.error,
                'run_at', CASE t.verdict WHEN 'scheduled' THEN job.run_at END
            )), '{}')
    ) AS told
    WHERE t.verdict IS NOT NULL
    ORDER BY t.ordinal, told.step;
END
$$;
