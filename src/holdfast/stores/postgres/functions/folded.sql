-- What is kept beside a live job, as the JSON of its one history row. Views use these, so they are replaced in place.
CREATE OR REPLACE FUNCTION holdfast.folded_progress(p_row holdfast.progress) RETURNS jsonb
LANGUAGE sql STABLE
AS $$
SELECT jsonb_build_object(
    'percent', (p_row).percent, 'message', (p_row).message, 'data', (p_row).data, 'updated_at', (p_row).updated_at,
    'phase', (p_row).phase, 'phase_percent', (p_row).phase_percent
)
$$;

CREATE OR REPLACE FUNCTION holdfast.folded_phases(p_id bigint) RETURNS jsonb
LANGUAGE sql STABLE
AS $$
SELECT jsonb_agg(to_jsonb(p) - 'job_id' ORDER BY p.ordinal, p.started_at, p.name) FROM holdfast.phases AS p WHERE p.job_id = p_id
$$;

CREATE OR REPLACE FUNCTION holdfast.folded_items(p_id bigint) RETURNS jsonb
LANGUAGE sql STABLE
AS $$
SELECT jsonb_object_agg(s.name, jsonb_build_object(
    s.name || '_total', (SELECT count(*) FROM holdfast.items AS i WHERE i.job_id = p_id AND i.set_name = s.name),
    s.name || '_completed', COALESCE(of_set.completed, '[]'),
    s.name || '_skipped', COALESCE(of_set.skipped, '[]'),
    s.name || '_failed', COALESCE(of_set.failed, '[]'),
    s.name || '_in_progress', COALESCE(of_set.in_progress, '[]'),
    'word', s.word, 'phase', s.phase
))
FROM holdfast.item_sets AS s
CROSS JOIN LATERAL (
    SELECT
        jsonb_agg(i.key ORDER BY i.ordinal) FILTER (WHERE i.state = 'completed') AS completed,
        jsonb_agg(jsonb_build_object(s.word, i.key, 'reason', i.note) ORDER BY i.ordinal)
            FILTER (WHERE i.state = 'skipped') AS skipped,
        jsonb_agg(jsonb_build_object(s.word, i.key, 'error', i.note) ORDER BY i.ordinal)
            FILTER (WHERE i.state = 'failed') AS failed,
        jsonb_agg(i.key ORDER BY i.ordinal) FILTER (WHERE i.state = 'in_progress') AS in_progress
    FROM holdfast.items AS i
    WHERE i.job_id = p_id AND i.set_name = s.name
) AS of_set
WHERE s.job_id = p_id
$$;

CREATE OR REPLACE FUNCTION holdfast.folded_logs(p_id bigint) RETURNS jsonb
LANGUAGE sql STABLE
AS $$
SELECT jsonb_agg(to_jsonb(l) - 'job_id' ORDER BY l.claim, l.line) FROM holdfast.logs AS l WHERE l.job_id = p_id
$$;

CREATE OR REPLACE FUNCTION holdfast.folded_deliveries(p_id bigint) RETURNS jsonb
LANGUAGE sql STABLE
AS $$
SELECT jsonb_agg(
    jsonb_build_object(
        'life', d.life, 'event', d.event, 'url', d.url, 'state', d.state, 'tries', d.tries, 'at', d.at,
        'next_at', CASE d.state WHEN 'pending' THEN d.next_at END, 'ended_at', d.ended_at, 'log', d.log
    )
    ORDER BY d.id
)
FROM holdfast.deliveries AS d
WHERE d.job_id = p_id
$$;
