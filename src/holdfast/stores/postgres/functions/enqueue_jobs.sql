-- Enqueue jobs inside the caller's own transaction, for an app and for enqueue_v1(), which describes the fields.
--
-- One more column than there: `limited` says which rate limit refused a job. Nothing of such a call is stored. And one
-- more field: `parent`, the job whose handler an app enqueues in; whoever is not trusted cannot give it.
DROP FUNCTION IF EXISTS holdfast.enqueue_jobs;
CREATE FUNCTION holdfast.enqueue_jobs(jobs jsonb, trusted boolean DEFAULT false)
RETURNS TABLE (ordinal integer, id bigint, existing boolean, conflict boolean, limited text)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_count integer;
    v_ids bigint[];
    v_fields text[] := ARRAY[
        'kind', 'args', 'queue', 'priority', 'run_at', 'delay_ms', 'unique', 'unique_for_ms', 'key',
        'max_attempts', 'max_crashes', 'timeout_ms', 'tags', 'actor', 'extra'
    ];
BEGIN
    IF jobs IS NULL OR jsonb_typeof(jobs) <> 'array' THEN
        RAISE EXCEPTION 'enqueue_v1: expected a JSON array of jobs, got %', COALESCE(jsonb_typeof(jobs), 'null')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    v_count := jsonb_array_length(jobs);
    IF v_count = 0 THEN
        RETURN;
    END IF;
    IF NOT trusted THEN
        PERFORM holdfast.check_enqueued(job.value, job.ordinality, v_fields)
        FROM jsonb_array_elements(jobs) WITH ORDINALITY AS job;
    END IF;
    v_ids := ARRAY(SELECT taken FROM holdfast.take_ids(v_count) AS taken);

    RETURN QUERY
    WITH asked AS MATERIALIZED (
        SELECT
            e.ordinal, lower(j.kind) AS kind, lower(COALESCE(j.queue, k.queue, 'default')) AS queue,
            COALESCE(j.priority, (k.definition ->> 'priority')::smallint, 5::smallint) AS priority,
            COALESCE(j.args, j.payload, '{}') AS payload, j.run_at, j.delay_ms, j.unique, j.unique_for_ms, j.key,
            COALESCE(j.max_attempts, (k.definition ->> 'max_attempts')::integer, 5) AS max_attempts,
            COALESCE(j.max_crashes, (k.definition ->> 'max_crashes')::integer, 3) AS max_crashes,
            -- Written out as null it means: no timeout.
            CASE
                WHEN e.job ? 'timeout_ms' THEN j.timeout_ms
                WHEN k.definition ? 'timeout_ms' THEN (k.definition ->> 'timeout_ms')::bigint
                ELSE 3600000
            END AS timeout_ms,
            (SELECT jsonb_object_agg(lower(tag.key), tag.value) FROM jsonb_each(j.tags) AS tag) AS tags, j.actor,
            j.extra, j.parent
        FROM jsonb_array_elements(jobs) WITH ORDINALITY AS e (job, ordinal)
        CROSS JOIN LATERAL jsonb_to_record(e.job) AS j (
            kind text, queue text, priority smallint, args jsonb, payload jsonb, run_at timestamptz,
            delay_ms bigint, "unique" text, unique_for_ms bigint, key text, max_attempts integer, max_crashes integer,
            timeout_ms bigint, tags jsonb, actor text, extra jsonb, parent bigint
        )
        LEFT JOIN holdfast.kinds AS k ON k.name = lower(j.kind)
    ),

    stored AS MATERIALIZED (
        SELECT i.*
        FROM (
            SELECT
                array_agg(kind ORDER BY ordinal) AS kinds, array_agg(queue ORDER BY ordinal) AS queues,
                array_agg(priority ORDER BY ordinal) AS priorities, array_agg(payload ORDER BY ordinal) AS payloads,
                array_agg(run_at ORDER BY ordinal) AS run_ats, array_agg(delay_ms ORDER BY ordinal) AS delays,
                array_agg("unique" ORDER BY ordinal) AS uniques,
                array_agg(unique_for_ms ORDER BY ordinal) AS unique_fors, array_agg(key ORDER BY ordinal) AS keys,
                array_agg(max_attempts ORDER BY ordinal) AS attempts,
                array_agg(max_crashes ORDER BY ordinal) AS crashes,
                array_agg(timeout_ms ORDER BY ordinal) AS timeouts, array_agg(tags ORDER BY ordinal) AS tags,
                array_agg(actor ORDER BY ordinal) AS actors, array_agg(extra ORDER BY ordinal) AS extras,
                array_agg(parent ORDER BY ordinal) AS parents
            FROM asked
        ) AS a
        CROSS JOIN LATERAL holdfast.insert_jobs(
            v_ids, a.kinds, a.queues, a.priorities, a.payloads, a.run_ats, a.delays, a.uniques, a.unique_fors, a.keys,
            a.attempts, a.crashes, a.timeouts, a.tags, a.actors, false, a.extras, 'whole', a.parents
        ) AS i
    )

    SELECT
        asked.ordinal::integer,
        CASE WHEN stored.ordinal IS NULL THEN v_ids[asked.ordinal] ELSE stored.id END,
        COALESCE(stored.outcome <> 'created', false),
        COALESCE(stored.outcome = 'conflict', false),
        stored.detail::text
    FROM asked
    LEFT JOIN stored ON stored.ordinal = asked.ordinal
    ORDER BY asked.ordinal;

    -- The hint leaves with the caller's commit, and names the queue only, so that many collapse into one.
    PERFORM pg_notify('holdfast:' || 'holdfast.jobs'::regclass::oid, named.queue)
    FROM (
        SELECT DISTINCT lower(COALESCE(e.job ->> 'queue', k.queue, 'default')) AS queue
        FROM jsonb_array_elements(jobs) AS e (job)
        LEFT JOIN holdfast.kinds AS k ON k.name = lower(e.job ->> 'kind')
    ) AS named;
END
$$;
