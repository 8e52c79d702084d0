-- name: take_ids
-- Draw ids that nobody else has; answers the first of them.
UPDATE holdfast_counters
SET value = value + :count
WHERE name = 'ids'
RETURNING (SELECT CAST(value AS INTEGER) FROM holdfast_meta WHERE key = 'store_tag') << 48 | (value - :count + 1);

-- name: insert_jobs
-- Store one new job.
INSERT INTO holdfast_jobs (
    id, kind, queue, priority, state, position, payload, tags, actor, run_at, enqueued_at, max_attempts, max_crashes,
    timeout_ms, unique_key, idempotency_key, extra, debounce_key, parent
)
VALUES (
    :id, :kind, :queue, :priority, :state, :position, :payload, :tags, :actor, :run_at, :now, :max_attempts,
    :max_crashes, :timeout_ms, :unique_key, :idempotency_key, :extra, :debounce_key, :parent
);

-- name: get_jobs
-- Read jobs, live or finished.
SELECT * FROM holdfast_live_jobs WHERE id IN (SELECT value FROM json_each(:ids))
UNION ALL
SELECT * FROM holdfast_finished_jobs WHERE id IN (SELECT value FROM json_each(:ids)) AND delete_at > :now;

-- name: finished_jobs
-- Read those of the given jobs that have ended.
SELECT * FROM holdfast_finished_jobs WHERE id IN (SELECT value FROM json_each(:ids)) AND delete_at > :now;

-- name: count_jobs
-- Count live jobs by queue and state, reading at most :cap entries of an index for each number.
WITH RECURSIVE lines (queue) AS (
    SELECT (SELECT queue FROM holdfast_jobs WHERE state = 'queued' ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (
        SELECT job.queue FROM holdfast_jobs AS job
        WHERE job.state = 'queued' AND job.queue > lines.queue
        ORDER BY job.queue
        LIMIT 1
    )
    FROM lines
    WHERE lines.queue IS NOT NULL
),

counted (queue, state, jobs) AS (
    SELECT
        queue,
        'queued',
        (
            SELECT count(*)
            FROM (SELECT 1 FROM holdfast_jobs AS job WHERE job.state = 'queued' AND job.queue = lines.queue LIMIT :cap)
        )
    FROM lines
    WHERE queue IS NOT NULL
),

parked (queue, state) AS (
    SELECT * FROM (SELECT queue, 'scheduled' FROM holdfast_jobs WHERE state = 'scheduled' LIMIT :cap)
    UNION ALL
    SELECT * FROM (SELECT queue, 'running' FROM holdfast_jobs WHERE state = 'running' LIMIT :cap)
    UNION ALL
    SELECT * FROM (SELECT queue, 'held' FROM holdfast_jobs WHERE state = 'held' AND state IN ('held', 'blocked') LIMIT :cap)
    UNION ALL
    SELECT * FROM (SELECT queue, 'blocked' FROM holdfast_jobs WHERE state = 'blocked' AND state IN ('held', 'blocked') LIMIT :cap)
)

SELECT queue, state, jobs, jobs >= :cap FROM counted
UNION ALL
SELECT queue, state, count(*), sum(count(*)) OVER (PARTITION BY state) >= :cap FROM parked GROUP BY queue, state
ORDER BY 1, 2;

-- name: cancel_jobs
-- Mark running jobs; the notes say who and why.
UPDATE holdfast_jobs
SET
    cancel_requested_at = COALESCE(cancel_requested_at, :now),
    extra = CASE WHEN :notes IS NULL THEN extra ELSE json_patch(COALESCE(extra, '{}'), :notes) END
WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'running';

-- name: retry_jobs
-- Give one finished job a new life: the same job, its claims counted on, its attempts fresh.
INSERT INTO holdfast_jobs (
    id, kind, queue, priority, state, position, payload, tags, actor, run_at, enqueued_at, enqueued_seq, claim, life,
    max_attempts, max_crashes, timeout_ms, unique_key, idempotency_key, limit_key, fifo_key, debounce_key, schedule,
    fire_time, parent, workflow, origin, extra
)
SELECT
    id, kind, queue, priority, 'queued', :position, payload, tags, actor, :now, enqueued_at, enqueued_seq, claim,
    life + 1, max_attempts, max_crashes, timeout_ms, unique_key, idempotency_key, limit_key, fifo_key, debounce_key,
    schedule, fire_time, parent, workflow, origin,
    NULLIF(json_remove(extra, '$.traceback', '$.ended_by', '$.cancelled_by', '$.cancel_reason'), '{}')
FROM holdfast_history
WHERE id = :id;

-- The ended claims are laid out as rows again ...
INSERT INTO holdfast_attempts (
    job_id, claim, attempt, worker, claimed_at, started_at, ended_at, outcome, error_class, error, traceback
)
SELECT
    history.id,
    json_extract(ended.value, '$.claim'),
    json_extract(ended.value, '$.attempt'),
    json_extract(ended.value, '$.worker'),
    CAST(round((julianday(json_extract(ended.value, '$.claimed_at')) - 2440587.5) * 86400000) AS INTEGER),
    CAST(round((julianday(json_extract(ended.value, '$.started_at')) - 2440587.5) * 86400000) AS INTEGER),
    CAST(round((julianday(json_extract(ended.value, '$.ended_at')) - 2440587.5) * 86400000) AS INTEGER),
    json_extract(ended.value, '$.outcome'),
    json_extract(ended.value, '$.error_class'),
    json_extract(ended.value, '$.error'),
    json_extract(ended.value, '$.traceback')
FROM holdfast_history AS history
CROSS JOIN json_each(history.attempts) AS ended
WHERE history.id = :id AND json_extract(ended.value, '$.claim') > history.claim - 100;

-- ... and the last one with them, unless the job was never claimed in that life.
INSERT INTO holdfast_attempts (
    job_id, claim, attempt, worker, claimed_at, started_at, ended_at, outcome, error_class, error, traceback
)
SELECT
    id, claim, attempt, worker, claimed_at, started_at, finished_at, state, error_class, error,
    json_extract(extra, '$.traceback')
FROM holdfast_history
WHERE id = :id AND claimed_at IS NOT NULL;

DELETE FROM holdfast_history WHERE id = :id AND EXISTS (SELECT 1 FROM holdfast_jobs WHERE holdfast_jobs.id = :id);
DELETE FROM holdfast_retention_due WHERE job_id = :id;

-- name: delete_jobs
-- Delete finished jobs.
DELETE FROM holdfast_history
WHERE id IN (SELECT value FROM json_each(:ids)) AND delete_at > :now
RETURNING id, kind, queue, state, life, claim, attempt;

-- name: reschedule_jobs
-- Set when one waiting job is due; calls that come later do not change that.
UPDATE holdfast_jobs
SET
    run_at = :run_at,
    state = :state,
    -- Who is held keeps its place.
    position = CASE :state WHEN 'held' THEN position ELSE :position END,
    debounce_key = NULL
WHERE id = :id AND state <> 'running';

-- name: reprioritise_jobs
-- Move one waiting job to another lane, at its end.
UPDATE holdfast_jobs
SET priority = :priority, position = CASE WHEN state = 'held' AND position IS NULL THEN NULL ELSE :position END
WHERE id = :id AND state <> 'running';
