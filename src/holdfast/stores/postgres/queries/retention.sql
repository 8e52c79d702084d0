-- name: claim_retention
-- Take what has to be told of finished jobs of some queues now; whoever takes it has it until its lease ends.
UPDATE holdfast.retention_due AS d
SET tries = d.tries + 1, at = holdfast.clock() + $2 * interval '1 millisecond'
FROM (
    SELECT job_id, what
    FROM holdfast.retention_due
    WHERE at <= holdfast.clock() AND queue = ANY ($3::text[])
    ORDER BY at
    LIMIT $1
    FOR UPDATE SKIP LOCKED
) AS due
WHERE d.job_id = due.job_id AND d.what = due.what
RETURNING d.job_id, d.life, d.what, d.tries;

-- name: kept_jobs
-- Read finished jobs, those that have expired too.
SELECT * FROM holdfast.kept_jobs WHERE id = ANY ($1::bigint[]);

-- name: end_retention
-- Let what was told be done: a job that was to be deleted is gone with it.
WITH told AS (
    DELETE FROM holdfast.retention_due
    -- guard: farewell-try, without: WHERE job_id = $1 AND what = $2 AND $3 > 0 AND life = $4
    WHERE job_id = $1 AND what = $2 AND tries = $3 AND life = $4
    RETURNING job_id, life, what
),

gone AS (
    DELETE FROM holdfast.history AS h
    USING told
    WHERE h.id = told.job_id AND h.life = told.life AND told.what = 'delete' AND h.delete_at <= holdfast.clock()
),

published AS (
    INSERT INTO holdfast.events (at, kind, job_id, task, queue, state, life, claim, attempt)
    SELECT
        holdfast.clock(), CASE told.what WHEN 'stale' THEN 'job:stale' ELSE 'job:deleted' END, h.id, h.kind, h.queue,
        h.state, h.life, h.claim, h.attempt
    FROM told
    INNER JOIN holdfast.history AS h ON h.id = told.job_id AND h.life = told.life
    WHERE holdfast.is_watched()
)

SELECT count(*) FROM told;

-- name: postpone_retention
-- Try again later what could not be told.
UPDATE holdfast.retention_due
SET at = holdfast.clock() + $4 * interval '1 millisecond', error = $5
WHERE job_id = $1 AND what = $2 AND tries = $3 AND life = $6
RETURNING job_id;
