-- name: define_queues
-- Publish what holds for the finished jobs of queues; an unchanged definition costs no write.
INSERT INTO holdfast.queues AS q (name, retention, stale, tells, webhook, escalation)
SELECT t.name, t.retention, t.stale, t.tells, t.webhook, t.escalation
FROM unnest($1::text[], $2::jsonb[], $3::jsonb[], $4::boolean[], $5::jsonb[], $6::text[])
    AS t (name, retention, stale, tells, webhook, escalation)
ORDER BY t.name
ON CONFLICT (name) DO UPDATE
SET
    retention = excluded.retention, stale = excluded.stale, tells = excluded.tells, webhook = excluded.webhook,
    escalation = excluded.escalation
WHERE (q.retention, q.stale, q.tells) <> (excluded.retention, excluded.stale, excluded.tells)
    OR q.webhook IS DISTINCT FROM excluded.webhook OR q.escalation IS DISTINCT FROM excluded.escalation;

-- name: pause_queue
-- Let no job of the queue be claimed.
INSERT INTO holdfast.queues (name, paused_at, paused_by, paused_reason)
VALUES ($1, holdfast.clock(), $2, $3)
ON CONFLICT (name) DO UPDATE
SET paused_at = excluded.paused_at, paused_by = excluded.paused_by, paused_reason = excluded.paused_reason
RETURNING name, paused_at, paused_by, paused_reason;

-- name: resume_queue
-- Let jobs of the queue be claimed again.
INSERT INTO holdfast.queues AS q (name)
VALUES ($1)
ON CONFLICT (name) DO UPDATE
SET
    paused_at = NULL, paused_by = NULL, paused_reason = NULL,
    resumed_at = CASE WHEN q.paused_at IS NULL THEN q.resumed_at ELSE holdfast.clock() END
RETURNING name, paused_at, paused_by, paused_reason;

-- name: list_queues
-- Read every queue that is defined, paused or has jobs that may run, are due later or are running.
WITH RECURSIVE ready AS (
    (SELECT queue FROM holdfast.jobs WHERE state = 'queued' ORDER BY queue, priority, position LIMIT 1)
    UNION ALL
    SELECT (
        SELECT j.queue
        FROM holdfast.jobs AS j
        WHERE j.state = 'queued' AND j.queue > ready.queue
        ORDER BY j.queue, j.priority, j.position
        LIMIT 1
    )
    FROM ready
    WHERE ready.queue IS NOT NULL
),

known AS (
    SELECT queue AS name FROM ready WHERE queue IS NOT NULL
    UNION
    SELECT queue FROM (SELECT queue FROM holdfast.jobs WHERE state = 'running' LIMIT 10001) AS sample
    UNION
    SELECT queue FROM (SELECT queue FROM holdfast.jobs WHERE state = 'scheduled' LIMIT 10001) AS sample
    UNION
    SELECT queue FROM (SELECT queue FROM holdfast.jobs WHERE state IN ('held', 'blocked') LIMIT 10001) AS sample
    UNION
    SELECT name FROM holdfast.queues
)

SELECT known.name, q.paused_at, q.paused_by, q.paused_reason
FROM known
LEFT JOIN holdfast.queues AS q ON q.name = known.name
ORDER BY known.name;
