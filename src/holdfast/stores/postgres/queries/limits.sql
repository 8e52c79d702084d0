-- name: define_limits
-- Let these limits hold and no others, and mark the queues whose jobs may have to wait for one.
SELECT holdfast.define_limits($1, $2);

-- name: list_limits
-- Read the limits in force.
SELECT
    name, definition, queue, kinds, path, concurrency, scope, throttle_us, burst, rate_us, rate_burst, rotate, fifo,
    metric
FROM holdfast.limits
ORDER BY name;

-- name: limit_usage
-- Read how much of a limit is in use, in all or under one key; of every limit if none is named.
WITH RECURSIVE
-- From key to key, so that what is held for other limits, however much, keeps nobody from being counted.
keys AS (
    (
        SELECT j.limit_key, 1 AS place
        FROM holdfast.jobs AS j
        WHERE j.state = 'held' AND j.position IS NOT NULL
        ORDER BY j.limit_key
        LIMIT 1
    )
    UNION ALL
    SELECT following.limit_key, keys.place + 1
    FROM keys
    CROSS JOIN LATERAL (
        SELECT j.limit_key
        FROM holdfast.jobs AS j
        WHERE j.state = 'held' AND j.position IS NOT NULL AND j.limit_key > keys.limit_key
        ORDER BY j.limit_key
        LIMIT 1
    ) AS following
    WHERE keys.place < 10001
),

held AS MATERIALIZED (
    SELECT split_part(keys.limit_key, '/', 1) AS limit_name, LEAST(sum(counted.jobs), 10001)::bigint AS jobs
    FROM keys
    CROSS JOIN LATERAL (
        SELECT count(*) AS jobs
        FROM (
            SELECT
            FROM holdfast.jobs AS j
            WHERE j.state = 'held' AND j.position IS NOT NULL AND j.limit_key = keys.limit_key
            LIMIT 10001
        ) AS sample
    ) AS counted
    WHERE CASE
        WHEN $1::text IS NULL THEN true
        WHEN $2::text IS NULL THEN starts_with(keys.limit_key, $1 || '/')
        ELSE keys.limit_key = $1 || '/' || $2
    END
    GROUP BY 1
),

living AS MATERIALIZED (
    SELECT w.id, w.instance, w.queues
    FROM holdfast.workers AS w
    WHERE w.dead_at IS NULL AND w.lease_until > holdfast.clock()
)

SELECT
    l.name,
    CASE
        WHEN l.fifo THEN 1
        ELSE l.concurrency
    END AS each,
    l.scope,
    cardinality(l.path) > 0 AS is_keyed,
    (
        SELECT count(*)
        FROM holdfast.slots AS s
        WHERE s.limit_name = l.name AND ($2::text IS NULL OR s.key = $2) AND s.job_id IS NOT NULL
    ) AS taken,
    (SELECT count(DISTINCT s.key) FROM holdfast.slots AS s WHERE s.limit_name = l.name) AS keys,
    COALESCE((SELECT held.jobs FROM held WHERE held.limit_name = l.name), 0) AS held,
    (
        SELECT max(k.throttled_until) - (l.burst - 1) * l.throttle_us * interval '1 microsecond'
        FROM holdfast.limit_keys AS k
        WHERE k.limit_name = l.name AND k.key = COALESCE($2, '')
    ) AS next_at,
    (
        SELECT count(DISTINCT living.instance)
        FROM living
        WHERE living.queues = '[]' OR living.queues @> to_jsonb(l.queue)
    ) AS instances,
    (
        SELECT count(*)
        FROM (SELECT j.queue, j.worker FROM holdfast.jobs AS j WHERE j.state = 'running' LIMIT 10001) AS sample
        WHERE sample.queue = l.queue AND sample.worker IN (SELECT living.id FROM living)
    ) AS running
FROM holdfast.limits AS l
WHERE $1::text IS NULL OR l.name = $1
ORDER BY l.name;

-- name: slot_holders
-- Read who holds slots of a limit, in all or under one key, the longest first; of every limit if none is named.
SELECT l.name, holder.key, holder.job_id, holder.claim, holder.taken_at
FROM holdfast.limits AS l
CROSS JOIN LATERAL (
    SELECT s.key, s.job_id, s.claim, s.taken_at, s.n
    FROM holdfast.slots AS s
    WHERE s.limit_name = l.name AND ($2::text IS NULL OR s.key = $2) AND s.job_id IS NOT NULL
    ORDER BY s.taken_at, s.n
    LIMIT 100
) AS holder
WHERE $1::text IS NULL OR l.name = $1
ORDER BY l.name, holder.taken_at, holder.n;

-- name: limit_buckets
-- Read the fullest keys of a limit, by what of it they use, in all or only one key; of every limit if none is named.
WITH
-- What is in use was used of late: the last 1,000 keys are looked at, however many there are.
recent AS MATERIALIZED (
    (
        SELECT k.limit_name, k.key, k.throttled_until, k.rated_until
        FROM holdfast.limit_keys AS k
        WHERE $2::text IS NULL
        ORDER BY k.seen_at DESC
        LIMIT 1000
    )
    UNION ALL
    SELECT k.limit_name, k.key, k.throttled_until, k.rated_until
    FROM holdfast.limit_keys AS k
    WHERE k.limit_name = $1 AND k.key = $2
),

used AS (
    SELECT
        l.name, 'slots' AS sort, s.key, CASE WHEN l.fifo THEN 1 ELSE l.concurrency END AS most, count(*) AS taken,
        NULL::bigint AS step_us, NULL::timestamptz AS spent
    FROM holdfast.limits AS l
    INNER JOIN holdfast.slots AS s ON s.limit_name = l.name
    WHERE cardinality(l.path) > 0 AND (l.fifo OR l.concurrency IS NOT NULL)
        AND ($2::text IS NULL OR s.key = $2) AND s.job_id IS NOT NULL
    GROUP BY l.name, s.key
    UNION ALL
    SELECT l.name, 'starts', r.key, l.burst, NULL, l.throttle_us, r.throttled_until
    FROM holdfast.limits AS l
    INNER JOIN recent AS r ON r.limit_name = l.name
    WHERE l.throttle_us IS NOT NULL AND r.throttled_until > holdfast.clock()
    UNION ALL
    SELECT l.name, 'enqueues', r.key, l.rate_burst, NULL, l.rate_us, r.rated_until
    FROM holdfast.limits AS l
    INNER JOIN recent AS r ON r.limit_name = l.name
    WHERE l.rate_burst IS NOT NULL AND r.rated_until > holdfast.clock()
),

ranked AS (
    SELECT
        used.*, row_number() OVER (PARTITION BY name, sort ORDER BY taken DESC, spent DESC, key) AS place
    FROM used
    WHERE $1::text IS NULL OR name = $1
)

SELECT name, sort, key, most, taken, step_us, spent, holdfast.clock() AS now
FROM ranked
WHERE place <= 51
ORDER BY name, sort, place;

-- name: sweep_limits
-- Mend what no call has mended.
SELECT freed, released, next_after FROM holdfast.sweep_limits($1, $2, $3);

-- name: prune_limits
-- Forget keys that nobody has used for a day, and slots beyond their limit.
WITH unused AS (
    DELETE FROM holdfast.limit_keys
    WHERE (limit_name, key) IN (
        SELECT k.limit_name, k.key
        FROM holdfast.limit_keys AS k
        WHERE k.seen_at < holdfast.clock() - interval '1 day' AND k.wake_at IS NULL
            AND (k.rated_until IS NULL OR k.rated_until < holdfast.clock())
            AND (k.throttled_until IS NULL OR k.throttled_until < holdfast.clock())
        LIMIT $1
        FOR UPDATE SKIP LOCKED
    )
    RETURNING 1
),

empty AS (
    DELETE FROM holdfast.slots
    WHERE (limit_name, key, n) IN (
        SELECT s.limit_name, s.key, s.n
        FROM holdfast.slots AS s
        LEFT JOIN holdfast.limits AS l ON l.name = s.limit_name
        WHERE s.job_id IS NULL
            AND (
                l.name IS NULL OR s.n > CASE WHEN l.fifo THEN 1 ELSE COALESCE(l.concurrency, 0) END
                OR NOT EXISTS (
                    SELECT
                    FROM holdfast.slots AS used
                    WHERE used.limit_name = s.limit_name AND used.key = s.key
                        AND (used.job_id IS NOT NULL OR used.taken_at >= holdfast.clock() - interval '1 day')
                )
            )
        LIMIT $1
        FOR UPDATE OF s SKIP LOCKED
    )
    RETURNING 1
)

SELECT (SELECT count(*) FROM unused) + (SELECT count(*) FROM empty);
