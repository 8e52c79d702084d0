-- name: why_now
-- Read the store's time.
SELECT holdfast.clock();

-- name: why_queue
-- Read what was done to a queue at run time, and what is published of it.
SELECT paused_at, paused_by, paused_reason, closed_until, definition::text FROM holdfast.queues WHERE name = $1;

-- name: why_ahead
-- Count the jobs that stand before one in its lane, at most $4.
SELECT count(*)
FROM (
    SELECT
    FROM holdfast.jobs
    WHERE queue = $1 AND priority = $2::smallint AND state = 'queued' AND position < $3
    ORDER BY position
    LIMIT $4
) AS before;

-- name: why_workers
-- Read the living workers that take jobs of a queue, how busy they are, and whether they know a kind.
SELECT
    w.id, w.instance, w.concurrency,
    (
        SELECT count(*)
        FROM (SELECT FROM holdfast.jobs AS j WHERE j.state = 'running' AND j.worker = w.id LIMIT 10001) AS taken
    ),
    (
        SELECT count(*)
        FROM (
            SELECT
            FROM holdfast.jobs AS j
            WHERE j.state = 'running' AND j.worker = w.id AND j.queue = $1
            LIMIT 10001
        ) AS taken
    ),
    CASE WHEN w.policies::text LIKE '%"kinds.%' THEN w.policies ? ('kinds.' || $2::text) END
FROM holdfast.workers AS w
WHERE w.dead_at IS NULL AND w.lease_until > holdfast.clock() AND (w.queues = '[]' OR w.queues @> to_jsonb($1::text))
ORDER BY w.id;

-- name: why_owner
-- Read the worker that has a job.
SELECT id, host, pid, dead_at IS NULL AND lease_until > holdfast.clock() FROM holdfast.workers WHERE id = $1;

-- name: why_limit
-- Read a limit and how far it has come for one key: its slots that are taken, and the jobs held before one ($3, $4).
SELECT
    l.name, $2::text, l.concurrency, l.throttle_us, l.burst, l.fifo, l.rotate, k.throttled_until,
    (SELECT count(*) FROM holdfast.slots AS s WHERE s.limit_name = l.name AND s.key = $2 AND s.job_id IS NOT NULL),
    (
        SELECT count(*)
        FROM (
            SELECT
            FROM holdfast.jobs AS j
            WHERE j.limit_key = l.name || '/' || $2 AND j.state = 'held' AND j.position IS NOT NULL
                AND (j.priority, j.position) < ($3::smallint, $4::bigint)
            LIMIT $5
        ) AS before
    ),
    (
        SELECT j.id
        FROM holdfast.jobs AS j
        WHERE j.fifo_key = l.name || '/' || $2
        ORDER BY j.enqueued_seq
        LIMIT 1
    )
FROM holdfast.limits AS l
LEFT JOIN holdfast.limit_keys AS k ON k.limit_name = l.name AND k.key = $2
WHERE l.name = $1;

-- name: why_holders
-- Read who holds the slots of a key, the first few.
SELECT s.job_id, j.kind, j.id IS NULL OR j.claim <> s.claim OR j.state <> 'running'
FROM holdfast.slots AS s
LEFT JOIN holdfast.jobs AS j ON j.id = s.job_id
WHERE s.limit_name = $1 AND s.key = $2 AND s.job_id IS NOT NULL
ORDER BY s.taken_at, s.n
LIMIT $3;

-- name: why_budget
-- Read a budget and how far the period has come in which the store is, for the key of one job.
SELECT
    b.name, k.key, b.unit, b.ceiling, COALESCE(p.spent, 0), COALESCE(p.reserved, 0), COALESCE(p.lost, 0)
FROM holdfast.budgets AS b
INNER JOIN holdfast.jobs AS j ON j.id = $2
CROSS JOIN LATERAL (
    SELECT holdfast.limit_key_of(b.path, j.payload, j.tags, j.actor, j.kind, j.queue) AS key
) AS k
LEFT JOIN holdfast.budget_periods AS p
    ON p.budget = b.name AND p.key = k.key AND p.starts_at <= holdfast.clock() AND p.ends_at > holdfast.clock()
WHERE b.name = $1;

-- name: why_lock
-- Read the lock that the handler of a claim waits for, and who holds it.
SELECT w.name, l.job_id
FROM holdfast.lock_waiters AS w
LEFT JOIN holdfast.locks AS l ON l.name = w.name AND l.until > holdfast.clock()
WHERE w.job_id = $1 AND w.claim = $2 AND w.until > holdfast.clock()
ORDER BY w.ticket
LIMIT 1;

-- name: why_stopping
-- Read what a job still keeps that has ended.
SELECT 'limit ' || limit_name FROM holdfast.slots WHERE worker IS NOT NULL AND job_id = $1
UNION
SELECT 'lock ' || name FROM holdfast.locks WHERE job_id = $1 AND until > holdfast.clock()
ORDER BY 1;
