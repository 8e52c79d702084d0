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
-- Record that handlers began; answers the jobs whose claim was still held.
SELECT unnest(holdfast.start_jobs($1, $2, $3));

-- name: finish_jobs
-- End claims and take the next jobs in the same commit.
SELECT *
FROM holdfast.exchange_jobs(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20
);

-- name: save_progress
-- Keep the last report of running jobs.
SELECT holdfast.save_progress($1, $2, $3, $4, $5, $6, $7, $8);

-- name: cancelled_claims
-- Read which of a worker's claims are asked to stop.
SELECT id, claim FROM holdfast.jobs WHERE state = 'running' AND worker = $1 AND cancel_requested_at IS NOT NULL;
