-- name: fold_failures
-- Add what was counted to a group.
INSERT INTO holdfast_dead_letters AS d (
    id, kind, fingerprint, queue, error_class, error, seen, first_at, last_at, last_job
)
VALUES (:id, :kind, :fingerprint, :queue, :error_class, :error, :seen, :first_at, :last_at, :last_job)
ON CONFLICT (id) DO UPDATE
SET
    seen = d.seen + excluded.seen,
    first_at = min(d.first_at, excluded.first_at),
    last_at = max(d.last_at, excluded.last_at),
    queue = CASE WHEN excluded.last_at >= d.last_at THEN excluded.queue ELSE d.queue END,
    error_class = CASE WHEN excluded.last_at >= d.last_at THEN excluded.error_class ELSE d.error_class END,
    error = CASE WHEN excluded.last_at >= d.last_at THEN excluded.error ELSE d.error END,
    last_job = CASE WHEN excluded.last_at >= d.last_at THEN excluded.last_job ELSE d.last_job END;

-- name: list_dead_letters
-- Read every group; with queues as it is in each of those.
SELECT id, kind, fingerprint, queue, error_class, error, seen, first_at, last_at, last_job
FROM holdfast_dead_letters
WHERE json_array_length(:queues) = 0
UNION ALL
SELECT id, kind, fingerprint, queue, error_class, error, seen, first_at, last_at, last_job
FROM holdfast_dead_letter_queues
WHERE queue IN (SELECT value FROM json_each(:queues));

-- name: name_origin
-- Note the job that a new one stands for.
UPDATE holdfast_jobs SET origin = :origin WHERE id = :id;

-- name: prune_dead_letters
-- Forget groups that are long over.
DELETE FROM holdfast_dead_letters
WHERE id IN (
    SELECT old.id
    FROM holdfast_dead_letters AS old
    WHERE old.last_at < :before
        AND NOT EXISTS (
            SELECT 1
            FROM holdfast_history AS job
            WHERE job.kind = old.kind AND job.error_fingerprint = old.fingerprint AND job.state = 'failed'
        )
    ORDER BY old.last_at
    LIMIT :limit
);

-- name: prune_dead_letter_queues
-- Forget what groups that are gone were in each queue.
DELETE FROM holdfast_dead_letter_queues
WHERE (queue, id) IN (
    SELECT old.queue, old.id
    FROM holdfast_dead_letter_queues AS old
    WHERE old.last_at < :before
        AND NOT EXISTS (SELECT 1 FROM holdfast_dead_letters AS dead WHERE dead.id = old.id)
    ORDER BY old.last_at
    LIMIT :limit
);
