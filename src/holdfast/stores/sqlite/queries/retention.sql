-- name: claim_retention
-- Take what has to be told of finished jobs of some queues now; whoever takes it has it until its lease ends.
UPDATE holdfast_retention_due
SET tries = tries + 1, at = :now + :lease_ms
WHERE (job_id, what) IN (
    SELECT job_id, what
    FROM holdfast_retention_due
    WHERE at <= :now AND queue IN (SELECT value FROM json_each(:queues))
    ORDER BY at
    LIMIT :limit
)
RETURNING job_id, life, what, tries;

-- name: kept_jobs
-- Read finished jobs, those that have expired too.
SELECT * FROM holdfast_finished_jobs WHERE id IN (SELECT value FROM json_each(:ids));

-- name: end_retention
-- Let what was told be done.
DELETE FROM holdfast_retention_due
-- guard: farewell-try, without: WHERE job_id = :id AND what = :what AND life = :life
WHERE job_id = :id AND what = :what AND tries = :tries AND life = :life
RETURNING life;

-- name: postpone_retention
-- Try again later what could not be told.
UPDATE holdfast_retention_due
SET at = :now + :delay_ms, error = :error
WHERE job_id = :id AND what = :what AND tries = :tries AND life = :life;
