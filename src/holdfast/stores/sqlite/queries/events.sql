-- name: watch
-- Say that somebody watches, for the next milliseconds.
INSERT INTO holdfast_watchers (id, until) VALUES (:id, :now + :lasts_ms)
ON CONFLICT (id) DO UPDATE SET until = excluded.until;

-- name: unwatch
-- Say that somebody watches no more.
DELETE FROM holdfast_watchers WHERE id = :id;

-- name: first_event
-- Tell where the events of the future begin: the last number that was drawn.
SELECT COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'holdfast_events'), 0);

-- name: read_events
-- Read the events after a number.
SELECT seq, at, kind, job_id, task, queue, state, life, claim, attempt, data
FROM holdfast_events
WHERE seq > :after
ORDER BY seq
LIMIT :limit;

-- name: prune_events
-- Forget events that nobody can want any more, and watchers that are gone.
DELETE FROM holdfast_watchers WHERE until < :now - 60000;
DELETE FROM holdfast_events
WHERE seq IN (SELECT seq FROM holdfast_events WHERE at < :now - 600000 ORDER BY seq LIMIT :limit);
