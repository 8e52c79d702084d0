-- name: write_notices
-- Write messages that are to be sent.
INSERT INTO holdfast.notices (escalation, policy, channel, event, data, created_at, next_at)
SELECT t.escalation, t.policy, t.channel, t.event, t.data, holdfast.clock(), holdfast.clock()
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::jsonb[])
    WITH ORDINALITY AS t (escalation, policy, channel, event, data, ordinal)
ORDER BY t.ordinal;

-- name: claim_notices
-- Take messages whose time has come; whoever takes one has it until its lease ends. Of one escalation and channel they go
-- out in order: a pager that hears of the end first would be left with the beginning.
UPDATE holdfast.notices
SET tries = tries + 1, next_at = holdfast.clock() + $3 * interval '1 millisecond'
WHERE id = ANY (ARRAY(
    SELECT n.id
    FROM holdfast.notices AS n
    WHERE n.state = 'pending' AND n.next_at <= holdfast.clock() AND n.channel = ANY ($1::text[])
        AND NOT EXISTS (
            SELECT
            FROM holdfast.notices AS earlier
            WHERE earlier.state = 'pending' AND earlier.escalation = n.escalation AND earlier.channel = n.channel
                AND earlier.id < n.id
        )
    ORDER BY n.next_at
    LIMIT $2
    FOR UPDATE OF n SKIP LOCKED
))
RETURNING
    id, escalation, policy, channel, event, data,
    (extract(epoch FROM holdfast.clock() - created_at) * 1000)::bigint AS age_ms, tries;

-- name: end_notice
-- Record what became of one try, under the number of that try.
UPDATE holdfast.notices
SET
    state = $3,
    next_at = holdfast.clock() + $4 * interval '1 millisecond',
    ended_at = CASE $3 WHEN 'pending' THEN NULL ELSE holdfast.clock() END,
    error = $5
WHERE id = $1 AND tries = $2 AND state = 'pending'
RETURNING id;

-- name: next_notice
-- Say in how many milliseconds the next message is due.
SELECT GREATEST(ceil(extract(epoch FROM next_at - holdfast.clock()) * 1000), 0)::bigint
FROM holdfast.notices
WHERE state = 'pending' AND channel = ANY ($1::text[])
ORDER BY next_at
LIMIT 1;

-- name: notices_of
-- Read the messages about an escalation, in order.
SELECT id, escalation, policy, channel, event, created_at, state, tries, next_at, ended_at, error
FROM holdfast.notices
WHERE escalation = $1
ORDER BY id
LIMIT 1000;
