-- Live and finished jobs as one, for people, under the names that the rest of Holdfast has for their fields.
CREATE VIEW holdfast_all_jobs (
    id, kind, queue, priority, state, position, args, tags, actor, run_at, enqueued_at, enqueued_seq, claim, run,
    attempt, max_attempts, crashes, max_crashes, timeout_ms, worker, claim_batch, claimed_at, started_at,
    cancel_requested_at, announced_at, unique_key, key, limit_key, fifo_key, debounce_key, schedule, fire_time, parent,
    workflow, pending, origin, error_class, error, error_fingerprint, extra, stale_at, delete_at, finished_at, result,
    progress, attempts, phases, items, logs, webhooks
) AS
SELECT * FROM holdfast_live_jobs
UNION ALL
SELECT * FROM holdfast_finished_jobs
WHERE delete_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER);
