-- name: define_queues
-- Publish what holds for the finished jobs of one queue; an unchanged definition costs no write.
INSERT INTO holdfast_queues (name, retention, stale, tells, webhook, escalation)
VALUES (:name, :retention, :stale, :tells, :webhook, :escalation)
ON CONFLICT (name) DO UPDATE
SET
    retention = excluded.retention, stale = excluded.stale, tells = excluded.tells, webhook = excluded.webhook,
    escalation = excluded.escalation
WHERE (retention, stale, tells) <> (excluded.retention, excluded.stale, excluded.tells)
    OR webhook IS NOT excluded.webhook OR escalation IS NOT excluded.escalation;

-- name: pause_queue
-- Let no job of the queue be claimed.
INSERT INTO holdfast_queues (name, paused_at, paused_by, paused_reason)
VALUES (:name, :now, :actor, :reason)
ON CONFLICT (name) DO UPDATE
SET paused_at = excluded.paused_at, paused_by = excluded.paused_by, paused_reason = excluded.paused_reason
RETURNING name, paused_at, paused_by, paused_reason;

-- name: resume_queue
-- Let jobs of the queue be claimed again.
INSERT INTO holdfast_queues AS q (name)
VALUES (:name)
ON CONFLICT (name) DO UPDATE
SET
    paused_at = NULL, paused_by = NULL, paused_reason = NULL,
    resumed_at = CASE WHEN q.paused_at IS NULL THEN q.resumed_at ELSE :now END
RETURNING name, paused_at, paused_by, paused_reason;

-- name: list_queues
-- Read every queue that is defined, paused or has jobs that may run, wait or are running.
WITH RECURSIVE ready (queue) AS (
    SELECT (SELECT queue FROM holdfast_jobs WHERE state = 'queued' ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (
        SELECT job.queue FROM holdfast_jobs AS job
        WHERE job.state = 'queued' AND job.queue > ready.queue
        ORDER BY job.queue
        LIMIT 1
    )
    FROM ready
    WHERE ready.queue IS NOT NULL
),

known (name) AS (
    SELECT queue FROM ready WHERE queue IS NOT NULL
    UNION
    SELECT queue FROM (SELECT queue FROM holdfast_jobs WHERE state = 'running' LIMIT 10001)
    UNION
    SELECT queue FROM (SELECT queue FROM holdfast_jobs WHERE state = 'scheduled' LIMIT 10001)
    UNION
    SELECT queue FROM (SELECT queue FROM holdfast_jobs WHERE state = 'held' AND state IN ('held', 'blocked') LIMIT 10001)
    UNION
    SELECT queue FROM (SELECT queue FROM holdfast_jobs WHERE state = 'blocked' AND state IN ('held', 'blocked') LIMIT 10001)
    UNION
    SELECT name FROM holdfast_queues
)

SELECT known.name, queues.paused_at, queues.paused_by, queues.paused_reason
FROM known
LEFT JOIN holdfast_queues AS queues ON queues.name = known.name
ORDER BY known.name;
