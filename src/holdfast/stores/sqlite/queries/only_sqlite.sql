-- name: has_schema
-- Whether any migration was applied.
SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'holdfast_schema_migrations');

-- name: store_tag
-- Read what tells the ids of this store from those of any other.
SELECT CAST(value AS INTEGER) FROM holdfast_meta WHERE key = 'store_tag';

-- name: draw_positions
-- Draw positions at the end of every lane; answers the first of them.
UPDATE holdfast_counters SET value = value + :count WHERE name = 'positions' RETURNING value - :count + 1;

-- name: present_jobs
-- Find which of the given jobs are there, live or finished.
SELECT id FROM holdfast_jobs WHERE id IN (SELECT value FROM json_each(:ids))
UNION ALL
SELECT id FROM holdfast_history WHERE id IN (SELECT value FROM json_each(:ids));

-- name: key_holder
-- Find the job that a key stands for, and whether it was asked for in the same words.
SELECT job_id, kind = :kind AND payload_hash = :payload_hash
FROM holdfast_idempotency
WHERE scope = :scope AND key = :key AND expires_at > :now;

-- name: hold_key
-- Let a key stand for a job; only an expired one is taken over.
INSERT INTO holdfast_idempotency (scope, key, job_id, kind, payload_hash, expires_at)
VALUES (:scope, :key, :job_id, :kind, :payload_hash, :expires_at)
ON CONFLICT (scope, key) DO UPDATE
SET
    job_id = excluded.job_id,
    kind = excluded.kind,
    payload_hash = excluded.payload_hash,
    expires_at = excluded.expires_at
WHERE expires_at <= :now;

-- name: unique_holder
-- Find the live job that holds a unique key.
SELECT id FROM holdfast_jobs WHERE kind = :kind AND unique_key = :unique_key;

-- name: job_states
-- Look at jobs, live or finished.
SELECT id, state FROM holdfast_jobs WHERE id IN (SELECT value FROM json_each(:ids))
UNION ALL
SELECT id, state FROM holdfast_history WHERE id IN (SELECT value FROM json_each(:ids)) AND delete_at > :now;

-- name: finished_job
-- Look at one finished job before it is given a new life: its end, and a live job that holds its unique key.
SELECT
    state,
    -- Too close to its end: a day, or half of a retention that is shorter than two.
    delete_at < :now + min(86400000, (delete_at - finished_at) / 2),
    (
        SELECT job.id FROM holdfast_jobs AS job
        WHERE job.kind = history.kind AND job.unique_key = history.unique_key
    )
FROM holdfast_history AS history
WHERE id = :id AND delete_at > :now;

-- name: data_version
-- Read a number that changes when any other connection, of whatever process, has committed.
PRAGMA data_version;

-- name: ready_queues
-- Find which of the named queues have a job that anyone may take now, or one that is due within the next second.
SELECT asked.value
FROM json_each(:queues) AS asked
WHERE (
        EXISTS (SELECT 1 FROM holdfast_jobs AS job WHERE job.queue = asked.value AND job.state = 'queued')
        OR asked.value IN (
            SELECT due.queue
            FROM holdfast_jobs AS due
            WHERE due.state = 'scheduled' AND due.run_at < :now + 1000
            ORDER BY due.run_at
            LIMIT 100
        )
    )
    AND NOT EXISTS (SELECT 1 FROM holdfast_queues WHERE name = asked.value AND paused_at IS NOT NULL);

-- name: living_worker
-- Whether a worker is entered and not declared dead.
SELECT EXISTS (SELECT 1 FROM holdfast_workers WHERE id = :worker AND dead_at IS NULL);

-- name: take_jobs
-- Let a worker take jobs that were found for it.
UPDATE holdfast_jobs
SET
    state = 'running',
    claim = claim + 1,
    attempt = attempt + 1,
    worker = :worker,
    claim_batch = :batch,
    claimed_at = :now,
    started_at = NULL
WHERE id IN (SELECT value FROM json_each(:ids))
RETURNING *;

-- name: fenced_jobs
-- Look at the jobs that are still running under the named claims; an item is [id, claim].
SELECT job.id, job.claim, job.crashes, job.max_crashes, job.cancel_requested_at IS NOT NULL
FROM json_each(:items) AS item
CROSS JOIN holdfast_jobs AS job ON job.id = json_extract(item.value, '$[0]')
WHERE job.claim = json_extract(item.value, '$[1]') AND job.state = 'running';

-- name: accepted_before
-- Find whether an earlier send of a fenced write was accepted, and the state that the job is in now. A claim that ended
-- a life has that life's state as its outcome, which nobody but its holder can have written; what was to wait again may
-- have ended cancelled instead.
WITH outcomes (outcome) AS (
    VALUES (:verb), (CASE :verb WHEN 'complete' THEN 'completed' WHEN 'fail' THEN 'failed' ELSE 'cancelled' END),
    (CASE :verb WHEN 'complete' THEN 'completed_with_errors' END)
)

SELECT state
FROM holdfast_history AS history
WHERE id = :id
    AND (
        claim = :claim
        OR (claim = :claim + 1 AND json_extract(extra, '$.ended_by') = :verb)
        OR EXISTS (
            SELECT 1 FROM json_each(history.attempts) AS ended
            WHERE json_extract(ended.value, '$.claim') = :claim
                AND json_extract(ended.value, '$.outcome') IN (SELECT outcome FROM outcomes)
        )
    )
UNION ALL
SELECT job.state
FROM holdfast_jobs AS job
INNER JOIN holdfast_attempts AS ended ON ended.job_id = job.id
WHERE job.id = :id AND ended.claim = :claim AND ended.outcome IN (SELECT outcome FROM outcomes);

-- name: wait_again
-- Let one running job wait again, and keep a row of the claim that ended.
INSERT INTO holdfast_attempts (
    job_id, claim, attempt, worker, claimed_at, started_at, ended_at, outcome, error_class, error, traceback
)
SELECT
    id, claim, attempt, worker, claimed_at, COALESCE(:now - :started_ago_ms, started_at), :now, :verb, :error_class,
    :error, :traceback
FROM holdfast_jobs
WHERE id = :id;

DELETE FROM holdfast_attempts WHERE job_id = :id AND claim <= :claim - 100;
UPDATE holdfast_progress SET claim = NULL WHERE job_id = :id;

UPDATE holdfast_jobs
SET
    state = :state,
    position = CASE :state WHEN 'queued' THEN COALESCE(:position, position) END,
    run_at = COALESCE(:run_at, run_at),
    attempt = attempt - :is_uncharged,
    crashes = crashes + :is_crash,
    error_class = COALESCE(:error_class, error_class),
    error = COALESCE(:error, error),
    error_fingerprint = COALESCE(:error_fingerprint, error_fingerprint),
    worker = NULL,
    claim_batch = NULL,
    claimed_at = NULL,
    started_at = NULL
WHERE id = :id;

-- name: save_rollup
-- Append one count of outcomes.
INSERT INTO holdfast_rollups (minute, queue, kind, state, jobs, wait, run)
VALUES (:now / 60000 * 60000, :queue, :kind, :state, :jobs, :wait, :run);

-- name: lost_jobs
-- Find running jobs without a living worker. The index is named, or the order would lead through every job there is.
SELECT id, claim, crashes, max_crashes, cancel_requested_at IS NOT NULL
FROM holdfast_jobs AS job INDEXED BY holdfast_jobs_running
WHERE state = 'running'
    AND NOT EXISTS (SELECT 1 FROM holdfast_workers AS worker WHERE worker.id = job.worker AND worker.dead_at IS NULL)
ORDER BY id
LIMIT :limit;

-- name: due_jobs
-- Find scheduled jobs whose time has come, earliest first.
SELECT id, queue FROM holdfast_jobs WHERE state = 'scheduled' AND run_at <= :now ORDER BY run_at, id LIMIT :limit;

-- name: next_due
-- Say in how many milliseconds the next scheduled job is due.
SELECT max(run_at - :now, 0) FROM holdfast_jobs WHERE state = 'scheduled' ORDER BY run_at, id LIMIT 1;

-- name: prune_workers
-- Delete workers that have been dead for a day and hold nothing.
DELETE FROM holdfast_workers
WHERE dead_at < :now - 86400000
    AND NOT EXISTS (
        SELECT 1 FROM holdfast_jobs AS job WHERE job.state = 'running' AND job.worker = holdfast_workers.id
    );

-- name: free_pages
-- Count the pages of the file that nothing uses.
PRAGMA freelist_count;

-- name: shrink_file
-- Give one free page back to the disk: Python steps this statement once, whatever number stands here.
PRAGMA incremental_vacuum(1);
