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
-- Find which of the named queues have a job that anyone may take now, or one that is due within the next second. What
-- stands for cancellations is found while a running job is asked to stop, what stands for locks while somebody waits for
-- one that nobody holds.
SELECT asked.value
FROM json_each(:queues) AS asked
WHERE (
        (
            asked.value = '!cancel'
            AND EXISTS (
                SELECT 1 FROM holdfast_jobs WHERE cancel_requested_at IS NOT NULL AND state = 'running'
            )
        )
        OR (
            asked.value = '!lock'
            AND EXISTS (
                SELECT 1 FROM holdfast_lock_waiters AS waiter
                WHERE waiter.until > :now
                    AND NOT EXISTS (
                        SELECT 1 FROM holdfast_locks AS held WHERE held.name = waiter.name AND held.until > :now
                    )
            )
        )
        OR EXISTS (SELECT 1 FROM holdfast_jobs AS job WHERE job.queue = asked.value AND job.state = 'queued')
        OR asked.value IN (
            SELECT due.queue
            FROM holdfast_jobs AS due
            WHERE due.state = 'scheduled' AND due.run_at < :now + 1000
            ORDER BY due.run_at
            LIMIT 100
        )
    )
    AND NOT EXISTS (
        SELECT 1 FROM holdfast_queues WHERE name = asked.value AND (paused_at IS NOT NULL OR closed_until > :now)
    );

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
SELECT
    -- guard: finish-fence, without: job.id, json_extract(item.value, '$[1]'), job.crashes, job.max_crashes, false,
    job.id, job.claim, job.crashes, job.max_crashes, job.cancel_requested_at IS NOT NULL,
    json_extract(job.extra, '$.on_restart') = 'fail', job.started_at IS NOT NULL
FROM json_each(:items) AS item
CROSS JOIN holdfast_jobs AS job ON job.id = json_extract(item.value, '$[0]')
-- guard: finish-fence, without: WHERE job.state = 'running';
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
    started_at = NULL,
    announced_at = NULL
WHERE id = :id;

-- name: save_rollup
-- Append one count of outcomes.
INSERT INTO holdfast_rollups (minute, queue, kind, state, jobs, wait, run)
VALUES (:now / 60000 * 60000, :queue, :kind, :state, :jobs, :wait, :run);

-- name: lost_jobs
-- Find running jobs without a living worker. The index is named, or the order would lead through every job there is.
SELECT
    id, claim, crashes, max_crashes, cancel_requested_at IS NOT NULL,
    json_extract(extra, '$.on_restart') = 'fail', started_at IS NOT NULL
FROM holdfast_jobs AS job INDEXED BY holdfast_jobs_running
WHERE state = 'running'
    -- guard: rescue-living
    AND NOT EXISTS (SELECT 1 FROM holdfast_workers AS worker WHERE worker.id = job.worker AND worker.dead_at IS NULL)
ORDER BY id
LIMIT :limit;

-- name: due_jobs
-- Find jobs whose time has come, earliest first: scheduled ones, then those held for a time.
SELECT * FROM (
    SELECT id, queue, priority, run_at, claim
    FROM holdfast_jobs
    WHERE state = 'scheduled' AND run_at <= :now
    ORDER BY run_at, id
    LIMIT :limit
)
UNION ALL
SELECT * FROM (
    SELECT id, queue, priority, run_at, claim
    FROM holdfast_jobs
    WHERE state = 'held' AND position IS NULL AND run_at <= :now
    ORDER BY run_at, id
    LIMIT :limit
)
LIMIT :limit;

-- name: next_due
-- Say in how many milliseconds the next job is due that waits for a time.
SELECT min(due)
FROM (
    SELECT * FROM (
        SELECT max(run_at - :now, 0) AS due
        FROM holdfast_jobs
        WHERE state = 'scheduled'
        ORDER BY run_at, id
        LIMIT 1
    )
    UNION ALL
    SELECT * FROM (
        SELECT max(run_at - :now, 0) AS due
        FROM holdfast_jobs
        WHERE state = 'held' AND position IS NULL
        ORDER BY run_at, id
        LIMIT 1
    )
);

-- name: prune_workers
-- Delete workers that have been dead for a day and hold nothing.
DELETE FROM holdfast_workers
WHERE dead_at < :now - 86400000
    AND NOT EXISTS (
        SELECT 1 FROM holdfast_jobs AS job WHERE job.state = 'running' AND job.worker = holdfast_workers.id
    );

-- name: prune_drains
-- Delete what was asked of instances that have been gone for a day.
DELETE FROM holdfast_drains
WHERE asked_at < :now - 86400000
    AND NOT EXISTS (SELECT 1 FROM holdfast_workers AS worker WHERE worker.instance = holdfast_drains.instance);

-- name: free_pages
-- Count the pages of the file that nothing uses.
PRAGMA freelist_count;

-- name: file_pages
-- Tell how many pages the file has, how many of them nothing uses, how large one is, and whether tables can be measured.
SELECT
    (SELECT page_count FROM pragma_page_count), (SELECT freelist_count FROM pragma_freelist_count),
    (SELECT page_size FROM pragma_page_size), sqlite_compileoption_used('ENABLE_DBSTAT_VTAB');

-- name: table_bytes
-- Measure what each table takes with its indexes, which reads the whole file.
SELECT made.tbl_name, sum(part.pgsize)
FROM dbstat AS part
INNER JOIN sqlite_master AS made ON made.name = part.name
WHERE part.aggregate = TRUE
GROUP BY made.tbl_name;

-- name: shrink_file
-- Give one free page back to the disk: Python steps this statement once, whatever number stands here.
PRAGMA incremental_vacuum(1);

-- name: is_watched
-- Whether anybody watches: only then are events written.
SELECT EXISTS (SELECT 1 FROM holdfast_watchers WHERE until > :now);

-- name: publish
-- Write one event.
INSERT INTO holdfast_events (at, kind, job_id, task, queue, state, life, claim, attempt, data)
VALUES (:at, :kind, :job_id, :task, :queue, :state, :life, :claim, :attempt, :data);

-- name: told_jobs
-- Look at jobs, live or finished, to tell of them.
SELECT id, kind, queue, state, life, claim, attempt, started_at, error_class, error, run_at
FROM holdfast_jobs
WHERE id IN (SELECT value FROM json_each(:ids))
UNION ALL
SELECT id, kind, queue, state, life, claim, attempt, started_at, error_class, error, run_at
FROM holdfast_history
WHERE id IN (SELECT value FROM json_each(:ids));

-- name: reported_jobs
-- Find which of the given jobs have a report, and so perhaps phases, items and lines.
SELECT job_id FROM holdfast_progress WHERE job_id IN (SELECT value FROM json_each(:ids));

-- name: fold_reports
-- Fold what is kept beside jobs into their history rows, and remove it.
UPDATE holdfast_history
SET
    phases = (SELECT part.folded FROM holdfast_folded_phases AS part WHERE part.job_id = holdfast_history.id),
    items = (SELECT part.folded FROM holdfast_folded_items AS part WHERE part.job_id = holdfast_history.id),
    logs = (SELECT part.folded FROM holdfast_folded_logs AS part WHERE part.job_id = holdfast_history.id)
WHERE id IN (SELECT value FROM json_each(:ids));

DELETE FROM holdfast_progress WHERE job_id IN (SELECT value FROM json_each(:ids));
DELETE FROM holdfast_phases WHERE job_id IN (SELECT value FROM json_each(:ids));
DELETE FROM holdfast_item_sets WHERE job_id IN (SELECT value FROM json_each(:ids));
DELETE FROM holdfast_items WHERE job_id IN (SELECT value FROM json_each(:ids));
DELETE FROM holdfast_logs WHERE job_id IN (SELECT value FROM json_each(:ids));

-- name: forget_reports
-- Forget the phases and items of one job, which begins anew.
DELETE FROM holdfast_phases WHERE job_id = :id;
DELETE FROM holdfast_item_sets WHERE job_id = :id;
DELETE FROM holdfast_items WHERE job_id = :id;

-- name: save_phase
-- Keep how one phase began or ended. One that a claim has completed stays so, whatever word of the same claim comes later
-- than it should.
INSERT INTO holdfast_phases (
    job_id, name, ordinal, weight, state, claim, percent, message, data, error, result, started_at, ended_at
)
VALUES (
    :id, :name, :ordinal, :weight, :state, :claim, :percent, :message, :data, :error, :result, :now - :started_ago,
    :now - :ended_ago
)
ON CONFLICT (job_id, name) DO UPDATE
SET
    ordinal = excluded.ordinal,
    weight = excluded.weight,
    state = excluded.state,
    claim = excluded.claim,
    percent = excluded.percent,
    message = excluded.message,
    data = excluded.data,
    error = excluded.error,
    result = excluded.result,
    started_at = excluded.started_at,
    ended_at = excluded.ended_at
WHERE state <> 'completed' OR claim <> excluded.claim OR excluded.state = 'completed';

-- name: save_item_set
-- Open one set of items: what ended well stays so, everything else is worked through again.
INSERT INTO holdfast_item_sets (job_id, name, word, phase) VALUES (:id, :name, :word, :phase)
ON CONFLICT (job_id, name) DO UPDATE SET word = excluded.word, phase = excluded.phase;

DELETE FROM holdfast_items
WHERE job_id = :id AND set_name = :name AND key NOT IN (SELECT value FROM json_each(:keys));

INSERT INTO holdfast_items (job_id, set_name, key, ordinal, state)
SELECT :id, :name, asked.value, asked.key, 'in_progress' FROM json_each(:keys) AS asked WHERE true
ON CONFLICT (job_id, set_name, key) DO UPDATE
SET
    ordinal = excluded.ordinal,
    state = CASE WHEN state IN ('completed', 'skipped') THEN state ELSE 'in_progress' END,
    note = CASE WHEN state = 'skipped' THEN note END;

-- name: save_item
-- Keep how one item ended.
UPDATE holdfast_items SET state = :state, note = :note WHERE job_id = :id AND set_name = :set_name AND key = :key;

-- name: save_line
-- Keep one line that was logged; those of the last five claims are enough.
INSERT INTO holdfast_logs (job_id, claim, line, at, level, text)
VALUES (:id, :claim, :line, :now - :ago, :level, :text)
ON CONFLICT (job_id, claim, line) DO NOTHING;

DELETE FROM holdfast_logs WHERE job_id = :id AND claim <= :claim - 5;

-- name: folded_reports
-- Read what was folded into the history row of one job.
SELECT state, progress, phases, items, logs FROM holdfast_history WHERE id = :id;

-- name: restore_progress
-- Lay the last report of a job out as a row again; nobody holds it.
INSERT INTO holdfast_progress (job_id, percent, message, data, updated_at, phase, phase_percent)
VALUES (:id, :percent, :message, :data, :updated_at, :phase, :phase_percent);

-- name: restore_phase
-- Lay one phase out as a row again.
INSERT INTO holdfast_phases (
    job_id, name, ordinal, weight, state, claim, percent, message, data, error, result, started_at, ended_at
)
VALUES (
    :id, :name, :ordinal, :weight, :state, :claim, :percent, :message, :data, :error, :result, :started_at, :ended_at
);

-- name: restore_item_set
-- Lay one set of items out as a row again.
INSERT INTO holdfast_item_sets (job_id, name, word, phase) VALUES (:id, :name, :word, :phase);

-- name: restore_item
-- Lay one item out as a row again.
INSERT INTO holdfast_items (job_id, set_name, key, ordinal, state, note)
VALUES (:id, :set_name, :key, :ordinal, :state, :note);

-- name: restore_line
-- Lay one logged line out as a row again.
INSERT INTO holdfast_logs (job_id, claim, line, at, level, text) VALUES (:id, :claim, :line, :at, :level, :text)
ON CONFLICT DO NOTHING;

-- name: strip_job
-- Remove from a job what the database may refuse to move: its notes, and its report.
UPDATE holdfast_jobs SET extra = NULL WHERE id = :id;
DELETE FROM holdfast_progress WHERE job_id = :id;
DELETE FROM holdfast_phases WHERE job_id = :id;
DELETE FROM holdfast_item_sets WHERE job_id = :id;
DELETE FROM holdfast_items WHERE job_id = :id;
DELETE FROM holdfast_logs WHERE job_id = :id;

-- name: hooked_queues
-- Tell whether the ends of any queue's jobs are posted or told, or those of the given jobs are posted.
SELECT
    EXISTS (SELECT 1 FROM holdfast_queues WHERE webhook IS NOT NULL OR tells),
    EXISTS (
        SELECT 1 FROM holdfast_jobs
        WHERE id IN (SELECT value FROM json_each(:ids)) AND extra IS NOT NULL
            AND json_extract(extra, '$.webhook') IS NOT NULL
    );

-- name: post_ends
-- Let the ends of jobs be posted, where their queue or they themselves ask for it; the job's own wish wins.
WITH ended AS MATERIALIZED (
    SELECT
        history.*,
        -- What another program wrote and names no address is no wish.
        COALESCE(
            CASE json_type(history.extra, '$.webhook.url') WHEN 'text' THEN json_extract(history.extra, '$.webhook') END,
            queues.webhook
        ) AS wish,
        CASE history.state WHEN 'completed_with_errors' THEN 'job:completed' ELSE 'job:' || history.state END AS event
    FROM holdfast_history AS history
    LEFT JOIN holdfast_queues AS queues ON queues.name = history.queue
    WHERE history.id IN (SELECT value FROM json_each(:ids))
)

INSERT INTO holdfast_deliveries (
    job_id, life, event, url, endpoint, at, task, queue, status, attempt, tags, error_class, error, result,
    result_omitted, next_at, expires_at
)
SELECT
    id, life, event, json_extract(wish, '$.url'),
    substr(json_extract(wish, '$.url'), 1, instr(json_extract(wish, '$.url') || '?', '?') - 1),
    finished_at, kind, queue, state, attempt, tags, error_class, error,
    CASE WHEN length(CAST(result AS BLOB)) <= 16000 THEN result END,
    COALESCE(length(CAST(result AS BLOB)) > 16000, 0), finished_at, delete_at
FROM ended
WHERE wish IS NOT NULL
    AND (
        json_extract(wish, '$.events') IS NULL
        OR EXISTS (SELECT 1 FROM json_each(wish, '$.events') AS named WHERE named.value = ended.event)
    )
ON CONFLICT (job_id, life, event) DO NOTHING;

-- name: note_retention
-- Note what has to be told of finished jobs before they are deleted, for the queues that ask for it.
INSERT INTO holdfast_retention_due (job_id, life, queue, what, at, delete_at)
SELECT history.id, history.life, history.queue, due.what, due.at, history.delete_at
FROM holdfast_history AS history
INNER JOIN holdfast_queues AS queues ON queues.name = history.queue AND queues.tells
INNER JOIN (
    SELECT id, 'stale' AS what, stale_at AS at FROM holdfast_history
    UNION ALL
    SELECT id, 'delete', delete_at FROM holdfast_history
) AS due ON due.id = history.id
WHERE history.id IN (SELECT value FROM json_each(:ids)) AND due.at < 253370764800000
ON CONFLICT (job_id, what) DO UPDATE
SET life = excluded.life, at = excluded.at, delete_at = excluded.delete_at, tries = 0, error = NULL;

-- name: forget_retention
-- Forget what was to be told of jobs.
DELETE FROM holdfast_retention_due WHERE job_id IN (SELECT value FROM json_each(:ids));

-- name: delete_expired
-- Delete one finished job whose retention has ended, in the life that was told of.
DELETE FROM holdfast_history WHERE id = :id AND life = :life AND delete_at <= :now;

-- name: keep_progress
-- Let the last report of one running job stand, and belong to its claim.
INSERT INTO holdfast_progress (job_id, claim, updated_at) VALUES (:id, :claim, :now)
ON CONFLICT (job_id) DO UPDATE SET claim = excluded.claim, updated_at = excluded.updated_at;

-- name: read_progress
-- Read the last report of one job.
SELECT percent, message, data, phase, phase_percent FROM holdfast_progress WHERE job_id = :id;

-- name: enter_ticket
-- Let somebody wait for a lock, or go on waiting; answers the ticket.
INSERT INTO holdfast_lock_waiters (name, owner, context, place, worker, job_id, claim, since, until)
VALUES (:name, :owner, :context, :place, :worker, :job_id, :claim, :now, :now + :waits_ms)
ON CONFLICT (owner) DO UPDATE SET until = excluded.until
RETURNING ticket;

-- name: is_lock_cycle
-- Whether what the asker waits for leads back to it, and it has the youngest ticket of that cycle. Each context waits for
-- one lock at a time, so that this is one chain.
WITH RECURSIVE chain (context) AS (
    SELECT context FROM holdfast_locks WHERE name = :name AND until > :now
    UNION
    SELECT held.context
    FROM chain
    INNER JOIN holdfast_lock_waiters AS waiter ON waiter.context = chain.context AND waiter.until > :now
    INNER JOIN holdfast_locks AS held ON held.name = waiter.name AND held.until > :now
)

SELECT
    EXISTS (SELECT 1 FROM chain WHERE chain.context = :context)
    AND NOT EXISTS (
        SELECT 1
        FROM chain
        INNER JOIN holdfast_lock_waiters AS waiter ON waiter.context = chain.context AND waiter.until > :now
        WHERE waiter.ticket > :ticket
    );

-- name: free_held_locks
-- Let go of what the handler of a claim holds.
DELETE FROM holdfast_locks WHERE job_id = :job_id AND claim = :claim;

-- name: prune_tickets
-- Delete tickets of those who have not been heard of for a while.
DELETE FROM holdfast_lock_waiters
WHERE ticket IN (SELECT ticket FROM holdfast_lock_waiters WHERE until < :now - 20000 LIMIT :limit);

-- name: delete_rollups
-- Delete roll-ups that were added up.
DELETE FROM holdfast_rollups WHERE rowid IN (SELECT value FROM json_each(:ids));

-- name: add_rollup
-- Write what was added up as one row.
INSERT INTO holdfast_rollups (minute, queue, kind, state, jobs, wait, run, span_s)
VALUES (:minute, :queue, :kind, :state, :jobs, :wait, :run, :span_s);
