-- Let no job of a queue be claimed until the time at which one of its jobs, told to slow down, is due again.
DROP FUNCTION IF EXISTS holdfast.close_queues;
CREATE FUNCTION holdfast.close_queues(p_ids bigint[], p_verbs text[]) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO holdfast.queues AS q (name, closed_until)
    SELECT j.queue, max(j.run_at)
    FROM unnest(p_ids, p_verbs) AS t (id, verb)
    INNER JOIN holdfast.jobs AS j ON j.id = t.id AND j.state IN ('queued', 'scheduled')
    WHERE t.verb = 'throttle'
    GROUP BY j.queue
    ORDER BY j.queue
    ON CONFLICT (name) DO UPDATE SET closed_until = GREATEST(q.closed_until, excluded.closed_until);
END
$$;
