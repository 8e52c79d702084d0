-- Live and finished jobs, with what is kept beside a live one, and both as one: a statement over `all_jobs` is one
-- snapshot, so a job that moves meanwhile is seen exactly once. The columns are the fields of `holdfast.job.JobRow`, in
-- their order: programs read them by it. `all_jobs` is for people, and names them as the rest of Holdfast does.
DROP VIEW IF EXISTS holdfast.all_jobs;
DROP VIEW IF EXISTS holdfast.live_jobs;
DROP VIEW IF EXISTS holdfast.finished_jobs;
DROP VIEW IF EXISTS holdfast.kept_jobs;

CREATE VIEW holdfast.live_jobs AS
SELECT
    j.id, j.kind, j.queue, j.priority, j.state, j.position, j.payload, j.tags, j.actor, j.run_at, j.enqueued_at,
    j.enqueued_seq, j.claim, j.life, j.attempt, j.max_attempts, j.crashes, j.max_crashes, j.timeout_ms, j.worker,
    j.claim_batch, j.claimed_at, j.started_at, j.cancel_requested_at, j.announced_at, j.unique_key, j.idempotency_key,
    j.limit_key, j.fifo_key, j.debounce_key, j.schedule, j.fire_time, j.parent, j.workflow, j.pending, j.origin,
    j.error_class, j.error, j.error_fingerprint, j.extra, j.stale_at, j.delete_at,
    NULL::timestamptz AS finished_at,
    NULL::jsonb AS result,
    CASE WHEN p.job_id IS NOT NULL THEN holdfast.folded_progress(p) END AS progress,
    (SELECT jsonb_agg(to_jsonb(a) - 'job_id' ORDER BY a.claim) FROM holdfast.attempts AS a WHERE a.job_id = j.id)
        AS attempts,
    -- Whoever has phases, items or lines has a report too.
    CASE WHEN p.job_id IS NOT NULL THEN holdfast.folded_phases(j.id) END AS phases,
    CASE WHEN p.job_id IS NOT NULL THEN holdfast.folded_items(j.id) END AS items,
    CASE WHEN p.job_id IS NOT NULL THEN holdfast.folded_logs(j.id) END AS logs,
    CASE WHEN j.life > 1 THEN holdfast.folded_deliveries(j.id) END AS deliveries
FROM holdfast.jobs AS j
LEFT JOIN holdfast.progress AS p ON p.job_id = j.id;

-- With those that have expired and are not yet gone.
CREATE VIEW holdfast.kept_jobs AS
SELECT
    id, kind, queue, priority, state, position, payload, tags, actor, run_at, enqueued_at, enqueued_seq, claim, life,
    attempt, max_attempts, crashes, max_crashes, timeout_ms, worker, claim_batch, claimed_at, started_at,
    cancel_requested_at, announced_at, unique_key, idempotency_key, limit_key, fifo_key, debounce_key, schedule,
    fire_time, parent, workflow, pending, origin, error_class, error, error_fingerprint, extra, stale_at, delete_at,
    finished_at, result, progress, attempts, phases, items, logs, holdfast.folded_deliveries(history.id) AS deliveries
FROM holdfast.history;

CREATE VIEW holdfast.finished_jobs AS
SELECT * FROM holdfast.kept_jobs WHERE delete_at > holdfast.clock();

CREATE VIEW holdfast.all_jobs (
    id, kind, queue, priority, state, position, args, tags, actor, run_at, enqueued_at, enqueued_seq, claim, run,
    attempt, max_attempts, crashes, max_crashes, timeout_ms, worker, claim_batch, claimed_at, started_at,
    cancel_requested_at, announced_at, unique_key, key, limit_key, fifo_key, debounce_key, schedule, fire_time, parent,
    workflow, pending, origin, error_class, error, error_fingerprint, extra, stale_at, delete_at, finished_at, result,
    progress, attempts, phases, items, logs, webhooks
) AS
SELECT * FROM holdfast.live_jobs
UNION ALL
SELECT * FROM holdfast.finished_jobs;
