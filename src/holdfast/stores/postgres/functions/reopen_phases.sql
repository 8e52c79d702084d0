-- Lay what is known of a finished job's phases, items and lines out as rows again, for its next life.
--
-- The phases from `p_from` on are forgotten; without one, those from the first that has failed items, if the job has
-- completed in spite of them.
DROP FUNCTION IF EXISTS holdfast.reopen_phases;
CREATE FUNCTION holdfast.reopen_phases(p_old holdfast.history, p_from text) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_from integer;
    v_failed text[];
    v_items jsonb := COALESCE(p_old.items, '{}');
BEGIN
    -- Without anything to go on with, a new life begins without progress.
    IF p_old.progress IS NULL OR COALESCE(p_old.phases, p_old.items, p_old.logs) IS NULL THEN
        RETURN;
    END IF;
    v_failed := ARRAY(
        SELECT s.value ->> 'phase' FROM jsonb_each(v_items) AS s
        WHERE p_old.state = 'completed_with_errors' AND jsonb_array_length(s.value -> (s.key || '_failed')) > 0
    );
    SELECT min(p.ordinal)
    INTO v_from
    FROM jsonb_to_recordset(p_old.phases) AS p (name text, ordinal integer)
    WHERE CASE WHEN p_from IS NOT NULL THEN p.name = p_from ELSE p.name = ANY (v_failed) END;
    INSERT INTO holdfast.progress (job_id, percent, message, data, updated_at, phase, phase_percent)
    SELECT p_old.id, p.percent, p.message, p.data, p.updated_at, p.phase, p.phase_percent
    FROM jsonb_to_record(p_old.progress) AS p (
        percent double precision, message text, data jsonb, updated_at timestamptz, phase text,
        phase_percent double precision
    );
    INSERT INTO holdfast.phases (
        job_id, name, ordinal, weight, state, claim, percent, message, data, error, result, started_at, ended_at
    )
    SELECT
        p_old.id, p.name, p.ordinal, p.weight, p.state, p.claim, p.percent, p.message, p.data, p.error, p.result,
        p.started_at, p.ended_at
    FROM jsonb_to_recordset(p_old.phases) AS p (
        name text, ordinal integer, weight double precision, state text, claim integer, percent double precision,
        message text, data jsonb, error text, result jsonb, started_at timestamptz, ended_at timestamptz
    )
    -- Steps have the number of the phase that they belong to. Those of a phase that is only run through again stay.
    WHERE v_from IS NULL OR p.ordinal < v_from OR (p_from IS NULL AND p.ordinal = v_from AND NOT p.name = ANY (v_failed));
    -- Items of a phase that is asked for again begin anew; of one that had failures, only those are worked through.
    INSERT INTO holdfast.item_sets (job_id, name, word, phase)
    SELECT p_old.id, s.key, s.value ->> 'word', s.value ->> 'phase'
    FROM jsonb_each(v_items) AS s
    WHERE holdfast.is_item_set_kept(p_old.phases, s.value ->> 'phase', v_from, p_from);
    INSERT INTO holdfast.items (job_id, set_name, key, ordinal, state, note)
    SELECT p_old.id, s.key, i.key, row_number() OVER (PARTITION BY s.key), i.state, i.note
    FROM jsonb_each(v_items) AS s
    CROSS JOIN LATERAL (
        SELECT e.value #>> '{}' AS key, 'completed' AS state, NULL AS note
        FROM jsonb_array_elements(s.value -> (s.key || '_completed')) AS e
        UNION ALL
        SELECT e.value ->> (s.value ->> 'word'), 'skipped', e.value ->> 'reason'
        FROM jsonb_array_elements(s.value -> (s.key || '_skipped')) AS e
        UNION ALL
        SELECT e.value ->> (s.value ->> 'word'), 'failed', e.value ->> 'error'
        FROM jsonb_array_elements(s.value -> (s.key || '_failed')) AS e
        UNION ALL
        SELECT e.value #>> '{}', 'in_progress', NULL
        FROM jsonb_array_elements(s.value -> (s.key || '_in_progress')) AS e
    ) AS i
    WHERE holdfast.is_item_set_kept(p_old.phases, s.value ->> 'phase', v_from, p_from);
    INSERT INTO holdfast.logs (job_id, claim, line, at, level, text)
    SELECT p_old.id, l.claim, l.line, l.at, l.level, l.text
    FROM jsonb_to_recordset(p_old.logs) AS l (claim integer, line integer, at timestamptz, level text, text text)
    ON CONFLICT DO NOTHING;
END
$$;

-- Whether the items of a phase stay when the phases from `p_first` on are forgotten: those before it, and those of the
-- very phase unless somebody asked for it by name.
DROP FUNCTION IF EXISTS holdfast.is_item_set_kept;
CREATE FUNCTION holdfast.is_item_set_kept(p_phases jsonb, p_phase text, p_first integer, p_from text) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN p_first IS NULL OR p_phase IS NULL OR EXISTS (
    SELECT FROM jsonb_to_recordset(p_phases) AS p (name text, ordinal integer)
    WHERE p.name = p_phase AND (p.ordinal < p_first OR (p.ordinal = p_first AND p_from IS NULL))
);
