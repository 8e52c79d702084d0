-- name: register_worker
-- Enter a worker; the counter gives its id.
UPDATE holdfast_counters SET value = value + 1 WHERE name = 'workers';
INSERT INTO holdfast_workers (
    id, instance, host, pid, boot_id, pid_namespace, process_start, version, queues, concurrency, registered_at,
    renewed_at, lease_until
)
SELECT
    value, :instance, :host, :pid, :boot_id, :pid_namespace, :process_start, :version, :queues, :concurrency, :now,
    :now, :now + :lease_ms
FROM holdfast_counters
WHERE name = 'workers'
RETURNING id;

-- name: renew_workers
-- Extend leases; a worker that was declared dead is not among the answers.
UPDATE holdfast_workers
SET renewed_at = :now, lease_until = :now + :lease_ms
WHERE id IN (SELECT value FROM json_each(:workers)) AND dead_at IS NULL
RETURNING id;

-- name: held_claims
-- Read everything that workers hold, with the cancel marks.
SELECT worker, id, claim, claim_batch, :now - claimed_at, cancel_requested_at IS NOT NULL
FROM holdfast_jobs
WHERE state = 'running' AND worker IN (SELECT value FROM json_each(:workers))
ORDER BY id;

-- name: retire_worker
-- Remove a worker.
DELETE FROM holdfast_workers WHERE id = :worker;

-- name: release_worker
-- Declare a worker dead.
UPDATE holdfast_workers SET dead_at = :now WHERE id = :worker AND dead_at IS NULL;

-- name: list_workers
-- Read the workers and how many jobs each has.
SELECT
    id, instance, host, pid, boot_id, pid_namespace, process_start, version, queues, concurrency, registered_at,
    renewed_at, lease_until, dead_at,
    (SELECT count(*) FROM holdfast_jobs AS job WHERE job.state = 'running' AND job.worker = holdfast_workers.id)
FROM holdfast_workers
ORDER BY id;
