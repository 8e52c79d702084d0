-- name: lane_heads
-- Read the first job of every lane of some queues, unless they are paused.
SELECT queue, priority, waited_ms FROM holdfast.lane_heads($1);

-- name: queue_policies
-- Read what is published of queues, and what became of it at run time.
SELECT name, definition::text, paused_at IS NOT NULL, resumed_at FROM holdfast.queues ORDER BY name;

-- name: read_waits
-- Read how long jobs of queues ($1) have waited in the last $2 milliseconds, and how long the oldest due one has by now.
WITH due_later AS MATERIALIZED (
    SELECT queue, run_at
    FROM holdfast.jobs
    WHERE state = 'scheduled' AND run_at <= holdfast.clock()
    ORDER BY run_at, id
    LIMIT 10001
),

held AS MATERIALIZED (
    SELECT queue, run_at FROM holdfast.jobs WHERE state = 'held' ORDER BY limit_key, enqueued_seq LIMIT 10001
),

oldest AS (
    SELECT t.queue, min(head.run_at) AS due_at
    FROM unnest($1::text[]) AS t (queue)
    CROSS JOIN generate_series(0, 10) AS p (priority)
    CROSS JOIN LATERAL (
        SELECT j.run_at
        FROM holdfast.jobs AS j
        WHERE j.queue = t.queue AND j.priority = p.priority::smallint AND j.state = 'queued'
        ORDER BY j.position
        LIMIT 1
    ) AS head
    GROUP BY t.queue
    UNION ALL
    SELECT queue, min(run_at) FROM due_later GROUP BY queue
    UNION ALL
    SELECT queue, min(run_at) FROM held WHERE run_at <= holdfast.clock() GROUP BY queue
)

SELECT
    t.queue,
    (
        SELECT jsonb_object_agg(b.bucket, b.total)::text
        FROM (
            SELECT e.key AS bucket, sum(e.value::bigint) AS total
            FROM holdfast.rollups AS r
            CROSS JOIN jsonb_each_text(r.wait) AS e
            WHERE r.minute >= holdfast.clock() - $2::bigint * interval '1 millisecond' AND r.queue = t.queue
            GROUP BY 1
        ) AS b
    ),
    (
        SELECT floor(extract(epoch FROM holdfast.clock() - GREATEST(min(o.due_at), max(q.resumed_at))) * 1000)::bigint
        FROM oldest AS o
        LEFT JOIN holdfast.queues AS q ON q.name = o.queue
        WHERE o.queue = t.queue AND q.paused_at IS NULL
    )
FROM unnest($1::text[]) AS t (queue);

-- name: look_at_waits
-- Enter what was found of queues; the second late look in a row breaks a promise, five minutes without one mend it.
INSERT INTO holdfast.sla_states AS s (queue, sla_ms, p95_ms, starts, oldest_ms, waiting, late_looks, late_at, looked_at)
SELECT
    t.queue, t.sla_ms, t.p95_ms, t.starts, t.oldest_ms, t.waiting, t.is_late::integer,
    CASE WHEN t.is_late THEN holdfast.clock() END, holdfast.clock()
FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::integer[], $5::bigint[], $6::integer[], $7::boolean[])
    AS t (queue, sla_ms, p95_ms, starts, oldest_ms, waiting, is_late)
ORDER BY t.queue
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
            AND (excluded.sla_ms IS NULL OR s.late_at <= excluded.looked_at - interval '5 minutes')
            THEN excluded.looked_at
        ELSE s.ended_at
    END,
    told_at = CASE
        WHEN (s.breached_at IS NULL OR s.ended_at IS NOT NULL) AND excluded.late_looks > 0 AND s.late_looks > 0
            THEN NULL
        WHEN s.breached_at IS NOT NULL AND s.ended_at IS NULL AND excluded.late_looks = 0
            AND (excluded.sla_ms IS NULL OR s.late_at <= excluded.looked_at - interval '5 minutes')
            THEN NULL
        ELSE s.told_at
    END
WHERE s.looked_at <= excluded.looked_at - interval '5 seconds';

-- name: forget_waits
-- Forget queues that nobody promises anything of any more.
DELETE FROM holdfast.sla_states WHERE queue <> ALL ($1::text[]);

-- name: tell_breach
-- Remember that a breach, or its end, is told, unless it was.
UPDATE holdfast.sla_states
SET told_at = holdfast.clock()
WHERE queue = $1 AND breached_at = $2 AND ended_at IS NOT DISTINCT FROM $3 AND told_at IS NULL
RETURNING queue;

-- name: publish_breach
-- Tell those who watch of a queue; no job is named.
INSERT INTO holdfast.events (at, kind, job_id, task, queue, life, claim, attempt, data)
SELECT holdfast.clock(), $1, 0, '', $2, 0, 0, 0, $3::jsonb
WHERE holdfast.is_watched();

-- name: list_waits
-- Read what is known of the waits of queues.
SELECT queue, sla_ms, p95_ms, starts, oldest_ms, waiting, looked_at, breached_at, ended_at, told_at
FROM holdfast.sla_states
ORDER BY queue;

-- name: report_tunings
-- Say how many workers an instance gives to its queues, and why.
INSERT INTO holdfast.tunings AS s (instance, queue, workers, lowest, highest, reason, changed_at)
SELECT $1::text, t.queue, t.workers, t.lowest, t.highest, t.reason, holdfast.clock()
FROM unnest($2::text[], $3::integer[], $4::integer[], $5::integer[], $6::text[])
    AS t (queue, workers, lowest, highest, reason)
ORDER BY t.queue
ON CONFLICT (instance, queue) DO UPDATE
SET
    workers = excluded.workers, lowest = excluded.lowest, highest = excluded.highest, reason = excluded.reason,
    changed_at = excluded.changed_at
WHERE (s.workers, s.lowest, s.highest, s.reason)
    <> (excluded.workers, excluded.lowest, excluded.highest, excluded.reason);

-- name: forget_tunings
-- Forget what an instance said of queues that it no longer speaks of.
DELETE FROM holdfast.tunings WHERE instance = $1 AND queue <> ALL ($2::text[]);

-- name: list_tunings
-- Read what the living instances have said.
SELECT t.instance, t.queue, t.workers, t.lowest, t.highest, t.reason, t.changed_at
FROM holdfast.tunings AS t
WHERE EXISTS (
    SELECT FROM holdfast.workers AS w
    WHERE w.instance = t.instance AND w.dead_at IS NULL AND w.lease_until > holdfast.clock()
)
ORDER BY t.queue, t.instance;

-- name: prune_tunings
-- Forget what instances said that are gone.
DELETE FROM holdfast.tunings
WHERE (instance, queue) IN (
    SELECT t.instance, t.queue
    FROM holdfast.tunings AS t
    WHERE NOT EXISTS (SELECT FROM holdfast.workers AS w WHERE w.instance = t.instance)
    LIMIT $1
)
RETURNING queue;
