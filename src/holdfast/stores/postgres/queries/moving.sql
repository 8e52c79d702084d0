-- name: read_move
-- Read the mark of a store whose jobs move away.
SELECT value FROM holdfast.meta WHERE key = 'move';

-- name: read_note
-- Read a note about the store, which is about to be written.
SELECT value FROM holdfast.meta WHERE key = $1 FOR UPDATE;

-- name: keep_note
-- Keep a note about the store.
INSERT INTO holdfast.meta (key, value) VALUES ($1, $2)
ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: take_note
-- Put another run's name on a note that is there, or keep a new one; answers what is kept now.
INSERT INTO holdfast.meta AS m (key, value) VALUES ($1, $2)
ON CONFLICT (key) DO UPDATE SET value = jsonb_set(m.value::jsonb, '{run}', excluded.value::jsonb -> 'run')::text
RETURNING value;

-- name: forget_note
-- Forget a note about the store.
DELETE FROM holdfast.meta WHERE key = $1;

-- name: move_progress
-- Read how far the moves to this store have come.
SELECT value FROM holdfast.meta WHERE key LIKE 'move:%' ORDER BY key;

-- name: read_tags
-- Read what the ids of this store begin with: its own tag first, then those of the jobs that it holds.
WITH RECURSIVE live (tag) AS (
    SELECT min(id) >> 48 FROM holdfast.jobs
    UNION ALL
    SELECT (SELECT min(id) >> 48 FROM holdfast.jobs WHERE id >= (live.tag + 1) << 48)
    FROM live
    WHERE live.tag IS NOT NULL
),

finished (tag) AS (
    SELECT min(id) >> 48 FROM holdfast.history
    UNION ALL
    SELECT (SELECT min(id) >> 48 FROM holdfast.history WHERE id >= (finished.tag + 1) << 48)
    FROM finished
    WHERE finished.tag IS NOT NULL
)

SELECT value::bigint AS tag, true AS own FROM holdfast.meta WHERE key = 'store_tag'
UNION
SELECT tag, false FROM live WHERE tag IS NOT NULL
UNION
SELECT tag, false FROM finished WHERE tag IS NOT NULL;

-- name: last_numbers
-- Read the largest number of a row of each table whose rows people know by a number.
SELECT 'escalations', COALESCE(max(id), 0) FROM holdfast.escalations
UNION ALL
SELECT 'notices', COALESCE(max(id), 0) FROM holdfast.notices
UNION ALL
SELECT 'bulk_runs', COALESCE(max(id), 0) FROM holdfast.bulk_runs
UNION ALL
SELECT 'passes', COALESCE(max(id), 0) FROM holdfast.passes
UNION ALL
SELECT 'audit', COALESCE(max(id), 0) FROM holdfast.audit;

-- name: change_tag
-- Give the store another tag for the ids to come.
UPDATE holdfast.meta SET value = $1 WHERE key = 'store_tag';

-- name: staged_jobs
-- Find copies of live jobs that a move has left.
SELECT id FROM holdfast.jobs WHERE state = 'blocked' AND claim_batch = $1 LIMIT $2;

-- name: staged_history
-- Find copies of finished jobs that a move has left.
SELECT id FROM holdfast.history WHERE claim_batch = $1 AND id > $2 ORDER BY id LIMIT $3;

-- name: release_jobs
-- Let copies of jobs be worked: each gets its state, and a position if it may run now.
UPDATE holdfast.jobs AS j
SET state = r.state, claim_batch = r.batch, position = r.position
FROM unnest($2::bigint[], $3::text[], $4::bigint[], $5::bigint[]) AS r (id, state, batch, position)
WHERE j.id = r.id AND j.state = 'blocked' AND j.claim_batch = $1;
