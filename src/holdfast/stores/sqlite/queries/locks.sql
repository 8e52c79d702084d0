-- name: take_lock
-- Give a lock to its first waiter if it is free, and take the ticket back; the counter gives the token. A lock is free
-- without a row, when its time has passed, or when its worker is dead and its claim has ended.
UPDATE holdfast_counters SET value = value + 1 WHERE name = 'lock_tokens';
INSERT INTO holdfast_locks (name, token, owner, context, place, worker, job_id, claim, since, until)
SELECT
    mine.name, counter.value, mine.owner, mine.context, mine.place, mine.worker, mine.job_id, mine.claim, :now,
    :now + :lasts_ms
FROM holdfast_lock_waiters AS mine
CROSS JOIN holdfast_counters AS counter
WHERE mine.owner = :owner
    AND counter.name = 'lock_tokens'
    AND NOT EXISTS (
        SELECT 1 FROM holdfast_lock_waiters AS other
        -- guard: lock-order, without: WHERE false
        WHERE other.name = mine.name AND other.ticket < mine.ticket AND other.until > :now
    )
    AND NOT EXISTS (
        SELECT 1 FROM holdfast_locks AS held
        WHERE held.name = mine.name
            AND held.until > :now
            AND (
                held.worker IS NULL
                -- guard: lock-living-worker
                OR EXISTS (SELECT 1 FROM holdfast_workers WHERE id = held.worker AND dead_at IS NULL)
                OR EXISTS (
                    SELECT 1 FROM holdfast_jobs AS job
                    -- guard: lock-running-claim, without: WHERE false
                    WHERE job.id = held.job_id AND job.claim = held.claim AND job.state = 'running'
                )
            )
    )
ON CONFLICT (name) DO UPDATE
SET
    token = excluded.token,
    owner = excluded.owner,
    context = excluded.context,
    place = excluded.place,
    worker = excluded.worker,
    job_id = excluded.job_id,
    claim = excluded.claim,
    since = excluded.since,
    until = excluded.until;
DELETE FROM holdfast_lock_waiters
WHERE owner = :owner AND EXISTS (SELECT 1 FROM holdfast_locks WHERE owner = :owner);
UPDATE holdfast_locks SET until = :now + :lasts_ms WHERE owner = :owner RETURNING token, since;

-- name: renew_locks
-- Extend locks; one that is not its owner's any more is not among the answers.
UPDATE holdfast_locks
SET until = :now + :lasts_ms
WHERE owner IN (SELECT value FROM json_each(:owners))
RETURNING owner;

-- name: renew_tickets
-- Extend tickets; one that is gone is not among the answers.
UPDATE holdfast_lock_waiters
SET until = :now + :waits_ms
WHERE owner IN (SELECT value FROM json_each(:owners))
RETURNING owner;

-- name: release_lock
-- Let go of a lock or a ticket; answers whether others wait for it.
DELETE FROM holdfast_lock_waiters WHERE owner = :owner;
-- guard: released-owner, without: DELETE FROM holdfast_locks WHERE name = :name;
DELETE FROM holdfast_locks WHERE name = :name AND owner = :owner;
SELECT EXISTS (SELECT 1 FROM holdfast_lock_waiters WHERE name = :name AND until > :now);

-- name: break_lock
-- Take a lock from whoever got it with this token.
-- guard: broken-token, without: DELETE FROM holdfast_locks WHERE name = :name;
DELETE FROM holdfast_locks WHERE name = :name AND token = :token;

-- name: free_locks
-- Let go of what the handler of a claim waits for.
DELETE FROM holdfast_lock_waiters WHERE job_id = :job_id AND claim = :claim;

-- name: list_locks
-- Read the locks that are held, the oldest first, and how many wait for each.
SELECT
    name, token, place, worker, job_id, claim, since, until,
    (
        SELECT count(*) FROM holdfast_lock_waiters AS waiter
        WHERE waiter.name = holdfast_locks.name AND waiter.until > :now
    )
FROM holdfast_locks
WHERE until > :now
ORDER BY since, name
LIMIT :limit;

-- name: prune_locks
-- Delete locks whose time has passed.
DELETE FROM holdfast_locks WHERE name IN (SELECT name FROM holdfast_locks WHERE until < :now LIMIT :limit);
