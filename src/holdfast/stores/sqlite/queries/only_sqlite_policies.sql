-- name: note_failures
-- Put jobs that have just failed into the inbox of dead letters, and into that of alarms where their queue escalates.
INSERT INTO holdfast_failures (at, job_id, life, kind, queue, fingerprint, error_class, error)
SELECT finished_at, id, life, kind, queue, error_fingerprint, error_class, substr(error, 1, 500)
FROM holdfast_history
WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'failed';

INSERT INTO holdfast_alarms (at, source, policy, queue, kind, fingerprint, job_id, life, title, details)
SELECT
    job.finished_at, 'failed', queues.escalation, job.queue, job.kind, job.error_fingerprint, job.id, job.life,
    job.kind || ' failed: ' || COALESCE(job.error_class, 'unknown'),
    json_object(
        'error_class', job.error_class, 'error', substr(job.error, 1, 500), 'attempt', job.attempt,
        'max_attempts', job.max_attempts, 'crashes', job.crashes
    )
FROM holdfast_history AS job
INNER JOIN holdfast_queues AS queues ON queues.name = job.queue
WHERE job.id IN (SELECT value FROM json_each(:ids)) AND job.state = 'failed' AND queues.escalation IS NOT NULL;

-- name: read_failures
-- Read the oldest failures of the inbox.
SELECT id, at, job_id, kind, queue, fingerprint, error_class, error
FROM holdfast_failures
ORDER BY id
LIMIT :limit;

-- name: fold_failures_by_queue
-- Add what was counted to a group as it is in one queue.
INSERT INTO holdfast_dead_letter_queues AS d (
    queue, id, kind, fingerprint, error_class, error, seen, first_at, last_at, last_job
)
VALUES (:queue, :id, :kind, :fingerprint, :error_class, :error, :seen, :first_at, :last_at, :last_job)
ON CONFLICT (queue, id) DO UPDATE
SET
    seen = d.seen + excluded.seen,
    first_at = min(d.first_at, excluded.first_at),
    last_at = max(d.last_at, excluded.last_at),
    error_class = CASE WHEN excluded.last_at >= d.last_at THEN excluded.error_class ELSE d.error_class END,
    error = CASE WHEN excluded.last_at >= d.last_at THEN excluded.error ELSE d.error END,
    last_job = CASE WHEN excluded.last_at >= d.last_at THEN excluded.last_job ELSE d.last_job END;

-- name: forget_failures
-- Take what was counted out of the inbox.
DELETE FROM holdfast_failures WHERE id IN (SELECT value FROM json_each(:ids));

-- name: dead_jobs_left
-- Count the jobs of a group that are still there.
SELECT count(*)
FROM (
    SELECT 1
    FROM holdfast_history
    WHERE kind = :kind AND error_fingerprint = :fingerprint AND state = 'failed' AND delete_at > :now
    LIMIT :cap
);

-- name: dead_jobs_left_in
-- Count the jobs of a group that are still there in one queue.
SELECT count(*)
FROM (
    SELECT 1
    FROM holdfast_history
    WHERE kind = :kind AND error_fingerprint = :fingerprint AND queue = :queue AND state = 'failed'
        AND delete_at > :now
    LIMIT :cap
);

-- name: forget_policies
-- Forget definitions that are gone.
DELETE FROM holdfast_policies WHERE path IN (SELECT value FROM json_each(:gone));

-- name: forget_queue_policies
-- Let every other queue have no definition any more.
UPDATE holdfast_queues SET definition = NULL, screened = 0
WHERE name NOT IN (SELECT value FROM json_each(:named)) AND (definition IS NOT NULL OR screened);

-- name: take_alarms
-- Read alarms that are to be taken from the inbox.
SELECT
    a.id, COALESCE(a.policy, q.escalation), a.source, COALESCE(a.queue, ''), COALESCE(a.kind, ''),
    COALESCE(a.fingerprint, ''), a.job_id, COALESCE(a.title, a.kind || ' ' || a.source, a.source), a.details, a.at
FROM holdfast_alarms AS a
LEFT JOIN holdfast_queues AS q ON q.name = a.queue
WHERE COALESCE(a.policy, q.escalation) IN (SELECT value FROM json_each(:policies))
ORDER BY a.id
LIMIT :limit;

-- name: drop_alarms
-- Take alarms from the inbox.
DELETE FROM holdfast_alarms WHERE id IN (SELECT value FROM json_each(:ids));

-- name: recent_waits
-- Read the histograms of the waits that were counted since a time.
SELECT queue, wait FROM holdfast_rollups WHERE minute >= :since AND queue IN (SELECT value FROM json_each(:queues));

-- name: open_period
-- Make a period of a budget for one key, unless it is there, and read how far it has come.
INSERT INTO holdfast_budget_periods (budget, key, starts_at, ends_at)
VALUES (:budget, :key, :starts_at, :ends_at)
ON CONFLICT DO NOTHING;
SELECT spent, reserved, lost, alerts
FROM holdfast_budget_periods
WHERE budget = :budget AND key = :key AND starts_at = :starts_at;

-- name: change_period
-- Add to the sums of a period.
UPDATE holdfast_budget_periods
SET spent = spent + :spent, reserved = reserved + :reserved, lost = lost + :lost
WHERE budget = :budget AND key = :key AND starts_at = :starts_at;

-- name: tell_alert
-- Remember that a threshold was told of, and tell of it.
UPDATE holdfast_budget_periods
SET alerts = json_insert(alerts, '$[#]', :share)
WHERE budget = :budget AND key = :key AND starts_at = :starts_at;
INSERT INTO holdfast_alarms (at, source, queue, fingerprint, title, details)
VALUES (:now, 'budget', :queue, :fingerprint, :title, :details);

-- name: reserved_for
-- Read what was set aside for jobs.
SELECT job_id, claim, budget, key, starts_at, queue, amount, spent, state
FROM holdfast_reservations
WHERE job_id IN (SELECT value FROM json_each(:ids));

-- name: spend_reserved
-- Note what of a reservation was spent.
UPDATE holdfast_reservations SET spent = spent + :amount WHERE job_id = :job_id AND claim = :claim;

-- name: lose_reserved
-- Keep what was set aside for a claim whose end nobody saw.
UPDATE holdfast_reservations SET state = 'lost' WHERE job_id = :job_id AND claim = :claim;

-- name: held_for_budget
-- Read where a claim stands that may have ended here before.
SELECT run_at
FROM holdfast_jobs
WHERE id = :job_id AND claim = :claim AND state = 'held' AND limit_key IN (:mark, :mark || ' room');

-- name: hold_for_budget
-- Hold a job that waits for its time until its budget allows it.
UPDATE holdfast_jobs SET state = 'held', position = NULL, limit_key = :mark WHERE id = :job_id AND state = 'scheduled';

-- name: find_room
-- Let as many jobs look again as have ended, the first that came.
UPDATE holdfast_jobs
SET run_at = :now
WHERE id IN (
    SELECT id
    FROM holdfast_jobs
    WHERE state = 'held' AND limit_key = 'budget:' || :budget || ' room'
    ORDER BY enqueued_seq
    LIMIT :limit
);

-- name: queue_of
-- Read the queue of a live job.
SELECT queue FROM holdfast_jobs WHERE id = :id;

-- name: late_entry
-- Read whether an entry of the ledger came late; nothing when it is not there.
SELECT is_late FROM holdfast_ledger WHERE job_id = :job_id AND claim = :claim AND n = :n;

-- name: has_looks
-- Whether any queue has rate limits or debounced kinds, and whether any has limits that jobs wait for.
SELECT coalesce(max(screened), 0), coalesce(max(gated), 0) FROM holdfast_queues;

-- name: screened_queues
-- Read the queues that an enqueue has to look at.
SELECT name FROM holdfast_queues WHERE screened;

-- name: rate_limits
-- Read the limits on how many may be asked for.
SELECT name, queue, kinds, path, rate_us, rate_burst FROM holdfast_limits WHERE rate_us IS NOT NULL ORDER BY name;

-- name: rated_until
-- Read how far the rate of one key has come, in microseconds.
SELECT rated_until FROM holdfast_limit_keys WHERE limit_name = :name AND key = :key;

-- name: charge_rate
-- Note how far the rate of one key has come.
INSERT INTO holdfast_limit_keys (limit_name, key, rated_until, seen_at)
VALUES (:name, :key, :until, :now)
ON CONFLICT (limit_name, key) DO UPDATE SET rated_until = excluded.rated_until, seen_at = excluded.seen_at;

-- name: debounced_kinds
-- Read which of these kinds are debounced, for how long, and by which key.
SELECT name, debounce_ms, debounce_path
FROM holdfast_kinds
WHERE debounce_ms IS NOT NULL AND name IN (SELECT value FROM json_each(:kinds));

-- name: merge_debounced
-- Merge a call with the job of its kind and key that still waits; no row when there is none.
UPDATE holdfast_jobs
SET payload = :payload, actor = :actor, extra = :extra, run_at = :run_at
WHERE kind = :kind AND debounce_key = :debounce_key AND state = 'scheduled' AND claim = 0
RETURNING id;

-- name: forget_limits
-- Let no limits hold but the named ones.
DELETE FROM holdfast_limits WHERE name NOT IN (SELECT value FROM json_each(:names));

-- name: mark_gated
-- Mark the queues with jobs that may have to wait for a limit, and no others.
INSERT INTO holdfast_queues (name, gated) SELECT value, 1 FROM json_each(:gated) WHERE true
ON CONFLICT (name) DO UPDATE SET gated = 1 WHERE gated = 0;
UPDATE holdfast_queues SET gated = 0 WHERE gated = 1 AND name NOT IN (SELECT value FROM json_each(:gated));

-- name: has_gated
-- Whether any of the named queues has jobs that may have to wait for a limit.
SELECT EXISTS (SELECT 1 FROM holdfast_queues WHERE gated AND name IN (SELECT value FROM json_each(:queues)));

-- name: has_any_gated
-- Whether any queue at all has jobs that may have to wait for a limit.
SELECT EXISTS (SELECT 1 FROM holdfast_queues WHERE gated);

-- name: gated_jobs
-- Look at those of the named jobs that may have to wait for a limit.
SELECT
    job.id, job.kind, job.queue, job.priority, job.position, job.payload, job.tags, job.actor, job.claim,
    job.fifo_key, job.enqueued_seq
FROM json_each(:ids) AS asked
CROSS JOIN holdfast_jobs AS job ON job.id = asked.value
INNER JOIN holdfast_queues AS queues ON queues.name = job.queue AND queues.gated
ORDER BY asked.key;

-- name: lane_jobs
-- Look at the first jobs of one lane.
SELECT id, kind, queue, priority, position, payload, tags, actor, claim, fifo_key, enqueued_seq
FROM holdfast_jobs
WHERE queue = :queue AND priority = :priority AND state = 'queued'
ORDER BY position
LIMIT :limit;

-- name: count_slots
-- Count the slots of a key that are taken.
SELECT count(*) FROM holdfast_slots WHERE limit_name = :name AND key = :key AND job_id IS NOT NULL;

-- name: free_places
-- Find the first free slots of a key, and then the last one that was ever made.
SELECT n
FROM (
    SELECT n FROM holdfast_slots WHERE limit_name = :name AND key = :key AND job_id IS NULL ORDER BY n LIMIT :limit
)
UNION ALL
SELECT COALESCE(max(n), 0) FROM holdfast_slots WHERE limit_name = :name AND key = :key;

-- name: take_slots
-- Let a job have one slot of a key.
INSERT INTO holdfast_slots (limit_name, key, n, job_id, claim, worker, taken_at)
VALUES (:name, :key, :n, :job_id, :claim, :worker, :now)
ON CONFLICT (limit_name, key, n) DO UPDATE
SET job_id = excluded.job_id, claim = excluded.claim, worker = excluded.worker, taken_at = excluded.taken_at;

-- name: held_slots
-- Find the slots of claims; an item is [job, claim].
SELECT slot.limit_name, slot.key, slot.n
FROM json_each(:items) AS item
CROSS JOIN holdfast_slots AS slot
    -- guard: slot-claim, without: ON slot.job_id = json_extract(item.value, '$[0]')
    ON slot.job_id = json_extract(item.value, '$[0]') AND slot.claim = json_extract(item.value, '$[1]')
WHERE slot.job_id IS NOT NULL;

-- name: free_slots
-- Give back slots of one key.
UPDATE holdfast_slots
SET job_id = NULL, claim = NULL, worker = NULL
WHERE limit_name = :name AND key = :key AND n IN (SELECT value FROM json_each(:places));

-- name: leaked_slots
-- Find slots of claims that run no more and whose worker is gone.
SELECT slot.job_id, slot.claim
FROM holdfast_slots AS slot
WHERE slot.job_id IS NOT NULL
    AND NOT EXISTS (
        SELECT 1 FROM holdfast_jobs AS job
        WHERE job.id = slot.job_id AND job.claim = slot.claim AND job.state = 'running'
    )
    AND NOT EXISTS (
        SELECT 1 FROM holdfast_workers AS worker WHERE worker.id = slot.worker AND worker.dead_at IS NULL
    );

-- name: prune_slots
-- Forget slots of keys that nobody has used for a day, and those of limits that are gone.
DELETE FROM holdfast_slots
WHERE job_id IS NULL
    AND (
        limit_name NOT IN (SELECT lim.name FROM holdfast_limits AS lim)
        OR NOT EXISTS (
            SELECT 1 FROM holdfast_slots AS used
            WHERE used.limit_name = holdfast_slots.limit_name AND used.key = holdfast_slots.key
                AND (used.job_id IS NOT NULL OR used.taken_at >= :now - 86400000)
        )
    );

-- name: park_jobs
-- Let queued jobs wait for a key; they keep their place.
UPDATE holdfast_jobs
SET state = 'held', limit_key = :limit_key, announced_at = NULL
WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'queued';

-- name: first_held
-- Find the first jobs that are held for a key.
SELECT id, queue
FROM holdfast_jobs
WHERE state = 'held' AND limit_key = :limit_key AND position IS NOT NULL
ORDER BY priority, position
LIMIT :limit;

-- name: release_held
-- Let one held job go on, at its old place or at another.
UPDATE holdfast_jobs
SET state = 'queued', limit_key = NULL, position = COALESCE(:position, position)
WHERE id = :id AND state = 'held';

-- name: row_head
-- Find the first living job of those that run one after the other.
SELECT id, queue, state, limit_key FROM holdfast_jobs WHERE fifo_key = :fifo_key ORDER BY enqueued_seq LIMIT 1;

-- name: line_up
-- Give a job its place among those that run one after the other.
UPDATE holdfast_jobs
SET fifo_key = :fifo_key, enqueued_seq = COALESCE(enqueued_seq, position, :place)
WHERE id = :id;

-- name: ended_rows
-- Find the keys of finished jobs that ran one after the other.
SELECT DISTINCT fifo_key
FROM holdfast_history
WHERE id IN (SELECT value FROM json_each(:ids)) AND fifo_key IS NOT NULL;

-- name: throttled_until
-- Read when the next start of a key is due, in microseconds.
SELECT throttled_until FROM holdfast_limit_keys WHERE limit_name = :name AND key = :key;

-- name: save_throttle
-- Keep when the next start of a key is due, and when held jobs may go on.
INSERT INTO holdfast_limit_keys (limit_name, key, throttled_until, wake_at, seen_at)
VALUES (:name, :key, :until, :wake_at, :now)
ON CONFLICT (limit_name, key) DO UPDATE
SET
    throttled_until = excluded.throttled_until,
    wake_at = COALESCE(excluded.wake_at, wake_at),
    seen_at = excluded.seen_at;

-- name: due_keys
-- Find keys whose held jobs may go on.
SELECT limit_name, key, throttled_until FROM holdfast_limit_keys WHERE wake_at <= :now ORDER BY wake_at LIMIT 100;

-- name: set_wake
-- Say when held jobs of a key may go on.
UPDATE holdfast_limit_keys SET wake_at = :wake_at WHERE limit_name = :name AND key = :key;

-- name: has_wake
-- Whether it is known when held jobs of a key may go on.
SELECT EXISTS (
    SELECT 1 FROM holdfast_limit_keys WHERE limit_name = :name AND key = :key AND wake_at IS NOT NULL
);

-- name: next_wake
-- Say in how many milliseconds the next held jobs may go on.
SELECT max(wake_at - :now, 0) FROM holdfast_limit_keys WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1;

-- name: clear_permits
-- Forget the times of earlier claims at which jobs might start.
UPDATE holdfast_jobs
SET extra = json_remove(extra, '$.permit_at')
WHERE id IN (SELECT value FROM json_each(:ids)) AND json_extract(extra, '$.permit_at') IS NOT NULL;

-- name: set_permits
-- Keep the time at which one job may start.
UPDATE holdfast_jobs SET extra = json_set(COALESCE(extra, '{}'), '$.permit_at', :permit_at) WHERE id = :id;

-- name: close_queues
-- Let no job of a queue be claimed until the time at which one that was told to slow down is due again.
INSERT INTO holdfast_queues (name, closed_until)
SELECT queue, max(run_at) FROM holdfast_jobs WHERE id IN (SELECT value FROM json_each(:ids)) GROUP BY queue
ON CONFLICT (name) DO UPDATE SET closed_until = max(COALESCE(closed_until, 0), excluded.closed_until);

-- name: why_path
-- Read which part of a job says whose share of a budget it uses.
SELECT path FROM holdfast_budgets WHERE name = :name;
