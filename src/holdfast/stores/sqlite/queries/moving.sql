-- name: read_move
-- Read the mark of a store whose jobs move away.
SELECT value FROM holdfast_meta WHERE key = 'move';

-- name: read_note
-- Read a note about the store, which is about to be written.
SELECT value FROM holdfast_meta WHERE key = :key;

-- name: keep_note
-- Keep a note about the store.
INSERT INTO holdfast_meta (key, value) VALUES (:key, :value)
ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: take_note
-- Put another run's name on a note that is there, or keep a new one; answers what is kept now.
INSERT INTO holdfast_meta (key, value) VALUES (:key, :value)
ON CONFLICT (key) DO UPDATE
SET value = json_set(holdfast_meta.value, '$.run', json_extract(excluded.value, '$.run'))
RETURNING value;

-- name: forget_note
-- Forget a note about the store.
DELETE FROM holdfast_meta WHERE key = :key;

-- name: move_progress
-- Read how far the moves to this store have come.
SELECT value FROM holdfast_meta WHERE key LIKE 'move:%' ORDER BY key;

-- name: read_tags
-- Read what the ids of this store begin with: its own tag first, then those of the jobs that it holds.
WITH RECURSIVE live (tag) AS (
    SELECT min(id) >> 48 FROM holdfast_jobs
    UNION ALL
    SELECT (SELECT min(id) >> 48 FROM holdfast_jobs WHERE id >= (live.tag + 1) << 48)
    FROM live
    WHERE live.tag IS NOT NULL
),

finished (tag) AS (
    SELECT min(id) >> 48 FROM holdfast_history
    UNION ALL
    SELECT (SELECT min(id) >> 48 FROM holdfast_history WHERE id >= (finished.tag + 1) << 48)
    FROM finished
    WHERE finished.tag IS NOT NULL
)

SELECT CAST(value AS INTEGER) AS tag, 1 AS own FROM holdfast_meta WHERE key = 'store_tag'
UNION
SELECT tag, 0 FROM live WHERE tag IS NOT NULL
UNION
SELECT tag, 0 FROM finished WHERE tag IS NOT NULL;

-- name: last_numbers
-- Read the largest number of a row of each table whose rows people know by a number.
SELECT 'escalations', COALESCE(max(id), 0) FROM holdfast_escalations
UNION ALL
SELECT 'notices', COALESCE(max(id), 0) FROM holdfast_notices
UNION ALL
SELECT 'bulk_runs', COALESCE(max(id), 0) FROM holdfast_bulk_runs
UNION ALL
SELECT 'passes', COALESCE(max(id), 0) FROM holdfast_passes
UNION ALL
SELECT 'audit', COALESCE(max(id), 0) FROM holdfast_audit;

-- name: change_tag
-- Give the store another tag for the ids to come.
UPDATE holdfast_meta SET value = :tag WHERE key = 'store_tag';

-- name: staged_jobs
-- Find copies of live jobs that a move has left.
SELECT id FROM holdfast_jobs WHERE state = 'blocked' AND claim_batch = :batch LIMIT :limit;

-- name: staged_history
-- Find copies of finished jobs that a move has left.
SELECT id FROM holdfast_history WHERE claim_batch = :batch AND id > :after ORDER BY id LIMIT :limit;

-- name: release_jobs
-- Let a copy of a job be worked: it gets its state, and a position if it may run now.
UPDATE holdfast_jobs
SET state = :state, claim_batch = :claim_batch, position = :position
WHERE id = :id AND state = 'blocked' AND claim_batch = :batch;
