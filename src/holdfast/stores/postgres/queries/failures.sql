-- name: fold_failures
-- Add the oldest failures of the inbox to their groups, as a whole and by queue: what is counted is exactly what the
-- same statement deletes.
WITH taken AS (
    DELETE FROM holdfast.failures
    WHERE id = ANY (ARRAY(SELECT id FROM holdfast.failures ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED))
    RETURNING *
),

groups AS (
    SELECT
        kind, fingerprint, count(*) AS seen, min(at) AS first_at, max(at) AS last_at,
        (array_agg(id ORDER BY at DESC, id DESC))[1] AS last
    FROM taken
    GROUP BY kind, fingerprint
),

-- In one order, whoever folds at the same time.
folded AS (
    INSERT INTO holdfast.dead_letters AS d (
        id, kind, fingerprint, queue, error_class, error, seen, first_at, last_at, last_job
    )
    SELECT
        left(encode(sha256(convert_to(g.kind || E'\n' || g.fingerprint, 'UTF8')), 'hex'), 12), g.kind, g.fingerprint,
        t.queue, t.error_class, t.error, g.seen, g.first_at, g.last_at, t.job_id
    FROM groups AS g
    INNER JOIN taken AS t ON t.id = g.last
    ORDER BY 1
    ON CONFLICT (id) DO UPDATE
    SET
        seen = d.seen + excluded.seen,
        first_at = LEAST(d.first_at, excluded.first_at),
        last_at = GREATEST(d.last_at, excluded.last_at),
        queue = CASE WHEN excluded.last_at >= d.last_at THEN excluded.queue ELSE d.queue END,
        error_class = CASE WHEN excluded.last_at >= d.last_at THEN excluded.error_class ELSE d.error_class END,
        error = CASE WHEN excluded.last_at >= d.last_at THEN excluded.error ELSE d.error END,
        last_job = CASE WHEN excluded.last_at >= d.last_at THEN excluded.last_job ELSE d.last_job END
),

by_queue AS (
    SELECT
        queue, kind, fingerprint, count(*) AS seen, min(at) AS first_at, max(at) AS last_at,
        (array_agg(id ORDER BY at DESC, id DESC))[1] AS last
    FROM taken
    GROUP BY queue, kind, fingerprint
),

folded_by_queue AS (
    INSERT INTO holdfast.dead_letter_queues AS d (
        queue, id, kind, fingerprint, error_class, error, seen, first_at, last_at, last_job
    )
    SELECT
        g.queue, left(encode(sha256(convert_to(g.kind || E'\n' || g.fingerprint, 'UTF8')), 'hex'), 12), g.kind,
        g.fingerprint, t.error_class, t.error, g.seen, g.first_at, g.last_at, t.job_id
    FROM by_queue AS g
    INNER JOIN taken AS t ON t.id = g.last
    ORDER BY 1, 2
    ON CONFLICT (queue, id) DO UPDATE
    SET
        seen = d.seen + excluded.seen,
        first_at = LEAST(d.first_at, excluded.first_at),
        last_at = GREATEST(d.last_at, excluded.last_at),
        error_class = CASE WHEN excluded.last_at >= d.last_at THEN excluded.error_class ELSE d.error_class END,
        error = CASE WHEN excluded.last_at >= d.last_at THEN excluded.error ELSE d.error END,
        last_job = CASE WHEN excluded.last_at >= d.last_at THEN excluded.last_job ELSE d.last_job END
)

SELECT count(*) FROM taken;

-- name: list_dead_letters
-- Read one page of groups, the latest first, with what is not folded yet; the jobs that are left are counted to $9.
-- With queues ($3) every figure is of those queues alone.
WITH parts AS (
    SELECT id, kind, fingerprint, queue, error_class, error, seen, first_at, last_at, last_job
    FROM holdfast.dead_letters
    WHERE cardinality($3::text[]) = 0
    UNION ALL
    SELECT id, kind, fingerprint, queue, error_class, error, seen, first_at, last_at, last_job
    FROM holdfast.dead_letter_queues
    WHERE queue = ANY ($3::text[])
    UNION ALL
    SELECT
        left(encode(sha256(convert_to(f.kind || E'\n' || f.fingerprint, 'UTF8')), 'hex'), 12), f.kind, f.fingerprint,
        f.queue, f.error_class, f.error, 1, f.at, f.at, f.job_id
    FROM (SELECT * FROM holdfast.failures ORDER BY id LIMIT 10001) AS f
    WHERE cardinality($3::text[]) = 0 OR f.queue = ANY ($3::text[])
),

groups AS (
    SELECT
        id, kind, fingerprint,
        (array_agg(queue ORDER BY last_at DESC, last_job DESC))[1] AS queue,
        (array_agg(error_class ORDER BY last_at DESC, last_job DESC))[1] AS error_class,
        (array_agg(error ORDER BY last_at DESC, last_job DESC))[1] AS error,
        sum(seen)::bigint AS seen, min(first_at) AS first_at, max(last_at) AS last_at,
        (array_agg(last_job ORDER BY last_at DESC, last_job DESC))[1] AS last_job
    FROM parts
    GROUP BY id, kind, fingerprint
),

page AS MATERIALIZED (
    SELECT * FROM groups AS g
    WHERE (cardinality($1::text[]) = 0 OR g.id = ANY ($1::text[]))
        AND (cardinality($2::text[]) = 0 OR g.kind = ANY ($2::text[]))
        AND ($4::text IS NULL OR g.error_class = $4)
        AND ($5::timestamptz IS NULL OR g.last_at >= $5)
        AND ($6::timestamptz IS NULL OR (g.last_at, g.id) < ($6, $7::text))
        AND ($8::boolean OR EXISTS (
            SELECT FROM holdfast.history AS h
            WHERE cardinality($3::text[]) = 0 AND h.kind = g.kind AND h.error_fingerprint = g.fingerprint
                AND h.state = 'failed' AND h.delete_at > holdfast.clock()
        ) OR EXISTS (
            SELECT FROM unnest($3::text[]) AS mine (queue)
            CROSS JOIN LATERAL (
                SELECT FROM holdfast.history AS h
                WHERE h.kind = g.kind AND h.error_fingerprint = g.fingerprint AND h.queue = mine.queue
                    AND h.state = 'failed' AND h.delete_at > holdfast.clock()
                LIMIT 1
            ) AS found
        ))
    ORDER BY g.last_at DESC, g.id DESC
    LIMIT $10
)

SELECT
    p.id, p.kind, p.fingerprint, p.queue, p.error_class, p.error, p.seen, p.first_at, p.last_at, p.last_job,
    (
        SELECT count(*)
        FROM (
            (
                SELECT FROM holdfast.history AS h
                WHERE cardinality($3::text[]) = 0 AND h.kind = p.kind AND h.error_fingerprint = p.fingerprint
                    AND h.state = 'failed' AND h.delete_at > holdfast.clock()
                LIMIT $9
            )
            UNION ALL
            (
                SELECT FROM unnest($3::text[]) AS mine (queue)
                CROSS JOIN LATERAL (
                    SELECT FROM holdfast.history AS h
                    WHERE h.kind = p.kind AND h.error_fingerprint = p.fingerprint AND h.queue = mine.queue
                        AND h.state = 'failed' AND h.delete_at > holdfast.clock()
                    LIMIT $9
                ) AS theirs
                LIMIT $9
            )
        ) AS found
    ) AS jobs_left
FROM page AS p
ORDER BY p.last_at DESC, p.id DESC;

-- name: name_origin
-- Note the job that a new one stands for.
UPDATE holdfast.jobs SET origin = $2 WHERE id = $1;

-- name: prune_dead_letters
-- Forget groups that are long over.
WITH old AS (
    SELECT d.id
    FROM holdfast.dead_letters AS d
    WHERE d.last_at < holdfast.clock() - $2 * interval '1 day'
        AND NOT EXISTS (
            SELECT FROM holdfast.history AS h
            WHERE h.kind = d.kind AND h.error_fingerprint = d.fingerprint AND h.state = 'failed'
        )
    ORDER BY d.last_at
    LIMIT $1
    FOR UPDATE SKIP LOCKED
)

DELETE FROM holdfast.dead_letters AS d USING old WHERE d.id = old.id RETURNING d.id;

-- name: prune_dead_letter_queues
-- Forget what groups that are gone were in each queue.
WITH old AS (
    SELECT q.queue, q.id
    FROM holdfast.dead_letter_queues AS q
    WHERE q.last_at < holdfast.clock() - $2 * interval '1 day'
        AND NOT EXISTS (SELECT FROM holdfast.dead_letters AS d WHERE d.id = q.id)
    ORDER BY q.last_at
    LIMIT $1
    FOR UPDATE SKIP LOCKED
)

DELETE FROM holdfast.dead_letter_queues AS q USING old WHERE q.queue = old.queue AND q.id = old.id RETURNING q.id;
