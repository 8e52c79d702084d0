-- name: lane_heads
-- Read the first job of every lane of some queues, unless they are paused.
WITH RECURSIVE priorities (priority) AS (
    SELECT 0
    UNION ALL
    SELECT priority + 1 FROM priorities WHERE priority < 10
),

heads (queue, priority, due_at) AS (
    SELECT
        asked.value,
        priorities.priority,
        (
            SELECT job.run_at FROM holdfast_jobs AS job
            WHERE job.state = 'queued' AND job.queue = asked.value AND job.priority = priorities.priority
            ORDER BY job.position
            LIMIT 1
        )
    FROM json_each(:queues) AS asked
    CROSS JOIN priorities
    WHERE NOT EXISTS (
        SELECT 1 FROM holdfast_queues AS queues
        WHERE queues.name = asked.value AND (queues.paused_at IS NOT NULL OR queues.closed_until > :now)
    )
)

SELECT queue, priority, max(:now - due_at, 0) FROM heads WHERE due_at IS NOT NULL;

-- name: queue_policies
-- Read what is published of queues, and what became of it at run time.
SELECT name, definition, paused_at IS NOT NULL, resumed_at FROM holdfast_queues ORDER BY name;

-- name: read_waits
-- Read for how long the oldest due jobs of queues have waited by now.
WITH RECURSIVE priorities (priority) AS (
    SELECT 0
    UNION ALL
    SELECT priority + 1 FROM priorities WHERE priority < 10
),

oldest (queue, due_at) AS (
    SELECT
        asked.value,
        (
            SELECT job.run_at FROM holdfast_jobs AS job
            WHERE job.state = 'queued' AND job.queue = asked.value AND job.priority = priorities.priority
            ORDER BY job.position
            LIMIT 1
        )
    FROM json_each(:queues) AS asked
    CROSS JOIN priorities
    UNION ALL
    SELECT * FROM (
        SELECT queue, run_at FROM holdfast_jobs
        WHERE state = 'scheduled' AND run_at <= :now
        ORDER BY run_at, id
        LIMIT 10001
    )
    UNION ALL
    SELECT * FROM (
        SELECT queue, CASE WHEN run_at <= :now THEN run_at END FROM holdfast_jobs
        WHERE state = 'held' AND state IN ('held', 'blocked')
        ORDER BY limit_key, enqueued_seq
        LIMIT 10001
    )
)

SELECT asked.value, :now - max(min(oldest.due_at), COALESCE(max(queues.resumed_at), 0))
FROM json_each(:queues) AS asked
JOIN oldest ON oldest.queue = asked.value AND oldest.due_at IS NOT NULL
LEFT JOIN holdfast_queues AS queues ON queues.name = asked.value
WHERE queues.paused_at IS NULL
GROUP BY asked.value;

-- name: look_at_waits
-- Enter what was found of one queue; the second late look in a row breaks a promise, five minutes without one mend it.
INSERT INTO holdfast_sla_states AS s (
    queue, sla_ms, p95_ms, starts, oldest_ms, waiting, late_looks, late_at, looked_at
)
VALUES (
    :queue, :sla_ms, :p95_ms, :starts, :oldest_ms, :waiting, :is_late, CASE WHEN :is_late THEN :now END, :now
)
ON CONFLICT (queue) DO UPDATE
SET
    sla_ms = excluded.sla_ms, p95_ms = excluded.p95_ms, starts = excluded.starts, oldest_ms = excluded.oldest_ms,
    waiting = excluded.waiting, looked_at = excluded.looked_at,
    late_looks = CASE WHEN excluded.late_looks = 0 THEN 0 ELSE s.late_looks + 1 END,
    late_at = COALESCE(excluded.late_at, s.late_at),
    breached_at = CASE
        WHEN (s.breached_at IS NULL OR s.ended_at IS NOT NULL) AND excluded.late_looks > 0 AND s.late_looks > 0
            THEN excluded.looked_at
        ELSE s.breached_at
    END,
    ended_at = CASE
        WHEN excluded.late_looks > 0 AND s.late_looks > 0 THEN NULL
        WHEN s.breached_at IS NOT NULL AND s.ended_at IS NULL AND excluded.late_looks = 0
            AND (excluded.sla_ms IS NULL OR s.late_at <= excluded.looked_at - 300000)
            THEN excluded.looked_at
        ELSE s.ended_at
    END,
    told_at = CASE
        WHEN (s.breached_at IS NULL OR s.ended_at IS NOT NULL) AND excluded.late_looks > 0 AND s.late_looks > 0
            THEN NULL
        WHEN s.breached_at IS NOT NULL AND s.ended_at IS NULL AND excluded.late_looks = 0
            AND (excluded.sla_ms IS NULL OR s.late_at <= excluded.looked_at - 300000)
            THEN NULL
        ELSE s.told_at
    END
WHERE s.looked_at <= excluded.looked_at - 5000;

-- name: forget_waits
-- Forget queues that nobody promises anything of any more.
DELETE FROM holdfast_sla_states WHERE queue NOT IN (SELECT value FROM json_each(:queues));

-- name: tell_breach
-- Remember that a breach, or its end, is told, unless it was.
UPDATE holdfast_sla_states
SET told_at = :now
WHERE queue = :queue AND breached_at = :breached_at AND ended_at IS :ended_at AND told_at IS NULL;

-- name: publish_breach
-- Tell those who watch of a queue; no job is named.
INSERT INTO holdfast_events (at, kind, job_id, task, queue, life, claim, attempt, data)
SELECT :now, :kind, 0, '', :queue, 0, 0, 0, :data
WHERE EXISTS (SELECT 1 FROM holdfast_watchers WHERE until > :now);

-- name: list_waits
-- Read what is known of the waits of queues.
SELECT queue, sla_ms, p95_ms, starts, oldest_ms, waiting, looked_at, breached_at, ended_at, told_at
FROM holdfast_sla_states
ORDER BY queue;

-- name: report_tunings
-- Say how many workers an instance gives to one of its queues, and why.
INSERT INTO holdfast_tunings AS s (instance, queue, workers, lowest, highest, reason, changed_at)
VALUES (:instance, :queue, :workers, :lowest, :highest, :reason, :now)
ON CONFLICT (instance, queue) DO UPDATE
SET
    workers = excluded.workers, lowest = excluded.lowest, highest = excluded.highest, reason = excluded.reason,
    changed_at = excluded.changed_at
WHERE (s.workers, s.lowest, s.highest, s.reason)
    <> (excluded.workers, excluded.lowest, excluded.highest, excluded.reason);

-- name: forget_tunings
-- Forget what an instance said of queues that it no longer speaks of.
DELETE FROM holdfast_tunings WHERE instance = :instance AND queue NOT IN (SELECT value FROM json_each(:queues));

-- name: list_tunings
-- Read what the living instances have said.
SELECT t.instance, t.queue, t.workers, t.lowest, t.highest, t.reason, t.changed_at
FROM holdfast_tunings AS t
WHERE EXISTS (
    SELECT 1 FROM holdfast_workers AS w
    WHERE w.instance = t.instance AND w.dead_at IS NULL AND w.lease_until > :now
)
ORDER BY t.queue, t.instance;

-- name: prune_tunings
-- Forget what instances said that are gone.
DELETE FROM holdfast_tunings
WHERE (instance, queue) IN (
    SELECT t.instance, t.queue
    FROM holdfast_tunings AS t
    WHERE NOT EXISTS (SELECT 1 FROM holdfast_workers AS w WHERE w.instance = t.instance)
    LIMIT :limit
);
