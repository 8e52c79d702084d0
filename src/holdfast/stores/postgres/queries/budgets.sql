-- name: define_budgets
-- Let one budget hold; the answer is its name if that is new.
INSERT INTO holdfast.budgets AS b (
    name, definition, unit, ceiling, period, tz, queue, kinds, path, thresholds, changed_at
)
VALUES ($1, $2::jsonb, $3, $4, $5, $6, $7, $8, $9, $10::jsonb, holdfast.clock())
ON CONFLICT (name) DO UPDATE
SET
    definition = excluded.definition, unit = excluded.unit, ceiling = excluded.ceiling, period = excluded.period,
    tz = excluded.tz, queue = excluded.queue, kinds = excluded.kinds, path = excluded.path,
    thresholds = excluded.thresholds, changed_at = excluded.changed_at
WHERE (b.definition, b.unit, b.ceiling, b.period, b.tz, b.queue, b.kinds, b.path, b.thresholds)
    IS DISTINCT FROM (
        excluded.definition, excluded.unit, excluded.ceiling, excluded.period, excluded.tz, excluded.queue,
        excluded.kinds, excluded.path, excluded.thresholds
    )
RETURNING b.name;

-- name: drop_budgets
-- Let no other budgets hold.
DELETE FROM holdfast.budgets WHERE name <> ALL ($1::text[]) RETURNING name;

-- name: read_budgets
-- Read the store's time and all budgets.
SELECT
    holdfast.clock() AS now, b.name, b.definition, b.unit, b.ceiling, b.period, b.tz, b.queue, b.kinds, b.path,
    b.thresholds
FROM (SELECT) AS one
LEFT JOIN holdfast.budgets AS b ON true
ORDER BY b.name;

-- name: reserve_spend
-- Set an estimate aside for a claim.
SELECT outcome, at, spent, reserved, lost, ceiling, wakes_at
FROM holdfast.reserve_spend($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: record_spend
-- Write down what was spent.
SELECT outcome, at, is_late, spent, reserved, lost, ceiling
FROM holdfast.record_spend($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13);

-- name: settle_spend
-- Free what was set aside for a claim.
SELECT holdfast.settle_spends(ARRAY[$1::bigint], ARRAY[$2::integer], ARRAY['settle'], ARRAY['settled']);

-- name: release_deferred
-- Let jobs that are held for a budget be looked at again. Who is being changed by somebody else is waited for.
WITH picked AS MATERIALIZED (
    SELECT j.id
    FROM holdfast.jobs AS j
    WHERE j.state = 'held' AND j.limit_key IN ('budget:' || $1::text, 'budget:' || $1::text || ' room')
        AND j.position IS NULL AND j.run_at > holdfast.clock()
    ORDER BY j.id
    LIMIT $2
    FOR UPDATE
),

released AS (
    UPDATE holdfast.jobs SET run_at = holdfast.clock() WHERE id = ANY (ARRAY(SELECT id FROM picked)) RETURNING id
)

SELECT count(*) FROM released;

-- name: list_periods
-- Read the periods of a budget in which a time lies.
SELECT budget, key, starts_at, ends_at, spent, reserved, lost, alerts
FROM holdfast.budget_periods
WHERE budget = $1 AND starts_at <= $2 AND ends_at > $2
ORDER BY starts_at, key
LIMIT $3;

-- name: list_lost
-- Read what was set aside for claims whose end nobody saw.
SELECT job_id, claim, budget, key, starts_at, amount, spent, at
FROM holdfast.reservations
WHERE budget = $1 AND state = 'lost'
ORDER BY job_id, claim
LIMIT $2;

-- name: mean_spend
-- Read what a claim of a kind has spent on average.
SELECT (sum(amount) / NULLIF(count(DISTINCT (job_id, claim)), 0))::bigint
FROM (
    SELECT amount, job_id, claim
    FROM holdfast.ledger
    WHERE budget = $1 AND kind = $2 AND at > holdfast.clock() - interval '7 days'
    ORDER BY at DESC
    LIMIT 10000
) AS newest;

-- name: break_down
-- Sum what was spent by one of its columns.
SELECT part, sum(amount)::bigint, count(*)
FROM (
    SELECT CASE $2 WHEN 'kind' THEN kind WHEN 'key' THEN key WHEN 'queue' THEN queue ELSE actor END AS part, amount
    FROM holdfast.ledger
    WHERE budget = $1 AND at >= $3 AND at < $4
) AS entries
GROUP BY part
ORDER BY sum(amount) DESC, part
LIMIT $5;

-- name: spend_series
-- Sum what was spent under one key, step by step.
SELECT date_bin($5::bigint * interval '1 millisecond', at, $3) AS step, sum(amount)::bigint
FROM holdfast.ledger
WHERE budget = $1 AND key = $2 AND at >= $3 AND at < $4
GROUP BY 1
ORDER BY 1;

-- name: read_ledger
-- Read the entries of a budget.
SELECT id, at, budget, key, kind, queue, actor, job_id, claim, unit, amount, note, is_late
FROM holdfast.ledger
WHERE budget = $1 AND ($3::bigint IS NULL OR (at, id) < (SELECT l.at, l.id FROM holdfast.ledger AS l WHERE l.id = $3))
ORDER BY at DESC, id DESC
LIMIT $2;

-- name: read_whole_ledger
-- Read the entries of all budgets, and those that count for none.
SELECT id, at, budget, key, kind, queue, actor, job_id, claim, unit, amount, note, is_late
FROM holdfast.ledger
WHERE $2::bigint IS NULL OR (at, id) < (SELECT l.at, l.id FROM holdfast.ledger AS l WHERE l.id = $2)
ORDER BY at DESC, id DESC
LIMIT $1;

-- name: prune_ledger
-- Delete what is older than 25 months.
WITH entries AS (
    DELETE FROM holdfast.ledger
    WHERE id = ANY (ARRAY(
        SELECT l.id
        FROM holdfast.ledger AS l
        WHERE l.at < holdfast.clock() - interval '25 months'
        ORDER BY l.at, l.id
        LIMIT $1
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING id
),

periods AS (
    DELETE FROM holdfast.budget_periods AS p
    WHERE (p.budget, p.key, p.starts_at) IN (
        SELECT o.budget, o.key, o.starts_at
        FROM holdfast.budget_periods AS o
        WHERE o.ends_at < holdfast.clock() - interval '25 months'
        ORDER BY o.ends_at
        LIMIT $1
        FOR UPDATE SKIP LOCKED
    )
    RETURNING p.budget, p.key, p.starts_at
),

lost AS (
    DELETE FROM holdfast.reservations AS r
    USING periods AS p
    WHERE r.state = 'lost' AND r.budget = p.budget AND r.key = p.key AND r.starts_at = p.starts_at
)

SELECT GREATEST((SELECT count(*) FROM entries), (SELECT count(*) FROM periods));
