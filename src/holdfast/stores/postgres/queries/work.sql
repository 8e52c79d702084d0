-- name: claim_jobs
-- Take jobs from lanes.
SELECT * FROM holdfast.claim_jobs($1, $2, $3, $4, $5, $6, $7);

-- name: claim_jobs_by_id
-- Take the named jobs if they may run now.
SELECT * FROM holdfast.claim_jobs_by_id($1, $2, $3, $4);

-- name: give_back_batch
-- Give back what a claim whose reply was lost may have taken.
SELECT holdfast.give_back_batch($1, $2);

-- name: start_jobs
-- Record that handlers began; answers the jobs whose claim was still held. Rows are locked in the order of their ids.
WITH held AS MATERIALIZED (
    SELECT j.id, t.started_ago, j.is_first
    FROM unnest($1::bigint[], $2::integer[], $3::bigint[]) AS t (id, claim, started_ago)
    CROSS JOIN LATERAL (
        SELECT id, started_at IS NULL AS is_first
        FROM holdfast.jobs
        WHERE id = t.id AND claim = t.claim AND state = 'running'
        FOR UPDATE
    ) AS j
),

started AS (
    UPDATE holdfast.jobs AS j
    SET started_at = holdfast.clock() - held.started_ago * interval '1 millisecond'
    FROM held
    WHERE j.id = ANY ($1::bigint[]) AND j.id = held.id
    RETURNING j.id, j.kind, j.queue, j.life, j.claim, j.attempt, j.started_at, held.is_first
),

published AS (
    INSERT INTO holdfast.events (at, kind, job_id, task, queue, state, life, claim, attempt)
    SELECT started_at, 'job:started', id, kind, queue, 'running', life, claim, attempt
    FROM started
    WHERE is_first AND holdfast.is_watched()
)

SELECT id FROM started;

-- name: finish_jobs
-- End claims and take the next jobs in the same commit.
SELECT *
FROM holdfast.exchange_jobs(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19
);

-- name: save_progress
-- Keep the last report of running jobs.
SELECT holdfast.save_progress($1, $2, $3, $4, $5, $6, $7, $8);

-- name: cancelled_claims
-- Read which of a worker's claims are asked to stop.
SELECT id, claim FROM holdfast.jobs WHERE state = 'running' AND worker = $1 AND cancel_requested_at IS NOT NULL;
