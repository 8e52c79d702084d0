-- name: promote_jobs
-- Make due jobs `queued`.
SELECT * FROM holdfast.promote_jobs($1, $2);

-- name: rescue_jobs
-- Mark workers whose lease has ended and take back every running job without a living worker.
SELECT workers, requeued, failed, cancelled, looked_at FROM holdfast.rescue_jobs($1, $2);

-- name: force_cancels
-- End running jobs whose cancellation was requested too long ago.
SELECT * FROM holdfast.force_cancels($1, $2);

-- name: prune_history
-- Find the weeks of history that have expired, and what an interrupted removal left behind; only an owner can drop it.
SELECT
    c.relname AS partition,
    CASE WHEN i.inhrelid IS NULL THEN 'drop' WHEN i.inhdetachpending THEN 'finalize' ELSE 'detach' END AS action,
    pg_has_role(c.relowner, 'USAGE') AS is_ours
FROM pg_class AS c
LEFT JOIN pg_inherits AS i ON i.inhrelid = c.oid
WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'holdfast.history'::regclass)
    AND c.relkind = 'r'
    AND c.relname ~ '^history_w[0-9]{8}$'
    AND (
        i.inhrelid IS NULL
        OR i.inhdetachpending
        OR to_date(substring(c.relname FROM '[0-9]{8}$'), 'YYYYMMDD')::timestamp AT TIME ZONE 'UTC' + interval '7 days'
            <= holdfast.clock()  -- guard: kept-history, without: <= holdfast.clock() + interval '7 days'
    )
    -- What has still to be told of its jobs keeps a week, but not for longer than another one.
    AND NOT (i.inhrelid IS NOT NULL AND NOT i.inhdetachpending AND EXISTS (
        SELECT
        FROM holdfast.retention_due AS d
        WHERE d.what = 'delete'  -- guard: untold-farewell, without: WHERE d.what = 'never'
            AND d.delete_at >= to_date(substring(c.relname FROM '[0-9]{8}$'), 'YYYYMMDD')::timestamp AT TIME ZONE 'UTC'
            AND d.delete_at
                < to_date(substring(c.relname FROM '[0-9]{8}$'), 'YYYYMMDD')::timestamp AT TIME ZONE 'UTC'
                + interval '7 days'
            AND d.delete_at > holdfast.clock() - interval '14 days'
    ))
ORDER BY c.relname;

-- name: prune_keys
-- Delete idempotency keys that have expired, workers dead for a day that hold nothing, and what was asked of instances
-- that have been gone for a day.
-- Picked once: a subquery that is run anew for each row would skip what it has locked and pick more than asked.
WITH doomed AS MATERIALIZED (
    SELECT scope, key
    FROM holdfast.idempotency
    WHERE expires_at <= holdfast.clock()
    ORDER BY expires_at
    LIMIT $1
    FOR UPDATE SKIP LOCKED
),

expired AS (
    DELETE FROM holdfast.idempotency AS i
    USING doomed
    WHERE i.scope = doomed.scope AND i.key = doomed.key
    RETURNING 1
),

buried AS (
    DELETE FROM holdfast.workers AS w
    WHERE w.dead_at < holdfast.clock() - interval '1 day'
        AND NOT EXISTS (SELECT FROM holdfast.jobs AS j WHERE j.state = 'running' AND j.worker = w.id)
    RETURNING 1
),

drained AS (
    DELETE FROM holdfast.drains AS d
    WHERE d.asked_at < holdfast.clock() - interval '1 day'
        AND NOT EXISTS (SELECT FROM holdfast.workers AS w WHERE w.instance = d.instance)
    RETURNING 1
)

SELECT (SELECT count(*) FROM expired) + (SELECT count(*) FROM buried) + (SELECT count(*) FROM drained);

-- name: diagnose
-- Tell the version of the server, its time, the end of the last week of history that is attached, and how long the
-- longest retention is.
SELECT
    current_setting('server_version_num')::integer AS version,
    holdfast.clock() AS now,
    max(
        to_date(substring(c.relname FROM '[0-9]{8}$'), 'YYYYMMDD')::timestamp AT TIME ZONE 'UTC' + interval '7 days'
    ) AS history_until,
    (
        SELECT GREATEST(interval '30 days', max(LEAST(kept.ms::bigint, 60480000000) * interval '1 millisecond'))
        FROM holdfast.queues AS q
        CROSS JOIN LATERAL jsonb_each_text(q.retention) AS kept (state, ms)
        WHERE kept.ms IS NOT NULL
    ) AS longest_kept
FROM pg_inherits AS i
INNER JOIN pg_class AS c ON c.oid = i.inhrelid
WHERE i.inhparent = 'holdfast.history'::regclass AND c.relname ~ '^history_w[0-9]{8}$';

-- name: read_series
-- Count what ended since a time per step, queue and state.
SELECT
    date_bin($2::double precision * interval '1 second', minute, timestamptz '1970-01-01 00:00:00+00') AS at,
    queue, state, sum(jobs)::bigint
FROM holdfast.rollups WHERE minute >= $1 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;

-- name: read_rollups
-- Merge the counts since a time per queue, kind and state: of one queue, or of all.
WITH counted AS (
    SELECT queue, kind, state, sum(jobs)::bigint AS jobs
    FROM holdfast.rollups
    WHERE minute >= $1 AND ($2::text IS NULL OR queue = $2)
    GROUP BY 1, 2, 3
),

waits AS (
    SELECT s.queue, s.kind, s.state, jsonb_object_agg(s.bucket, s.total) AS wait
    FROM (
        SELECT r.queue, r.kind, r.state, e.key AS bucket, sum(e.value::bigint) AS total
        FROM holdfast.rollups AS r
        CROSS JOIN jsonb_each_text(r.wait) AS e
        WHERE r.minute >= $1 AND ($2::text IS NULL OR r.queue = $2)
        GROUP BY 1, 2, 3, 4
    ) AS s
    GROUP BY 1, 2, 3
),

runs AS (
    SELECT s.queue, s.kind, s.state, jsonb_object_agg(s.bucket, s.total) AS run
    FROM (
        SELECT r.queue, r.kind, r.state, e.key AS bucket, sum(e.value::bigint) AS total
        FROM holdfast.rollups AS r
        CROSS JOIN jsonb_each_text(r.run) AS e
        WHERE r.minute >= $1 AND ($2::text IS NULL OR r.queue = $2)
        GROUP BY 1, 2, 3, 4
    ) AS s
    GROUP BY 1, 2, 3
)

SELECT c.queue, c.kind, c.state, c.jobs, w.wait, r.run
FROM counted AS c
LEFT JOIN waits AS w USING (queue, kind, state)
LEFT JOIN runs AS r USING (queue, kind, state)
ORDER BY 1, 2, 3;
