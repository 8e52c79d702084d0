-- Tell those who watch how far a job is, and which of its phases have ended; with `p_starts`, which needs the job's row to
-- be locked, also that its handler began.
DROP FUNCTION IF EXISTS holdfast.publish_report;
CREATE FUNCTION holdfast.publish_report(p_id bigint, p_changes jsonb, p_now timestamptz, p_starts boolean)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    -- What began is told before the rest; otherwise the next round or the end would tell it.
    WITH started AS (
        UPDATE holdfast.jobs
        SET started_at = p_now - (p_changes ->> 'started')::bigint * interval '1 millisecond'
        WHERE id = p_id AND state = 'running' AND started_at IS NULL AND p_changes ? 'started' AND p_starts
        RETURNING id, kind, queue, life, claim, attempt, started_at
    )

    INSERT INTO holdfast.events (at, kind, job_id, task, queue, state, life, claim, attempt)
    SELECT started_at, 'job:started', id, kind, queue, 'running', life, claim, attempt FROM started;

    INSERT INTO holdfast.events (at, kind, job_id, task, queue, state, life, claim, attempt, data)
    SELECT p_now, told.kind, j.id, j.kind, j.queue, j.state, j.life, j.claim, j.attempt, told.data
    FROM holdfast.jobs AS j
    INNER JOIN holdfast.progress AS p ON p.job_id = j.id
    CROSS JOIN LATERAL (
        SELECT
            0 AS step, 0::bigint AS ordinal, 'job:progress' AS kind,
            (
                SELECT COALESCE(jsonb_object_agg(said.key, said.value), '{}')
                FROM jsonb_each(holdfast.folded_progress(p) - 'updated_at') AS said
                WHERE said.value <> 'null'
            )
                || CASE WHEN p_changes ? 'items' THEN jsonb_build_object('items', p_changes -> 'items') ELSE '{}' END
                AS data
        WHERE p_changes IS NULL OR NOT p_changes ? 'bare' OR p_changes ?| '{reset,sets,items,phases}'
        UNION ALL
        SELECT
            1, c.ordinality, 'job:phase:completed',
            jsonb_build_object('phase', c.value ->> 'name', 'percent', p.percent)
        FROM jsonb_array_elements(p_changes -> 'phases') WITH ORDINALITY AS c
        WHERE c.value ->> 'state' = 'completed'
    ) AS told
    WHERE j.id = p_id
    ORDER BY told.step, told.ordinal;
END
$$;
