-- name: applied_functions
-- Read which text of each function was applied.
SELECT name, checksum, release FROM holdfast.schema_functions;

-- name: record_function
-- Remember which text of a function was applied.
INSERT INTO holdfast.schema_functions (name, checksum, release) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET checksum = excluded.checksum, release = excluded.release;

-- name: keep_partitions
-- Make the weeks of history that are missing.
SELECT holdfast.keep_partitions();

-- name: enqueue
-- Enqueue on a caller's connection; $1 is the JSON array that enqueue_v1 describes.
SELECT ordinal, id, existing, conflict FROM holdfast.enqueue_v1($1::text::jsonb, true) ORDER BY ordinal;

-- name: job_states
-- Look again at jobs that a verb did not change: after a wait only a later statement is fresh.
SELECT id, state FROM holdfast.all_jobs WHERE id = ANY ($1::bigint[]);
