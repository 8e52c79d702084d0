-- name: claim_deliveries
-- Take messages whose time has come; whoever takes one has it until its lease ends.
UPDATE holdfast.deliveries
-- guard: delivery-lease, without: SET tries = tries + sign($2)::integer
SET tries = tries + 1, next_at = holdfast.clock() + $2 * interval '1 millisecond'
WHERE id = ANY (ARRAY(
    SELECT d.id
    FROM holdfast.deliveries AS d
    WHERE d.state = 'pending' AND d.next_at <= holdfast.clock()
        AND NOT EXISTS (
            SELECT FROM holdfast.disabled_endpoints AS gone WHERE gone.endpoint = split_part(d.url, '?', 1)
        )
    ORDER BY d.next_at
    LIMIT $1
    FOR UPDATE SKIP LOCKED
))
RETURNING
    id, job_id, life, event, url, at, task, queue, status, attempt, tags, error_class, error, result, result_omitted,
    tries;

-- name: end_delivery
-- Record what became of one try, under the number of that try.
WITH ended AS (
    UPDATE holdfast.deliveries
    SET
        state = $3,
        next_at = holdfast.clock() + $4 * interval '1 millisecond',
        ended_at = CASE $3 WHEN 'pending' THEN NULL ELSE holdfast.clock() END,
        log = log || $5::jsonb
    -- guard: delivery-try, without: WHERE id = $1 AND $2 > 0 AND state = 'pending'
    WHERE id = $1 AND tries = $2 AND state = 'pending'
    RETURNING job_id, task, queue, status, life, attempt, url, tries
),

published AS (
    INSERT INTO holdfast.events (at, kind, job_id, task, queue, state, life, claim, attempt, data)
    SELECT
        holdfast.clock(), 'job:webhook:' || $3, job_id, task, queue, status, life, 0, attempt,
        jsonb_build_object('url', split_part(url, '?', 1), 'tries', tries)
    FROM ended
    WHERE $3 <> 'pending' AND holdfast.is_watched()
)

SELECT count(*) FROM ended;

-- name: postpone_delivery
-- Give a message back that was not tried after all.
UPDATE holdfast.deliveries
SET tries = tries - 1, next_at = holdfast.clock() + $3 * interval '1 millisecond'
WHERE id = $1 AND tries = $2 AND state = 'pending'
RETURNING id;

-- name: next_delivery
-- Say in how many milliseconds the next message is due.
SELECT GREATEST(ceil(extract(epoch FROM next_at - holdfast.clock()) * 1000), 0)::bigint
FROM holdfast.deliveries AS d
WHERE state = 'pending'
    AND NOT EXISTS (
        SELECT FROM holdfast.disabled_endpoints AS gone WHERE gone.endpoint = split_part(d.url, '?', 1)
    )
ORDER BY next_at
LIMIT 1;

-- name: disable_endpoint
-- Let nothing be posted to a place any more.
INSERT INTO holdfast.disabled_endpoints (endpoint, disabled_at, reason) VALUES ($1, holdfast.clock(), $2)
ON CONFLICT (endpoint) DO UPDATE SET disabled_at = excluded.disabled_at, reason = excluded.reason;

-- name: enable_endpoint
-- Let a place be posted to again.
DELETE FROM holdfast.disabled_endpoints WHERE endpoint = $1 RETURNING endpoint;

-- name: list_endpoints
-- Read the places that have messages or are disabled.
SELECT
    e.endpoint, gone.disabled_at, gone.reason,
    count(e.state) FILTER (WHERE e.state = 'pending') AS pending,
    count(e.state) FILTER (WHERE e.state = 'delivered') AS delivered,
    count(e.state) FILTER (WHERE e.state = 'failed') AS failed
FROM (
    SELECT split_part(url, '?', 1) AS endpoint, state
    FROM (SELECT url, state FROM holdfast.deliveries ORDER BY id DESC LIMIT 10001) AS sample
    UNION ALL
    SELECT endpoint, NULL FROM holdfast.disabled_endpoints
) AS e
LEFT JOIN holdfast.disabled_endpoints AS gone ON gone.endpoint = e.endpoint
GROUP BY e.endpoint, gone.disabled_at, gone.reason
ORDER BY e.endpoint;

-- name: prune_deliveries
-- Forget messages whose jobs have expired; one that is still to be posted stays for the days of its tries.
DELETE FROM holdfast.deliveries
WHERE id = ANY (ARRAY(
    SELECT id
    FROM holdfast.deliveries
    WHERE expires_at <= holdfast.clock()
        AND (state <> 'pending' OR expires_at <= holdfast.clock() - interval '4 days')
    ORDER BY expires_at
    LIMIT $1
))
RETURNING id;
