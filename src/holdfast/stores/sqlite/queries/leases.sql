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
-- Extend leases and note the memory of each; a worker that was declared dead is not among the answers.
UPDATE holdfast_workers
SET
    renewed_at = :now, lease_until = :now + :lease_ms,
    memory_bytes = json_extract(:memory, '$."' || id || '"')
-- guard: dead-worker-renewal, without: WHERE id IN (SELECT value FROM json_each(:workers))
WHERE id IN (SELECT value FROM json_each(:workers)) AND dead_at IS NULL
RETURNING id, EXISTS (SELECT 1 FROM holdfast_drains AS drain WHERE drain.instance = holdfast_workers.instance);

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
    worker.id, worker.instance, worker.host, worker.pid, worker.boot_id, worker.pid_namespace, worker.process_start,
    worker.version, worker.queues, worker.concurrency, worker.registered_at, worker.renewed_at, worker.lease_until,
    worker.dead_at,
    (
        SELECT count(*)
        FROM (SELECT 1 FROM holdfast_jobs AS job WHERE job.state = 'running' AND job.worker = worker.id LIMIT 10001)
    ),
    drain.asked_at, drain.asked_by, worker.memory_bytes, worker.lease_until < :now
FROM holdfast_workers AS worker
LEFT JOIN holdfast_drains AS drain ON drain.instance = worker.instance
ORDER BY worker.id;

-- name: drain_instance
-- Ask an instance to leave.
INSERT INTO holdfast_drains (instance, asked_at, asked_by) VALUES (:instance, :now, :actor) ON CONFLICT DO NOTHING;
