-- Note what has to be told of finished jobs before they are deleted, for the queues that ask for it.
DROP FUNCTION IF EXISTS holdfast.note_retention;
CREATE FUNCTION holdfast.note_retention(p_ids bigint[]) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO holdfast.retention_due (job_id, life, queue, what, at, delete_at)
    SELECT h.id, h.life, h.queue, due.what, due.at, h.delete_at
    FROM holdfast.history AS h
    INNER JOIN holdfast.queues AS q ON q.name = h.queue AND q.tells
    CROSS JOIN LATERAL (VALUES ('stale', h.stale_at), ('delete', h.delete_at)) AS due (what, at)
    WHERE h.id = ANY (p_ids) AND due.at < '9999-01-01Z'
    ON CONFLICT (job_id, what) DO UPDATE
    SET life = excluded.life, at = excluded.at, delete_at = excluded.delete_at, tries = 0, error = NULL;
END
$$;
