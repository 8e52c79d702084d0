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

-- name: insert_one_job
-- Store one job that may run now and has no key: the most frequent insert, without a function around it.
WITH stored AS (
    INSERT INTO holdfast.jobs (
        id, kind, queue, priority, state, position, payload, tags, actor, run_at, enqueued_at, max_attempts,
        max_crashes, timeout_ms, extra
    )
    VALUES (
        $1, $2, $3, $4, 'queued', nextval('holdfast.position_seq'::regclass), $5, $6, $7, holdfast.clock(),
        holdfast.clock(), $8, $9, $10, $11
    )
    RETURNING id, kind, queue, enqueued_at
)

INSERT INTO holdfast.events (at, kind, job_id, task, queue, state, life, claim, attempt)
SELECT enqueued_at, 'job:enqueued', id, kind, queue, 'queued', 1, 0, 0 FROM stored WHERE holdfast.is_watched();

-- name: announce
-- Hint that jobs of the named queues may run; a name means the same to whoever listens as in enqueue_v1. A hint may be
-- lost, so its commit waits for no disk.
SELECT
    set_config('synchronous_commit', 'off', true),
    pg_notify('holdfast:' || 'holdfast.jobs'::regclass::oid, named.queue)
FROM unnest($1::text[]) AS named (queue);

-- name: wake_channel
-- Name the channel of this schema's hints.
SELECT 'holdfast:' || 'holdfast.jobs'::regclass::oid;

-- name: finish_in_transaction
-- End one claim on a connection that a handler has used: plain types only, whatever codecs it has set for others.
SELECT (holdfast.finish_jobs(
    ARRAY[$1::bigint], ARRAY[$2::integer], ARRAY[$3::text], ARRAY[$4::text], ARRAY[$5::bigint], ARRAY[$6::text::jsonb],
    ARRAY[$7::text], ARRAY[$8::text], ARRAY[$9::text], ARRAY[$10::text], ARRAY[$11::bigint], '{}'
))[1];

-- name: job_states
-- Look again at jobs that a verb did not change: after a wait only a later statement is fresh.
SELECT id, state FROM holdfast.all_jobs WHERE id = ANY ($1::bigint[]);

-- name: writing_transactions
-- Name the transactions that have changed jobs, or are about to, and have not ended. Whoever comes later takes its lock
-- after this look, and asks who watches after that.
SELECT DISTINCT held.virtualtransaction
FROM pg_locks AS held
WHERE held.locktype = 'relation'
    AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND held.relation IN (
        'holdfast.jobs'::regclass, 'holdfast.history'::regclass, 'holdfast.progress'::regclass,
        'holdfast.deliveries'::regclass, 'holdfast.retention_due'::regclass
    )
    AND held.mode = 'RowExclusiveLock'
    AND held.pid <> pg_backend_pid();

-- name: report_in_transaction
-- Keep one report on a connection that a handler has used: plain types only, whatever codecs it has set for others.
SELECT (holdfast.save_progress(
    ARRAY[$1::bigint], ARRAY[$2::integer], ARRAY[$3::double precision], ARRAY[$4::text], ARRAY[$5::text::jsonb],
    ARRAY[$6::text], ARRAY[$7::double precision], ARRAY[$8::text::jsonb]
))[1];
