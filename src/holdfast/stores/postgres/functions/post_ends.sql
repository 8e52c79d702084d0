-- Let the ends of jobs be posted, where their queue or they themselves ask for it; the job's own wish wins.
DROP FUNCTION IF EXISTS holdfast.post_ends;
CREATE FUNCTION holdfast.post_ends(p_ids bigint[]) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO holdfast.deliveries (
        job_id, life, event, url, at, task, queue, status, attempt, tags, error_class, error, result, result_omitted,
        next_at, expires_at
    )
    SELECT
        h.id, h.life, named.event, hook.wish ->> 'url', h.finished_at, h.kind, h.queue, h.state, h.attempt, h.tags,
        h.error_class, h.error,
        CASE WHEN octet_length(h.result::text) <= 16000 THEN h.result END,
        COALESCE(octet_length(h.result::text) > 16000, false), h.finished_at, h.delete_at
    FROM holdfast.history AS h
    LEFT JOIN holdfast.queues AS q ON q.name = h.queue
    -- What another program wrote and names no address is no wish.
    CROSS JOIN LATERAL (
        SELECT
            COALESCE(
                CASE jsonb_typeof(h.extra #> '{webhook,url}') WHEN 'string' THEN h.extra -> 'webhook' END, q.webhook
            ) AS wish
    ) AS hook
    CROSS JOIN LATERAL (
        SELECT CASE h.state WHEN 'completed_with_errors' THEN 'job:completed' ELSE 'job:' || h.state END AS event
    ) AS named
    WHERE h.id = ANY (p_ids) AND hook.wish IS NOT NULL
        AND (NOT hook.wish ? 'events' OR hook.wish -> 'events' ? named.event)
    ON CONFLICT DO NOTHING;
END
$$;
