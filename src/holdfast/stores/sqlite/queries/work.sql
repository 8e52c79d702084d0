-- name: claim_jobs
-- Find the first jobs of one lane that anyone may take.
SELECT id
FROM holdfast_jobs
WHERE queue = :queue AND priority = :priority AND state = 'queued' AND position > :after
    AND NOT EXISTS (
        SELECT 1 FROM holdfast_queues WHERE name = :queue AND (paused_at IS NOT NULL OR closed_until > :now)
    )
ORDER BY position
LIMIT :limit;

-- name: claim_jobs_by_id
-- Find those of the named jobs that anyone may take, in the order they are named.
SELECT job.id
FROM json_each(:ids) AS asked
CROSS JOIN holdfast_jobs AS job ON job.id = asked.value
WHERE job.state = 'queued'
    AND NOT EXISTS (
        SELECT 1 FROM holdfast_queues WHERE name = job.queue AND (paused_at IS NOT NULL OR closed_until > :now)
    )
GROUP BY job.id
ORDER BY min(asked.key)
LIMIT :limit;

-- name: give_back_batch
-- Find what one claim of a worker has taken; no batch stands for everything that the worker holds.
SELECT
    id, claim, crashes, max_crashes, cancel_requested_at IS NOT NULL,
    json_extract(extra, '$.on_restart') = 'fail', started_at IS NOT NULL
FROM holdfast_jobs
-- guard: release-holder, without: WHERE state = 'running' AND (:batch IS NULL OR claim_batch = :batch)
WHERE state = 'running' AND worker = :worker AND (:batch IS NULL OR claim_batch = :batch)
ORDER BY id;

-- name: start_jobs
-- Record that the handler of one job began.
UPDATE holdfast_jobs
SET started_at = :now - :started_ago_ms
WHERE id = :id AND claim = :claim AND state = 'running';

-- name: finish_jobs
-- Move jobs to history, with everything that is kept beside them. An item is
-- [id, state, is_crash, is_outside, is_success, started_ago_ms, result, error_class, error, error_fingerprint, notes].
WITH item AS MATERIALIZED (
    SELECT
        json_extract(value, '$[0]') AS id,
        json_extract(value, '$[1]') AS state,
        json_extract(value, '$[2]') AS is_crash,
        json_extract(value, '$[3]') AS is_outside,
        json_extract(value, '$[4]') AS is_success,
        json_extract(value, '$[5]') AS started_ago_ms,
        json_extract(value, '$[6]') AS result,
        json_extract(value, '$[7]') AS error_class,
        json_extract(value, '$[8]') AS error,
        json_extract(value, '$[9]') AS error_fingerprint,
        json_extract(value, '$[10]') AS notes
    FROM json_each(:items)
)

INSERT INTO holdfast_history (
    id, kind, queue, priority, state, position, payload, tags, actor, run_at, enqueued_at, enqueued_seq, claim, life,
    attempt, max_attempts, crashes, max_crashes, timeout_ms, worker, claim_batch, claimed_at, started_at,
    cancel_requested_at, announced_at, unique_key, idempotency_key, limit_key, fifo_key, debounce_key, schedule,
    fire_time, parent, workflow, pending, origin, error_class, error, error_fingerprint, extra, stale_at, delete_at,
    finished_at, result, progress, attempts
)
SELECT
    live.id, kind, queue, priority, item.state, position, payload, tags, actor, run_at, enqueued_at, enqueued_seq,
    -- guard: outside-claim, without: claim, life, attempt - is_crash, max_attempts, crashes + is_crash, max_crashes,
    claim + (is_outside AND claim > 0), life, attempt - is_crash, max_attempts, crashes + is_crash, max_crashes,
    timeout_ms, worker, claim_batch, claimed_at, COALESCE(:now - started_ago_ms, started_at), cancel_requested_at,
    announced_at, unique_key, idempotency_key, limit_key, fifo_key, debounce_key, schedule, fire_time, parent, workflow,
    pending, origin,
    CASE WHEN is_success THEN NULL ELSE COALESCE(item.error_class, live.error_class) END,
    CASE WHEN is_success THEN NULL ELSE COALESCE(item.error, live.error) END,
    CASE WHEN is_success THEN NULL ELSE COALESCE(item.error_fingerprint, live.error_fingerprint) END,
    CASE WHEN notes IS NULL THEN extra ELSE json_patch(COALESCE(extra, '{}'), notes) END,
    (
        SELECT :now + json_extract(queues.stale, '$.' || item.state)
        FROM holdfast_queues AS queues
        WHERE queues.name = live.queue
    ),
    -- The policy of the queue, or the default of the state; the last instant that can be written means "for ever".
    COALESCE(
        (
            SELECT CASE json_type(queues.retention, '$.' || item.state)
                WHEN 'null' THEN 253370764800000
                WHEN 'integer' THEN min(:now + json_extract(queues.retention, '$.' || item.state), 253370764800000)
            END
            FROM holdfast_queues AS queues
            WHERE queues.name = live.queue
        ),
        :now + CASE item.state WHEN 'failed' THEN 2592000000 ELSE 604800000 END
    ),
    :now,
    item.result,
    progress,
    -- Only the second claim of a job can find an ended one, and only then is it worth a look.
    CASE WHEN claim > 1 OR live.state <> 'running' THEN attempts END
FROM item
CROSS JOIN holdfast_live_jobs AS live ON live.id = item.id;

DELETE FROM holdfast_attempts WHERE job_id IN (SELECT value FROM json_each(:ids));
-- Nothing is ever deleted that is not in history.
DELETE FROM holdfast_jobs
WHERE id IN (SELECT value FROM json_each(:ids))
    AND EXISTS (SELECT 1 FROM holdfast_history WHERE holdfast_history.id = holdfast_jobs.id);

-- name: save_progress
-- Keep the last report of one running job.
INSERT INTO holdfast_progress (job_id, claim, percent, message, data, updated_at, phase, phase_percent)
VALUES (:id, :claim, :percent, :message, :data, :now, :phase, :phase_percent)
ON CONFLICT (job_id) DO UPDATE
SET
    claim = excluded.claim,
    percent = excluded.percent,
    message = excluded.message,
    data = excluded.data,
    updated_at = excluded.updated_at,
    phase = excluded.phase,
    phase_percent = excluded.phase_percent;

-- name: cancelled_claims
-- Read which of a worker's claims are asked to stop.
SELECT id, claim FROM holdfast_jobs WHERE state = 'running' AND worker = :worker AND cancel_requested_at IS NOT NULL;
