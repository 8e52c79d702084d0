-- name: operator_answers
-- Answer what operators ask: rows of a question, a name, a number and text. No more than :most jobs are looked at for
-- each question: of those that have finished, the newest. Of the jobs that were looked at, those of the :queues are
-- counted, or all.
WITH looked_active AS MATERIALIZED (
    SELECT id, kind, queue, worker, tags, COALESCE(started_at, claimed_at) AS since_ms
    FROM holdfast_jobs
    WHERE state = 'running'
    LIMIT :most
),

looked_waiting AS MATERIALIZED (
    SELECT kind, queue FROM holdfast_jobs WHERE state <> 'running' LIMIT :most
),

looked_finished AS MATERIALIZED (
    SELECT state, queue, tags, finished_at, delete_at
    FROM holdfast_history
    ORDER BY enqueued_at DESC, id DESC
    LIMIT :most
),

active AS (
    SELECT * FROM looked_active WHERE :queues IS NULL OR queue IN (SELECT value FROM json_each(:queues))
)

SELECT 'at' AS question, NULL AS name, :now AS number, NULL AS detail
UNION ALL
SELECT 'backlog', kind, count(*), NULL
FROM looked_waiting
WHERE :queues IS NULL OR queue IN (SELECT value FROM json_each(:queues))
GROUP BY kind
UNION ALL
SELECT 'active', NULL, count(*), NULL FROM active
UNION ALL
SELECT 'slow', NULL, count(*), NULL FROM active WHERE since_ms < :now - :slow_ms
UNION ALL
SELECT 'looked', 'backlog', count(*), NULL FROM looked_waiting
UNION ALL
SELECT 'looked', 'running', count(*), NULL FROM looked_active
UNION ALL
SELECT 'looked', 'completed', count(*), NULL FROM looked_finished
UNION ALL
SELECT 'counted', state, sum(jobs), NULL
FROM holdfast_rollups
WHERE minute > :now - 3600000 AND (:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues)))
GROUP BY state
UNION ALL
SELECT 'finished', state, count(*), json_extract(tags, '$."' || :org_tag || '"') AS org
FROM looked_finished
WHERE finished_at > :now - 3600000 AND delete_at > :now
    AND (:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues)))
GROUP BY state, org
UNION ALL
SELECT
    'job',
    NULL,
    NULL,
    json_object(
        'id', listed.id, 'kind', listed.kind, 'queue', listed.queue,
        'org', json_extract(listed.tags, '$."' || :org_tag || '"'),
        'project', json_extract(listed.tags, '$."' || :project_tag || '"'),
        'phase', progress.phase, 'percent', progress.percent, 'host', worker.host,
        'since_ms', listed.since_ms,
        'items', json((
            SELECT json_group_object(counted.set_name, json(counted.states))
            FROM (
                SELECT set_name, json_group_object(state, jobs) AS states
                FROM (
                    SELECT set_name, state, count(*) AS jobs
                    FROM holdfast_items
                    WHERE job_id = listed.id
                    GROUP BY set_name, state
                )
                GROUP BY set_name
            ) AS counted
        ))
    )
FROM (SELECT * FROM active ORDER BY since_ms, id LIMIT :limit) AS listed
LEFT JOIN holdfast_progress AS progress ON progress.job_id = listed.id
LEFT JOIN holdfast_workers AS worker ON worker.id = listed.worker;
