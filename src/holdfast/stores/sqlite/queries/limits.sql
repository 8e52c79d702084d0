-- name: define_limits
-- Let one limit hold; an unchanged one costs no write.
INSERT INTO holdfast_limits (
    name, definition, queue, kinds, path, concurrency, scope, throttle_us, burst, rate_us, rate_burst, rotate, fifo,
    metric, changed_at
)
VALUES (
    :name, :definition, :queue, :kinds, :path, :concurrency, :scope, :throttle_us, :burst, :rate_us, :rate_burst,
    :rotate, :fifo, :metric, :now
)
ON CONFLICT (name) DO UPDATE
SET
    definition = excluded.definition,
    queue = excluded.queue,
    kinds = excluded.kinds,
    path = excluded.path,
    concurrency = excluded.concurrency,
    scope = excluded.scope,
    throttle_us = excluded.throttle_us,
    burst = excluded.burst,
    rate_us = excluded.rate_us,
    rate_burst = excluded.rate_burst,
    rotate = excluded.rotate,
    fifo = excluded.fifo,
    metric = excluded.metric,
    changed_at = excluded.changed_at
WHERE (
    definition, queue, kinds, path, concurrency, scope, throttle_us, burst, rate_us, rate_burst, rotate, fifo, metric
) IS NOT (
    excluded.definition, excluded.queue, excluded.kinds, excluded.path, excluded.concurrency, excluded.scope,
    excluded.throttle_us, excluded.burst, excluded.rate_us, excluded.rate_burst, excluded.rotate, excluded.fifo,
    excluded.metric
);

-- name: list_limits
-- Read the limits in force.
SELECT
    name, definition, queue, kinds, path, concurrency, scope, throttle_us, burst, rate_us, rate_burst, rotate, fifo,
    metric
FROM holdfast_limits
ORDER BY name;

-- name: limit_usage
-- Read how much of a limit is in use, in all or under one key; of every limit if none is named.
WITH living AS MATERIALIZED (
    SELECT worker.id, worker.instance, worker.queues
    FROM holdfast_workers AS worker
    WHERE worker.dead_at IS NULL AND worker.lease_until > :now
)

SELECT
    lim.name,
    CASE WHEN lim.fifo THEN 1 ELSE lim.concurrency END,
    lim.scope,
    json_array_length(lim.path) > 0,
    (
        SELECT count(*)
        FROM holdfast_slots AS slot
        WHERE slot.limit_name = lim.name AND (:key IS NULL OR slot.key = :key) AND slot.job_id IS NOT NULL
    ),
    (SELECT count(DISTINCT slot.key) FROM holdfast_slots AS slot WHERE slot.limit_name = lim.name),
    (
        SELECT count(*)
        FROM (
            SELECT 1
            FROM holdfast_jobs AS job
            WHERE job.state = 'held' AND job.position IS NOT NULL
                -- All that begins with the name and a slash, after which comes 0.
                AND job.limit_key >= lim.name || '/' AND job.limit_key < lim.name || '0'
                AND (:key IS NULL OR job.limit_key = lim.name || '/' || :key)
            LIMIT 10001
        )
    ),
    (
        SELECT (max(place.throttled_until) - (lim.burst - 1) * lim.throttle_us) / 1000
        FROM holdfast_limit_keys AS place
        WHERE place.limit_name = lim.name AND place.key = COALESCE(:key, '')
    ),
    (
        SELECT count(DISTINCT living.instance)
        FROM living
        WHERE living.queues = '[]' OR lim.queue IN (SELECT value FROM json_each(living.queues))
    ),
    (
        SELECT count(*)
        FROM (SELECT job.queue, job.worker FROM holdfast_jobs AS job WHERE job.state = 'running' LIMIT 10001) AS sample
        WHERE sample.queue = lim.queue AND sample.worker IN (SELECT living.id FROM living)
    )
FROM holdfast_limits AS lim
WHERE :name IS NULL OR lim.name = :name
ORDER BY lim.name;

-- name: slot_holders
-- Read who holds slots of a limit, in all or under one key, the longest first; of every limit if none is named.
SELECT limit_name, key, job_id, claim, taken_at
FROM (
    SELECT
        slot.limit_name, slot.key, slot.job_id, slot.claim, slot.taken_at, slot.n,
        row_number() OVER (PARTITION BY slot.limit_name ORDER BY slot.taken_at, slot.n) AS place
    FROM holdfast_slots AS slot
    WHERE (:name IS NULL OR slot.limit_name = :name) AND (:key IS NULL OR slot.key = :key) AND slot.job_id IS NOT NULL
)
WHERE place <= 100
ORDER BY limit_name, taken_at, n;

-- name: limit_buckets
-- Read the fullest keys of a limit, by what of it they use, in all or only one key; of every limit if none is named.
WITH
-- What is in use was used of late: the last 1,000 keys are looked at, however many there are.
recent AS MATERIALIZED (
    SELECT limit_name, key, throttled_until, rated_until
    FROM (
        SELECT limit_name, key, throttled_until, rated_until
        FROM holdfast_limit_keys
        WHERE :key IS NULL
        ORDER BY seen_at DESC
        LIMIT 1000
    )
    UNION ALL
    SELECT limit_name, key, throttled_until, rated_until
    FROM holdfast_limit_keys
    WHERE limit_name = :name AND key = :key
),

used AS (
    SELECT
        lim.name, 'slots' AS sort, slot.key, CASE WHEN lim.fifo THEN 1 ELSE lim.concurrency END AS most,
        count(*) AS taken, NULL AS step_us, NULL AS spent
    FROM holdfast_limits AS lim
    INNER JOIN holdfast_slots AS slot ON slot.limit_name = lim.name
    WHERE json_array_length(lim.path) > 0 AND (lim.fifo OR lim.concurrency IS NOT NULL)
        AND (:key IS NULL OR slot.key = :key) AND slot.job_id IS NOT NULL
    GROUP BY lim.name, slot.key
    UNION ALL
    SELECT lim.name, 'starts', recent.key, lim.burst, NULL, lim.throttle_us, recent.throttled_until
    FROM holdfast_limits AS lim
    INNER JOIN recent ON recent.limit_name = lim.name
    WHERE lim.throttle_us IS NOT NULL AND recent.throttled_until > :now * 1000
    UNION ALL
    SELECT lim.name, 'enqueues', recent.key, lim.rate_burst, NULL, lim.rate_us, recent.rated_until
    FROM holdfast_limits AS lim
    INNER JOIN recent ON recent.limit_name = lim.name
    WHERE lim.rate_burst IS NOT NULL AND recent.rated_until > :now * 1000
),

ranked AS (
    SELECT
        used.*, row_number() OVER (PARTITION BY name, sort ORDER BY taken DESC, spent DESC, key) AS place
    FROM used
    WHERE :name IS NULL OR name = :name
)

SELECT name, sort, key, most, taken, step_us, spent
FROM ranked
WHERE place <= 51
ORDER BY name, sort, place;

-- name: sweep_limits
-- Find keys that jobs are held for, after a given one.
SELECT DISTINCT limit_key
FROM holdfast_jobs
WHERE state = 'held' AND position IS NOT NULL AND limit_key > :after
ORDER BY limit_key
LIMIT :limit;

-- name: prune_limits
-- Forget keys that nobody has used for a day.
DELETE FROM holdfast_limit_keys
WHERE (limit_name, key) IN (
    SELECT limit_name, key
    FROM holdfast_limit_keys
    WHERE seen_at < :now - 86400000 AND wake_at IS NULL
        AND COALESCE(rated_until, 0) < :now * 1000 AND COALESCE(throttled_until, 0) < :now * 1000
    LIMIT :limit
);
