-- name: take_lock
-- Take a lock, or wait for it.
SELECT * FROM holdfast.take_lock($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: renew_locks
-- Extend locks; one that is not its owner's any more is not among the answers.
UPDATE holdfast.locks
SET until = holdfast.clock() + $2 * interval '1 millisecond'
WHERE owner = ANY ($1::text[])
    AND name = ANY (
        ARRAY(SELECT name FROM holdfast.locks WHERE owner = ANY ($1::text[]) ORDER BY name FOR UPDATE)
    )
RETURNING owner;

-- name: renew_tickets
-- Extend tickets; one that is gone is not among the answers.
UPDATE holdfast.lock_waiters
SET until = holdfast.clock() + $2 * interval '1 millisecond'
WHERE ticket = ANY (
    ARRAY(SELECT ticket FROM holdfast.lock_waiters WHERE owner = ANY ($1::text[]) ORDER BY ticket FOR UPDATE)
)
RETURNING owner;

-- name: release_lock
-- Let go of a lock or a ticket; answers whether others wait for it.
SELECT holdfast.release_lock($1, $2);

-- name: break_lock
-- Take a lock from whoever got it with this token.
-- guard: broken-token, without: DELETE FROM holdfast.locks WHERE name = $1 AND $2 > 0 RETURNING 1;
DELETE FROM holdfast.locks WHERE name = $1 AND token = $2 RETURNING 1;

-- name: free_locks
-- Let go of everything that the handler of a claim holds or waits for; answers how much that was.
WITH waited AS (
    DELETE FROM holdfast.lock_waiters WHERE job_id = $1 AND claim = $2 RETURNING 1
),

held AS (
    DELETE FROM holdfast.locks WHERE job_id = $1 AND claim = $2 RETURNING 1
)

SELECT (SELECT count(*) FROM waited) + (SELECT count(*) FROM held);

-- name: list_locks
-- Read the locks that are held, the oldest first, and how many wait for each.
SELECT
    l.name, l.token, l.place, l.worker, l.job_id, l.claim, l.since, l.until,
    (SELECT count(*) FROM holdfast.lock_waiters AS w WHERE w.name = l.name AND w.until > holdfast.clock()) AS waiters
FROM holdfast.locks AS l
WHERE l.until > holdfast.clock()
ORDER BY l.since, l.name
LIMIT $1;

-- name: prune_locks
-- Delete locks whose time has passed, and tickets of those who have not been heard of for a while.
WITH waited AS (
    DELETE FROM holdfast.lock_waiters
    WHERE ticket = ANY (
        ARRAY(
            SELECT ticket
            FROM holdfast.lock_waiters
            WHERE until < holdfast.clock() - interval '20 seconds'
            ORDER BY ticket
            LIMIT $1
            FOR UPDATE SKIP LOCKED
        )
    )
    RETURNING 1
),

held AS (
    DELETE FROM holdfast.locks
    WHERE name = ANY (
        ARRAY(
            SELECT name
            FROM holdfast.locks
            WHERE until < holdfast.clock()
            ORDER BY name
            LIMIT $1
            FOR UPDATE SKIP LOCKED
        )
    )
    RETURNING 1
)

SELECT (SELECT count(*) FROM waited) + (SELECT count(*) FROM held);
