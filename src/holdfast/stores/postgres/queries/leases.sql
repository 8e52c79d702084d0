-- name: register_worker
-- Enter a worker.
INSERT INTO holdfast.workers (
    id, instance, host, pid, boot_id, pid_namespace, process_start, version, queues, concurrency, registered_at,
    renewed_at, lease_until
)
VALUES (
    nextval('holdfast.worker_id_seq'::regclass), $1, $2, $3, $4, $5, $6, $7, $8, $9, holdfast.clock(),
    holdfast.clock(), holdfast.clock() + $10 * interval '1 millisecond'
)
RETURNING id;

-- name: renew_workers
-- Extend leases and note the memory of each; a worker that was declared dead is not among the answers.
UPDATE holdfast.workers
SET
    renewed_at = holdfast.clock(), lease_until = holdfast.clock() + $2 * interval '1 millisecond',
    memory_bytes = ($3::bigint[])[array_position($1::bigint[], id)]
WHERE id = ANY (
    -- guard: dead-worker-renewal, without: $1::bigint[]
    ARRAY(SELECT id FROM holdfast.workers WHERE id = ANY ($1::bigint[]) AND dead_at IS NULL ORDER BY id FOR UPDATE)
)
RETURNING id, EXISTS (SELECT FROM holdfast.drains AS d WHERE d.instance = workers.instance) AS is_draining;

-- name: held_claims
-- Read everything that workers hold, with the cancel marks.
SELECT
    worker, id, claim, claim_batch,
    (extract(epoch FROM holdfast.clock() - claimed_at) * 1000)::bigint AS age_ms,
    cancel_requested_at IS NOT NULL AS cancel_requested
FROM holdfast.jobs
WHERE state = 'running' AND worker = ANY ($1::bigint[])
ORDER BY id;

-- name: retire_worker
-- Remove a worker and give back whatever it still holds.
SELECT holdfast.retire_worker($1);

-- name: release_worker
-- Declare a worker dead, end the claims named and give back the others.
SELECT * FROM holdfast.release_worker($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12);

-- name: list_workers
-- Read the workers and how many jobs each has.
SELECT
    w.id, w.instance, w.host, w.pid, w.boot_id, w.pid_namespace, w.process_start, w.version, w.queues, w.concurrency,
    w.registered_at, w.renewed_at, w.lease_until, w.dead_at,
    (
        SELECT count(*)
        FROM (SELECT FROM holdfast.jobs AS j WHERE j.state = 'running' AND j.worker = w.id LIMIT 10001) AS taken
    ) AS running,
    d.asked_at AS drain_at, d.asked_by AS drain_by, w.memory_bytes, w.lease_until < holdfast.clock() AS is_lease_over
FROM holdfast.workers AS w
LEFT JOIN holdfast.drains AS d ON d.instance = w.instance
ORDER BY w.id;

-- name: drain_instance
-- Ask an instance to leave.
INSERT INTO holdfast.drains (instance, asked_at, asked_by) VALUES ($1, holdfast.clock(), $2) ON CONFLICT DO NOTHING;
