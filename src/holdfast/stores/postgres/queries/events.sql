-- name: watch
-- Say that somebody watches, for the next milliseconds.
INSERT INTO holdfast.watchers (id, until) VALUES ($1, holdfast.clock() + $2 * interval '1 millisecond')
ON CONFLICT (id) DO UPDATE SET until = excluded.until;

-- name: unwatch
-- Say that somebody watches no more.
DELETE FROM holdfast.watchers WHERE id = $1;

-- name: first_event
-- Tell where the events of the future begin: the last number that was drawn, and which of those before it are not here.
-- The function asks for no more than the right to draw one, which is all that those who work with the store have.
SELECT
    drawn.last,
    ARRAY(
        SELECT number
        FROM generate_series(GREATEST(drawn.last - 999, 1), drawn.last) AS number
        WHERE NOT EXISTS (SELECT FROM holdfast.events AS e WHERE e.seq = number)
    ) AS missing
FROM (SELECT COALESCE(pg_sequence_last_value('holdfast.events_seq_seq'::regclass), 0) AS last) AS drawn;

-- name: read_events
-- Read the events after a number, and of those before it the ones that were missing.
SELECT seq, at, kind, job_id, task, queue, state, life, claim, attempt, data
FROM holdfast.events
WHERE seq > $1 OR seq = ANY ($2::bigint[])
ORDER BY seq
LIMIT $3;

-- name: prune_events
-- Forget events that nobody can want any more, and watchers that are gone.
WITH ended AS (
    DELETE FROM holdfast.watchers WHERE until < holdfast.clock() - interval '1 minute'
)

DELETE FROM holdfast.events
WHERE seq = ANY (ARRAY(
    SELECT seq FROM holdfast.events WHERE at < holdfast.clock() - interval '10 minutes' ORDER BY seq LIMIT $1
))
RETURNING seq;
