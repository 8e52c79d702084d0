-- name: write_notices
-- Write one message that is to be sent.
INSERT INTO holdfast_notices (escalation, policy, channel, event, data, created_at, next_at)
VALUES (:escalation, :policy, :channel, :event, :data, :now, :now);

-- name: claim_notices
-- Take messages whose time has come; whoever takes one has it until its lease ends. Of one escalation and channel they go
-- out in order: a pager that hears of the end first would be left with the beginning.
UPDATE holdfast_notices
SET tries = tries + 1, next_at = :now + :lease_ms
WHERE id IN (
    SELECT n.id
    FROM holdfast_notices AS n
    WHERE n.state = 'pending' AND n.next_at <= :now AND n.channel IN (SELECT value FROM json_each(:channels))
        AND NOT EXISTS (
            SELECT 1
            FROM holdfast_notices AS earlier
            WHERE earlier.state = 'pending' AND earlier.escalation = n.escalation AND earlier.channel = n.channel
                AND earlier.id < n.id
        )
    ORDER BY n.next_at
    LIMIT :limit
)
RETURNING id, escalation, policy, channel, event, data, :now - created_at, tries;

-- name: end_notice
-- Record what became of one try, under the number of that try.
UPDATE holdfast_notices
SET
    state = :state,
    next_at = :now + :delay_ms,
    ended_at = CASE :state WHEN 'pending' THEN NULL ELSE :now END,
    error = :error
WHERE id = :id AND tries = :tries AND state = 'pending'
RETURNING id;

-- name: next_notice
-- Say in how many milliseconds the next message is due.
SELECT max(next_at - :now, 0)
FROM holdfast_notices
WHERE state = 'pending' AND channel IN (SELECT value FROM json_each(:channels))
ORDER BY next_at
LIMIT 1;

-- name: notices_of
-- Read the messages about an escalation, in order.
SELECT id, escalation, policy, channel, event, created_at, state, tries, next_at, ended_at, error
FROM holdfast_notices
WHERE escalation = :escalation
ORDER BY id
LIMIT 1000;
