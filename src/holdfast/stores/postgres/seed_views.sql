-- Jobs under other names: read-only views for those who come from a `queue_job`, a `tasks` or a `delayed_jobs` table and
-- have queries for it. Each is one snapshot: a job that ends while somebody looks is seen exactly once.
--
-- They lean on tables and on functions that are replaced in place, never on views that a later release drops first. They
-- are replaced in place themselves, so that rights granted on them stay.
CREATE SCHEMA IF NOT EXISTS holdfast_seed;

-- The id as people see it: twelve digits of Crockford's base32 and a checksum, as holdfast.public_id.encode() has it.
CREATE OR REPLACE FUNCTION holdfast_seed.public_id(p_id bigint) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS $$
SELECT
    string_agg(
        substr('0123456789abcdefghjkmnpqrstvwxyz', (p_id >> shift & 31)::integer + 1, 1)
        || CASE WHEN shift IN (40, 20, 0) THEN '-' ELSE '' END,
        '' ORDER BY shift DESC
    )
    || lpad((98 - p_id % 97 * 100 % 97)::text, 2, '0')
FROM generate_series(0, 55, 5) AS shift
$$;

-- Seed 000. Ids of organisation, project and build are tags.
CREATE OR REPLACE VIEW holdfast_seed.queue_job AS
SELECT
    j.id,
    j.id AS public_id,
    -- A delivery is named after the job and the claim that it had before it was taken.
    CASE WHEN j.announced_at IS NOT NULL THEN holdfast_seed.public_id(j.id) || '-' || j.delivered_claim END
        AS backend_job_id,
    j.kind,
    CASE
        WHEN j.state = 'running' THEN 'in_progress'
        WHEN j.finished_at IS NULL THEN 'queued'
        ELSE j.state
    END AS status,
    j.progress ->> 'phase' AS phase,
    j.tags ->> 'org_id' AS org_id,
    j.tags ->> 'project_id' AS project_id,
    j.tags ->> 'build_id' AS build_id,
    CASE
        WHEN j.progress IS NOT NULL THEN
            jsonb_strip_nulls(jsonb_build_object(
                'message', j.progress -> 'message', 'percent', j.progress -> 'percent',
                'phase_percent', j.progress -> 'phase_percent'
            ))
            || CASE jsonb_typeof(j.progress -> 'data') WHEN 'object' THEN j.progress -> 'data' ELSE '{}' END
            || COALESCE((
                SELECT jsonb_object_agg(field.key, field.value)
                FROM jsonb_each(j.items) AS item_set
                CROSS JOIN LATERAL jsonb_each(item_set.value) AS field
                WHERE field.key NOT IN ('word', 'phase')
            ), '{}')
    END AS progress,
    NULLIF(
        COALESCE((
            SELECT jsonb_agg(
                jsonb_build_object(
                    'attempt', ended.value -> 'attempt', 'error_class', ended.value -> 'error_class',
                    'error', ended.value -> 'error', 'date', ended.value -> 'ended_at'
                )
                ORDER BY ended.ordinality
            )
            FROM jsonb_array_elements(j.attempts) WITH ORDINALITY AS ended
            WHERE ended.value ->> 'error_class' IS NOT NULL
        ), '[]')
        -- The last attempt of a finished job stands in its own row.
        || CASE j.state
            WHEN 'failed' THEN jsonb_build_array(jsonb_build_object(
                'attempt', j.attempt, 'error_class', j.error_class, 'error', j.error, 'date', j.finished_at
            ))
            ELSE '[]'
        END
        || COALESCE((
            SELECT jsonb_agg(jsonb_build_object('items', item_set.key) || failed.value)
            FROM jsonb_each(j.items) AS item_set
            CROSS JOIN LATERAL jsonb_array_elements(item_set.value -> (item_set.key || '_failed')) AS failed
        ), '[]'),
        '[]'
    ) AS errors,
    j.enqueued_at AS date_created,
    COALESCE(j.started_at, j.claimed_at) AS date_started,
    j.finished_at AS date_completed
FROM (
    SELECT
        live.id, live.kind, live.state, live.tags, live.attempt, live.error_class, live.error, live.announced_at,
        live.enqueued_at, live.claimed_at, live.started_at,
        live.claim - CASE live.state WHEN 'running' THEN 1 ELSE 0 END AS delivered_claim,
        NULL::timestamptz AS finished_at,
        CASE WHEN p.job_id IS NOT NULL THEN holdfast.folded_progress(p) END AS progress,
        (
            SELECT jsonb_agg(to_jsonb(a) - 'job_id' ORDER BY a.claim)
            FROM holdfast.attempts AS a
            WHERE a.job_id = live.id
        ) AS attempts,
        -- Whoever has items has a report too.
        CASE WHEN p.job_id IS NOT NULL THEN holdfast.folded_items(live.id) END AS items
    FROM holdfast.jobs AS live
    LEFT JOIN holdfast.progress AS p ON p.job_id = live.id
    UNION ALL
    SELECT
        h.id, h.kind, h.state, h.tags, h.attempt, h.error_class, h.error, h.announced_at, h.enqueued_at, h.claimed_at,
        h.started_at,
        -- Who is ended by others has a claim more; who was cancelled before anyone had taken it, only if it had one.
        h.claim - CASE
            WHEN h.claimed_at IS NULL THEN LEAST(h.claim, 1)
            WHEN h.extra ->> 'ended_by' IN ('crash', 'force') THEN 2
            ELSE 1
        END,
        h.finished_at, h.progress, h.attempts, h.items
    FROM holdfast.history AS h
    WHERE h.delete_at > holdfast.clock()
) AS j;

-- Seed 002. A job that waits for its time or for others is SCHEDULED; what may run is PENDING until its delivery knows
-- of it, and QUEUED then.
CREATE OR REPLACE VIEW holdfast_seed.tasks AS
SELECT
    j.id,
    j.kind AS title,
    j.payload,
    CASE WHEN j.priority < 5 THEN 'high' ELSE 'low' END AS priority,
    j.actor AS owner_id,
    CASE
        WHEN j.state IN ('blocked', 'scheduled') THEN 'SCHEDULED'
        WHEN j.state = 'queued' AND j.announced_at IS NOT NULL THEN 'QUEUED'
        WHEN j.state IN ('queued', 'held') THEN 'PENDING'
        WHEN j.state = 'running' THEN 'IN_PROGRESS'
        WHEN j.state IN ('failed', 'cancelled') THEN 'FAILED'
        ELSE 'COMPLETED'
    END AS status,
    j.enqueued_at AS created_at,
    j.worker AS worker_id,
    -- The first attempt is no retry. What waits again has its next one before it.
    GREATEST(j.attempt + j.crashes - CASE WHEN j.is_waiting THEN 0 ELSE 1 END, 0) AS retry_count,
    j.run_at AS scheduled_at,
    GREATEST(
        j.enqueued_at, j.announced_at, j.claimed_at, j.started_at, j.reported_at, j.ended_at, j.finished_at
    ) AS updated_at
FROM (
    SELECT
        live.id, live.kind, live.payload, live.priority, live.actor, live.state, live.enqueued_at, live.announced_at,
        live.worker, live.attempt, live.crashes, live.run_at, live.claimed_at, live.started_at,
        live.state <> 'running' AS is_waiting,
        NULL::timestamptz AS finished_at,
        (SELECT p.updated_at FROM holdfast.progress AS p WHERE p.job_id = live.id) AS reported_at,
        (SELECT max(a.ended_at) FROM holdfast.attempts AS a WHERE a.job_id = live.id) AS ended_at
    FROM holdfast.jobs AS live
    UNION ALL
    SELECT
        h.id, h.kind, h.payload, h.priority, h.actor, h.state, h.enqueued_at, h.announced_at, h.worker, h.attempt,
        h.crashes, h.run_at, h.claimed_at, h.started_at, false, h.finished_at, NULL, NULL
    FROM holdfast.history AS h
    WHERE h.delete_at > holdfast.clock()
) AS j;

-- Seed 004: what is live, in its upper-case words ...
CREATE OR REPLACE VIEW holdfast_seed.delayed_jobs AS
SELECT
    j.id,
    upper(j.queue) AS queue,
    upper(j.kind) AS job_type,
    j.priority::integer AS priority,
    j.payload,
    j.run_at AS scheduled_at,
    j.claimed_at AS locked_at,
    w.host AS locked_by,
    j.attempt AS attempts,
    j.max_attempts,
    j.error AS last_error,
    j.enqueued_at AS created_at,
    CASE j.state WHEN 'running' THEN 'PROCESSING' ELSE 'PENDING' END AS status
FROM holdfast.jobs AS j
LEFT JOIN holdfast.workers AS w ON w.id = j.worker;

-- ... and its dead letters.
CREATE OR REPLACE VIEW holdfast_seed.delayed_jobs_dlq AS
SELECT
    h.id,
    upper(h.queue) AS queue,
    upper(h.kind) AS job_type,
    h.priority::integer AS priority,
    h.payload,
    h.run_at AS scheduled_at,
    NULL::timestamptz AS locked_at,
    w.host AS locked_by,
    h.attempt AS attempts,
    h.max_attempts,
    h.error AS last_error,
    h.enqueued_at AS created_at,
    'FAILED' AS status,
    h.finished_at AS failed_at
FROM holdfast.history AS h
LEFT JOIN holdfast.workers AS w ON w.id = h.worker
WHERE h.state = 'failed' AND h.delete_at > holdfast.clock();
