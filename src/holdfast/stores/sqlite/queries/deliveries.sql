-- name: claim_deliveries
-- Take messages whose time has come; whoever takes one has it until its lease ends.
UPDATE holdfast_deliveries
SET tries = tries + 1, next_at = :now + :lease_ms  -- guard: delivery-lease, without: SET tries = tries + 1
WHERE id IN (
    SELECT due.id
    FROM holdfast_deliveries AS due
    WHERE due.state = 'pending' AND due.next_at <= :now
        AND NOT EXISTS (SELECT 1 FROM holdfast_disabled_endpoints AS gone WHERE gone.endpoint = due.endpoint)
    ORDER BY due.next_at
    LIMIT :limit
)
RETURNING
    id, job_id, life, event, url, at, task, queue, status, attempt, tags, error_class, error, result, result_omitted,
    tries;

-- name: end_delivery
-- Record what became of one try, under the number of that try.
UPDATE holdfast_deliveries
SET
    state = :state,
    next_at = :now + :delay_ms,
    ended_at = CASE :state WHEN 'pending' THEN NULL ELSE :now END,
    log = json_insert(log, '$[#]', json(:entry))
-- guard: delivery-try, without: WHERE id = :id AND state = 'pending'
WHERE id = :id AND tries = :tries AND state = 'pending'
RETURNING job_id, task, queue, status, life, attempt, endpoint, tries;

-- name: postpone_delivery
-- Give a message back that was not tried after all.
UPDATE holdfast_deliveries
SET tries = tries - 1, next_at = :now + :delay_ms
WHERE id = :id AND tries = :tries AND state = 'pending';

-- name: next_delivery
-- Say in how many milliseconds the next message is due.
SELECT max(next_at - :now, 0)
FROM holdfast_deliveries AS due
WHERE state = 'pending'
    AND NOT EXISTS (SELECT 1 FROM holdfast_disabled_endpoints AS gone WHERE gone.endpoint = due.endpoint)
ORDER BY next_at
LIMIT 1;

-- name: disable_endpoint
-- Let nothing be posted to a place any more.
INSERT INTO holdfast_disabled_endpoints (endpoint, disabled_at, reason) VALUES (:endpoint, :now, :reason)
ON CONFLICT (endpoint) DO UPDATE SET disabled_at = excluded.disabled_at, reason = excluded.reason;

-- name: enable_endpoint
-- Let a place be posted to again.
DELETE FROM holdfast_disabled_endpoints WHERE endpoint = :endpoint;

-- name: list_endpoints
-- Read the places that have messages or are disabled.
SELECT
    known.endpoint, gone.disabled_at, gone.reason,
    count(CASE known.state WHEN 'pending' THEN 1 END),
    count(CASE known.state WHEN 'delivered' THEN 1 END),
    count(CASE known.state WHEN 'failed' THEN 1 END)
FROM (
    SELECT * FROM (SELECT endpoint, state FROM holdfast_deliveries ORDER BY id DESC LIMIT 10001)
    UNION ALL
    SELECT endpoint, NULL FROM holdfast_disabled_endpoints
) AS known
LEFT JOIN holdfast_disabled_endpoints AS gone ON gone.endpoint = known.endpoint
GROUP BY known.endpoint
ORDER BY known.endpoint;

-- name: prune_deliveries
-- Forget messages whose jobs have expired; one that is still to be posted stays for the days of its tries.
DELETE FROM holdfast_deliveries
WHERE id IN (
    SELECT id
    FROM holdfast_deliveries
    WHERE expires_at <= :now AND (state <> 'pending' OR expires_at <= :now - 345600000)
    ORDER BY expires_at
    LIMIT :limit
);
