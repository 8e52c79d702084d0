-- name: take_ids
-- Draw ids that nobody else has.
SELECT * FROM holdfast.take_ids($1);

-- name: insert_jobs
-- Store jobs; answers only for those with a key, a unique key, sent again, merged or refused.
SELECT ordinal, outcome, id, detail
FROM holdfast.insert_jobs($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19);

-- name: get_jobs
-- Read jobs, live or finished, in one snapshot.
SELECT * FROM holdfast.all_jobs WHERE id = ANY ($1::bigint[]);

-- name: finished_jobs
-- Read those of the given jobs that have ended.
SELECT * FROM holdfast.finished_jobs WHERE id = ANY ($1::bigint[]);

-- name: count_jobs
-- Count live jobs by queue and state, reading at most $1 entries of an index for each number.
WITH RECURSIVE lines AS (
    (SELECT queue FROM holdfast.jobs WHERE state = 'queued' ORDER BY queue, priority, position LIMIT 1)
    UNION ALL
    SELECT (
        SELECT j.queue
        FROM holdfast.jobs AS j
        WHERE j.state = 'queued' AND j.queue > lines.queue
        ORDER BY j.queue, j.priority, j.position
        LIMIT 1
    )
    FROM lines
    WHERE lines.queue IS NOT NULL
)

SELECT lines.queue, 'queued' AS state, counted.jobs, counted.jobs >= $1 AS capped
FROM lines
CROSS JOIN LATERAL (
    SELECT count(*) AS jobs
    FROM (SELECT FROM holdfast.jobs AS j WHERE j.state = 'queued' AND j.queue = lines.queue LIMIT $1) AS sample
) AS counted
WHERE lines.queue IS NOT NULL
UNION ALL
SELECT sample.queue, 'scheduled', count(*), sum(count(*)) OVER () >= $1
FROM (SELECT queue FROM holdfast.jobs WHERE state = 'scheduled' ORDER BY run_at, id LIMIT $1) AS sample
GROUP BY sample.queue
UNION ALL
SELECT sample.queue, 'running', count(*), sum(count(*)) OVER () >= $1
FROM (SELECT queue FROM holdfast.jobs WHERE state = 'running' ORDER BY worker, claim_batch LIMIT $1) AS sample
GROUP BY sample.queue
UNION ALL
SELECT sample.queue, 'held', count(*), sum(count(*)) OVER () >= $1
FROM (SELECT queue FROM holdfast.jobs WHERE state = 'held' ORDER BY limit_key, enqueued_seq LIMIT $1) AS sample
GROUP BY sample.queue
UNION ALL
SELECT sample.queue, 'blocked', count(*), sum(count(*)) OVER () >= $1
FROM (SELECT queue FROM holdfast.jobs WHERE state = 'blocked' ORDER BY limit_key, enqueued_seq LIMIT $1) AS sample
GROUP BY sample.queue
ORDER BY 1, 2;

-- name: cancel_jobs
-- End waiting jobs, mark running ones.
SELECT id, answer, state, other FROM holdfast.cancel_jobs($1, $2);

-- name: retry_jobs
-- Give finished jobs a new life.
SELECT id, answer, state, other FROM holdfast.retry_jobs($1, $2);

-- name: delete_jobs
-- Delete finished jobs.
SELECT id, 'done' AS answer, state, NULL::bigint AS other FROM holdfast.delete_jobs($1);

-- name: reschedule_jobs
-- Set when waiting jobs are due: at $2, or $3 milliseconds from now; calls that come later do not change that.
WITH waiting AS MATERIALIZED (
    SELECT id FROM holdfast.jobs WHERE id = ANY ($1::bigint[]) AND state <> 'running' ORDER BY id FOR UPDATE
)

UPDATE holdfast.jobs AS j
SET
    run_at = due.run_at,
    state = CASE
        WHEN j.state = 'blocked' OR (j.state = 'held' AND due.state = 'queued') THEN j.state
        ELSE due.state
    END,
    position = CASE
        WHEN j.state = 'held' AND due.state = 'queued' THEN j.position
        WHEN j.state <> 'blocked' AND due.state = 'queued' THEN nextval('holdfast.position_seq'::regclass)
    END,
    debounce_key = NULL
FROM (
    SELECT
        holdfast.due_at($2, $3, holdfast.clock()) AS run_at, holdfast.due_state($2, $3, holdfast.clock()) AS state
) AS due
WHERE j.id = ANY (ARRAY(SELECT id FROM waiting))
RETURNING j.id, 'done' AS answer, j.state, NULL::bigint AS other;

-- name: reprioritise_jobs
-- Move waiting jobs to another lane, at its end.
WITH waiting AS MATERIALIZED (
    SELECT id FROM holdfast.jobs WHERE id = ANY ($1::bigint[]) AND state <> 'running' ORDER BY id FOR UPDATE
)

UPDATE holdfast.jobs
SET
    priority = $2,
    position = CASE
        WHEN state = 'queued' OR (state = 'held' AND position IS NOT NULL)
            THEN nextval('holdfast.position_seq'::regclass)
    END
WHERE id = ANY (ARRAY(SELECT id FROM waiting))
RETURNING id, 'done' AS answer, state, NULL::bigint AS other;
