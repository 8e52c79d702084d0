-- name: why_now
-- Read the store's time.
SELECT :now;

-- name: why_queue
-- Read what was done to a queue at run time, and what is published of it.
SELECT paused_at, paused_by, paused_reason, closed_until, definition FROM holdfast_queues WHERE name = :queue;

-- name: why_ahead
-- Count the jobs that stand before one in its lane, at most :most.
SELECT count(*)
FROM (
    SELECT 1
    FROM holdfast_jobs
    WHERE queue = :queue AND priority = :priority AND state = 'queued' AND position < :position
    ORDER BY position
    LIMIT :most
);

-- name: why_workers
-- Read the living workers that take jobs of a queue, how busy they are, and whether they know a kind.
SELECT
    w.id, w.instance, w.concurrency,
    (
        SELECT count(*)
        FROM (SELECT 1 FROM holdfast_jobs AS job WHERE job.state = 'running' AND job.worker = w.id LIMIT 10001)
    ),
    (
        SELECT count(*)
        FROM (
            SELECT 1
            FROM holdfast_jobs AS job
            WHERE job.state = 'running' AND job.worker = w.id AND job.queue = :queue
            LIMIT 10001
        )
    ),
    CASE
        WHEN w.policies LIKE '%"kinds.%'
            THEN EXISTS (SELECT 1 FROM json_each(w.policies) AS known WHERE known.key = 'kinds.' || :kind)
    END
FROM holdfast_workers AS w
WHERE w.dead_at IS NULL AND w.lease_until > :now
    AND (w.queues = '[]' OR EXISTS (SELECT 1 FROM json_each(w.queues) AS taken WHERE taken.value = :queue))
ORDER BY w.id;

-- name: why_owner
-- Read the worker that has a job.
SELECT id, host, pid, dead_at IS NULL AND lease_until > :now FROM holdfast_workers WHERE id = :worker;

-- name: why_limit
-- Read a limit and how far it has come for one key: its slots that are taken, and the jobs held before one.
SELECT
    l.name, :key, l.concurrency, l.throttle_us, l.burst, l.fifo, l.rotate, k.throttled_until,
    (SELECT count(*) FROM holdfast_slots AS s WHERE s.limit_name = l.name AND s.key = :key AND s.job_id IS NOT NULL),
    (
        SELECT count(*)
        FROM (
            SELECT 1
            FROM holdfast_jobs AS job
            WHERE job.limit_key = l.name || '/' || :key AND job.state = 'held' AND job.position IS NOT NULL
                AND (job.priority, job.position) < (:priority, :position)
            LIMIT :most
        )
    ),
    (
        SELECT job.id
        FROM holdfast_jobs AS job
        WHERE job.fifo_key = l.name || '/' || :key
        ORDER BY job.enqueued_seq
        LIMIT 1
    )
FROM holdfast_limits AS l
LEFT JOIN holdfast_limit_keys AS k ON k.limit_name = l.name AND k.key = :key
WHERE l.name = :name;

-- name: why_holders
-- Read who holds the slots of a key, the first few.
SELECT s.job_id, job.kind, job.id IS NULL OR job.claim <> s.claim OR job.state <> 'running'
FROM holdfast_slots AS s
LEFT JOIN holdfast_jobs AS job ON job.id = s.job_id
WHERE s.limit_name = :name AND s.key = :key AND s.job_id IS NOT NULL
ORDER BY s.taken_at, s.n
LIMIT :most;

-- name: why_budget
-- Read a budget and how far the period has come in which the store is, for one key.
SELECT
    b.name, :key, b.unit, b.ceiling, COALESCE(p.spent, 0), COALESCE(p.reserved, 0), COALESCE(p.lost, 0)
FROM holdfast_budgets AS b
LEFT JOIN holdfast_budget_periods AS p
    ON p.budget = b.name AND p.key = :key AND p.starts_at <= :now AND p.ends_at > :now
WHERE b.name = :name;

-- name: why_lock
-- Read the lock that the handler of a claim waits for, and who holds it.
SELECT w.name, l.job_id
FROM holdfast_lock_waiters AS w
LEFT JOIN holdfast_locks AS l ON l.name = w.name AND l.until > :now
WHERE w.job_id = :id AND w.claim = :claim AND w.until > :now
ORDER BY w.ticket
LIMIT 1;

-- name: why_stopping
-- Read what a job still keeps that has ended.
SELECT 'limit ' || limit_name FROM holdfast_slots WHERE job_id = :id
UNION
SELECT 'lock ' || name FROM holdfast_locks WHERE job_id = :id AND until > :now
ORDER BY 1;
