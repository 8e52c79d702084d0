-- name: operator_answers
-- Answer what operators ask, in one snapshot: rows of a question, a name, a number and text. $1 and $2 name the tags of
-- organisations and projects, $3 is how many milliseconds a slow job runs, $4 how many jobs that run are listed. No more
-- than $5 jobs are looked at for each question: of those that have finished, the newest. Of the jobs that were looked at,
-- those of the queues $6 are counted, or all.
WITH looked_active AS MATERIALIZED (
    SELECT
        j.id, j.kind, j.queue, j.worker, j.tags,
        (extract(EPOCH FROM COALESCE(j.started_at, j.claimed_at)) * 1000)::bigint AS since_ms
    FROM holdfast.jobs AS j
    WHERE j.state = 'running'
    LIMIT $5
),

looked_waiting AS MATERIALIZED (
    SELECT j.kind, j.queue FROM holdfast.jobs AS j WHERE j.state <> 'running' LIMIT $5
),

looked_finished AS MATERIALIZED (
    SELECT h.state, h.queue, h.tags, h.finished_at, h.delete_at
    FROM holdfast.history AS h
    ORDER BY h.enqueued_at DESC, h.id DESC
    LIMIT $5
),

active AS MATERIALIZED (SELECT * FROM looked_active WHERE $6::text[] IS NULL OR queue = ANY ($6)),

now AS MATERIALIZED (SELECT holdfast.clock() AS at, (extract(EPOCH FROM holdfast.clock()) * 1000)::bigint AS ms)

SELECT 'at' AS question, NULL AS name, now.ms AS number, NULL AS detail FROM now
UNION ALL
SELECT 'backlog', kind, count(*), NULL FROM looked_waiting WHERE $6::text[] IS NULL OR queue = ANY ($6) GROUP BY kind
UNION ALL
SELECT 'active', NULL, count(*), NULL FROM active
UNION ALL
SELECT 'slow', NULL, count(*), NULL FROM active INNER JOIN now ON active.since_ms < now.ms - $3::bigint
UNION ALL
SELECT 'looked', 'backlog', count(*), NULL FROM looked_waiting
UNION ALL
SELECT 'looked', 'running', count(*), NULL FROM looked_active
UNION ALL
SELECT 'looked', 'completed', count(*), NULL FROM looked_finished
UNION ALL
SELECT 'counted', r.state, sum(r.jobs)::bigint, NULL
FROM holdfast.rollups AS r
INNER JOIN now ON r.minute > now.at - interval '1 hour'
WHERE $6::text[] IS NULL OR r.queue = ANY ($6)
GROUP BY r.state
UNION ALL
SELECT 'finished', h.state, count(*), h.tags ->> $1::text
FROM looked_finished AS h
INNER JOIN now ON h.finished_at > now.at - interval '1 hour' AND h.delete_at > now.at
WHERE $6::text[] IS NULL OR h.queue = ANY ($6)
GROUP BY h.state, h.tags ->> $1::text
UNION ALL
SELECT
    'job', NULL, NULL,
    jsonb_build_object(
        'id', listed.id, 'kind', listed.kind, 'queue', listed.queue, 'org', listed.tags ->> $1::text,
        'project', listed.tags ->> $2::text, 'phase', p.phase, 'percent', p.percent,
        'host', w.host, 'since_ms', listed.since_ms,
        'items', CASE WHEN p.job_id IS NOT NULL THEN (
            SELECT jsonb_object_agg(counted.set_name, counted.states)
            FROM (
                SELECT by_state.set_name, jsonb_object_agg(by_state.state, by_state.jobs) AS states
                FROM (
                    SELECT i.set_name, i.state, count(*) AS jobs
                    FROM holdfast.items AS i
                    WHERE i.job_id = listed.id
                    GROUP BY i.set_name, i.state
                ) AS by_state
                GROUP BY by_state.set_name
            ) AS counted
        ) END
    )::text
FROM (SELECT * FROM active ORDER BY since_ms, id LIMIT $4) AS listed
LEFT JOIN holdfast.progress AS p ON p.job_id = listed.id
LEFT JOIN holdfast.workers AS w ON w.id = listed.worker;
