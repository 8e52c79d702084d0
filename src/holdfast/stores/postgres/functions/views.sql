-- Live and finished jobs, with what is kept beside a live one, and both as one: a statement over `all_jobs` is one
-- snapshot, so a job that moves meanwhile is seen exactly once. The columns are the fields of `holdfast.job.Job`.
DROP VIEW IF EXISTS holdfast.all_jobs;
DROP VIEW IF EXISTS holdfast.live_jobs;
DROP VIEW IF EXISTS holdfast.finished_jobs;

CREATE VIEW holdfast.live_jobs AS
SELECT
    id, kind, queue, priority, state, position, payload, tags, actor, run_at, enqueued_at, enqueued_seq, claim, life,
    attempt, max_attempts, crashes, max_crashes, timeout_ms, worker, claim_batch, claimed_at, started_at,
    cancel_requested_at, announced_at, unique_key, idempotency_key, limit_key, fifo_key, debounce_key, schedule,
    fire_time, parent, workflow, pending, origin, error_class, error, error_fingerprint, extra, stale_at, delete_at,
    NULL::timestamptz AS finished_at,
    NULL::jsonb AS result,
    (
        SELECT jsonb_build_object(
            'percent', p.percent, 'message', p.message, 'data', p.data, 'updated_at', p.updated_at
        )
        FROM holdfast.progress AS p
        WHERE p.job_id = jobs.id
    ) AS progress,
    (SELECT jsonb_agg(to_jsonb(a) - 'job_id' ORDER BY a.claim) FROM holdfast.attempts AS a WHERE a.job_id = jobs.id)
        AS attempts
FROM holdfast.jobs;

CREATE VIEW holdfast.finished_jobs AS
SELECT
    id, kind, queue, priority, state, position, payload, tags, actor, run_at, enqueued_at, enqueued_seq, claim, life,
    attempt, max_attempts, crashes, max_crashes, timeout_ms, worker, claim_batch, claimed_at, started_at,
    cancel_requested_at, announced_at, unique_key, idempotency_key, limit_key, fifo_key, debounce_key, schedule,
    fire_time, parent, workflow, pending, origin, error_class, error, error_fingerprint, extra, stale_at, delete_at,
    finished_at, result, progress, attempts
FROM holdfast.history
WHERE delete_at > holdfast.clock();

CREATE VIEW holdfast.all_jobs AS
SELECT * FROM holdfast.live_jobs
UNION ALL
SELECT * FROM holdfast.finished_jobs;
