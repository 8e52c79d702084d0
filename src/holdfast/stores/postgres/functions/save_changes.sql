-- Keep what one report says beside progress and phases: items that moved, lines that were logged.
--
-- `p_changes` may have the fields reset (begin anew: forget everything), sets, items and logs; times are milliseconds
-- before now.
DROP FUNCTION IF EXISTS holdfast.save_changes;
CREATE FUNCTION holdfast.save_changes(p_id bigint, p_claim integer, p_changes jsonb, p_now timestamptz) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF p_changes ? 'reset' THEN
        DELETE FROM holdfast.phases WHERE job_id = p_id;
        DELETE FROM holdfast.item_sets WHERE job_id = p_id;
        DELETE FROM holdfast.items WHERE job_id = p_id;
    END IF;
    IF p_changes ? 'sets' THEN
        INSERT INTO holdfast.item_sets (job_id, name, word, phase)
        SELECT p_id, s.name, s.word, s.phase
        FROM jsonb_to_recordset(p_changes -> 'sets') AS s (name text, word text, phase text)
        ON CONFLICT (job_id, name) DO UPDATE SET word = excluded.word, phase = excluded.phase;
        -- What ended well stays so; everything else is worked through again. Items that are not named any more are gone.
        DELETE FROM holdfast.items AS i
        USING jsonb_to_recordset(p_changes -> 'sets') AS s (name text, keys jsonb)
        WHERE i.job_id = p_id AND i.set_name = s.name AND NOT s.keys ? i.key;
        INSERT INTO holdfast.items AS i (job_id, set_name, key, ordinal, state)
        SELECT p_id, s.name, k.key, k.ordinal, 'in_progress'
        FROM jsonb_to_recordset(p_changes -> 'sets') AS s (name text, keys jsonb)
        CROSS JOIN LATERAL jsonb_array_elements_text(s.keys) WITH ORDINALITY AS k (key, ordinal)
        ON CONFLICT (job_id, set_name, key) DO UPDATE
        SET
            ordinal = excluded.ordinal,
            state = CASE WHEN i.state IN ('completed', 'skipped') THEN i.state ELSE 'in_progress' END,
            note = CASE WHEN i.state = 'skipped' THEN i.note END;
    END IF;
    IF p_changes ? 'items' THEN
        UPDATE holdfast.items AS i
        SET state = m.move ->> 2, note = m.move ->> 3
        FROM jsonb_array_elements(p_changes -> 'items') AS m (move)
        WHERE i.job_id = p_id AND i.set_name = m.move ->> 0 AND i.key = m.move ->> 1;
    END IF;
    IF p_changes ? 'logs' THEN
        INSERT INTO holdfast.logs (job_id, claim, line, at, level, text)
        SELECT
            p_id, p_claim, (l.line ->> 0)::integer, p_now - (l.line ->> 1)::bigint * interval '1 millisecond',
            l.line ->> 2, l.line ->> 3
        FROM jsonb_array_elements(p_changes -> 'logs') AS l (line)
        ON CONFLICT DO NOTHING;
        DELETE FROM holdfast.logs WHERE job_id = p_id AND claim <= p_claim - 5;
    END IF;
END
$$;
