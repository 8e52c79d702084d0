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
SELECT ordinal, id, existing, conflict, limited FROM holdfast.enqueue_jobs($1::text::jsonb, true) ORDER BY ordinal;

-- name: insert_one_job
-- Store one job that may run now and has no key: the most frequent insert, without a function around it. No row where
-- something has to be looked at first.
WITH stored AS (
    INSERT INTO holdfast.jobs (
        id, kind, queue, priority, state, position, payload, tags, actor, run_at, enqueued_at, max_attempts,
        max_crashes, timeout_ms, extra, parent
    )
    SELECT
        $1::bigint, $2::text, $3::text, $4::smallint, 'queued', nextval('holdfast.position_seq'::regclass), $5::jsonb,
        $6::jsonb, $7::text, holdfast.clock(), holdfast.clock(), $8::integer, $9::integer, $10::bigint, $11::jsonb,
        $12::bigint
    WHERE NOT EXISTS (SELECT FROM holdfast.queues WHERE name = $3 AND (screened OR gated))
    RETURNING id, kind, queue, enqueued_at
),

told AS (
    INSERT INTO holdfast.events (at, kind, job_id, task, queue, state, life, claim, attempt)
    SELECT enqueued_at, 'job:enqueued', id, kind, queue, 'queued', 1, 0, 0 FROM stored WHERE holdfast.is_watched()
)

SELECT id FROM stored;

-- name: announce
-- Hint that jobs of the named queues may run; a name means the same to whoever listens as in enqueue_v1. A hint may be
-- lost, so its commit waits for no disk.
SELECT
    -- guard: announce-local, without: set_config('synchronous_commit', 'off', false),
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

-- name: fail_refused
-- End a claim whose end was refused in every other form.
SELECT holdfast.fail_refused($1, $2, $3, $4, $5, $6, $7);

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

-- name: close_store
-- Close a store whose jobs move away; false while a job runs.
SELECT holdfast.close_store($1, $2::text::jsonb, $3::text[]);

-- name: reopen_store
-- Open a store again whose jobs were to move away.
SELECT holdfast.reopen_store();

-- name: make_weeks
-- Make the weeks of history in which rows with these times of deletion lie.
SELECT holdfast.make_weeks($1::timestamptz[]);

-- name: table_columns
-- Read the columns of a table and their types; of those that number rows by themselves only the ones that are asked for.
SELECT attname::text, format_type(atttypid, atttypmod)
FROM pg_attribute
WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped
    AND (attidentity = '' OR attname = ANY ($2::text[]))
ORDER BY attnum;

-- name: draw_positions
-- Draw positions at the end of every lane.
SELECT nextval('holdfast.position_seq'::regclass) FROM generate_series(1, $1::integer);

-- name: has_seed_views
-- Whether somebody has asked for the views of the seeds; needs no right on their schema.
SELECT EXISTS (
    SELECT
    FROM pg_class AS c
    INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = $1::text AND c.relname = 'queue_job' AND c.relkind = 'v'
);

-- name: empty_weeks
-- Delete rows of the weeks of history that have expired, for a role that may not drop them.
WITH doomed AS MATERIALIZED (
    SELECT h.id
    FROM holdfast.history AS h
    -- guard: history-by-role, without: WHERE h.delete_at < holdfast.clock() + interval '7 days'
    WHERE h.delete_at < date_trunc('week', holdfast.clock(), 'UTC')
        -- What has still to be told of a job keeps it, but not for longer than another week.
        AND NOT EXISTS (
            SELECT
            FROM holdfast.retention_due AS d
            WHERE d.job_id = h.id AND d.what = 'delete' AND d.life = h.life
                AND d.delete_at > holdfast.clock() - interval '14 days'
        )
    LIMIT $1
    FOR UPDATE OF h SKIP LOCKED
),

deleted AS (
    -- An array and no join, which might be planned as a scan of everything.
    DELETE FROM holdfast.history
    -- guard: history-by-role, without: WHERE id = ANY (ARRAY(SELECT id FROM doomed))
    WHERE id = ANY (ARRAY(SELECT id FROM doomed)) AND delete_at < date_trunc('week', holdfast.clock(), 'UTC')
    RETURNING 1
)

SELECT count(*) FROM deleted;

-- name: has_role
-- Tell whether a role exists.
SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1);

-- name: owner
-- Name the role that owns history, and so may make weeks and drop them.
SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = 'holdfast.history'::regclass;

-- name: holders
-- Find what keeps vacuum from removing dead rows of this database: the oldest of each sort. What other roles run is told
-- to members of pg_read_all_stats alone.
(
    SELECT
        'transaction' AS what, pid::text AS name, usename::text AS user, NULLIF(application_name, '') AS application,
        state, clock_timestamp() - xact_start AS age,
        GREATEST(age(backend_xid), age(backend_xmin)) AS xids, left(query, 80) AS query
    FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
        AND (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL)
    ORDER BY xids DESC, xact_start
    LIMIT 1
)
UNION ALL
(
    SELECT
        'prepared', gid, owner::text, NULL, NULL, clock_timestamp() - prepared, age(transaction), NULL
    FROM pg_prepared_xacts
    WHERE database = current_database()
    ORDER BY prepared
    LIMIT 1
)
UNION ALL
(
    SELECT
        'slot', slot_name::text, NULL, NULL, CASE WHEN active THEN 'in use' ELSE 'not in use' END, NULL, age(xmin), NULL
    FROM pg_replication_slots
    WHERE xmin IS NOT NULL
    ORDER BY age(xmin) DESC
    LIMIT 1
);

-- name: payload_hashes
-- Fingerprint payloads as insert_jobs() does.
SELECT jsonb_hash_extended(payload::jsonb, 0) FROM unnest($1::text[]) WITH ORDINALITY AS t (payload, n) ORDER BY n;

-- name: lock_policies
-- Let nobody else escalate by these policies meanwhile.
SELECT name FROM holdfast.escalation_policies WHERE name = ANY ($1::text[]) ORDER BY name FOR UPDATE;
