-- name: define_budgets
-- Let one budget hold; the answer is its name if that is new.
INSERT INTO holdfast_budgets (
    name, definition, unit, ceiling, period, tz, queue, kinds, path, thresholds, changed_at
)
VALUES (:name, :definition, :unit, :ceiling, :period, :tz, :queue, :kinds, :path, :thresholds, :now)
ON CONFLICT (name) DO UPDATE
SET
    definition = excluded.definition, unit = excluded.unit, ceiling = excluded.ceiling, period = excluded.period,
    tz = excluded.tz, queue = excluded.queue, kinds = excluded.kinds, path = excluded.path,
    thresholds = excluded.thresholds, changed_at = excluded.changed_at
WHERE (definition, unit, ceiling, period, tz, queue, kinds, path, thresholds)
    IS NOT (
        excluded.definition, excluded.unit, excluded.ceiling, excluded.period, excluded.tz, excluded.queue,
        excluded.kinds, excluded.path, excluded.thresholds
    )
RETURNING name;

-- name: drop_budgets
-- Let no other budgets hold.
DELETE FROM holdfast_budgets WHERE name NOT IN (SELECT value FROM json_each(:names)) RETURNING name;

-- name: read_budgets
-- Read all budgets, or one.
SELECT name, definition, unit, ceiling, period, tz, queue, kinds, path, thresholds
FROM holdfast_budgets
WHERE :name IS NULL OR name = :name
ORDER BY name;

-- name: reserve_spend
-- Set an estimate aside for a claim.
INSERT INTO holdfast_reservations (job_id, claim, budget, key, starts_at, queue, amount, at)
VALUES (:job_id, :claim, :budget, :key, :starts_at, :queue, :estimate, :now);

-- name: record_spend
-- Write down what was spent, unless that was done.
INSERT INTO holdfast_ledger (at, budget, key, kind, queue, actor, job_id, claim, n, unit, amount, note, is_late)
VALUES (
    :now, :budget, :key, :kind, :queue, :actor, :job_id, :claim, :n, :unit, :amount, :note,
    NOT EXISTS (SELECT 1 FROM holdfast_jobs WHERE id = :job_id AND claim = :claim AND state = 'running')
)
ON CONFLICT (job_id, claim, n) DO NOTHING;

-- name: settle_spend
-- Let go of what was set aside for a claim.
DELETE FROM holdfast_reservations WHERE job_id = :job_id AND claim = :claim;

-- name: release_deferred
-- Let jobs that are held for a budget be looked at again.
UPDATE holdfast_jobs
SET run_at = :now
WHERE id IN (
    SELECT id
    FROM holdfast_jobs
    WHERE state = 'held' AND limit_key IN ('budget:' || :name, 'budget:' || :name || ' room')
        AND position IS NULL AND run_at > :now
    ORDER BY id
    LIMIT :limit
);

-- name: list_periods
-- Read the periods of a budget in which a time lies.
SELECT budget, key, starts_at, ends_at, spent, reserved, lost, alerts
FROM holdfast_budget_periods
WHERE budget = :name AND starts_at <= :at AND ends_at > :at
ORDER BY starts_at, key
LIMIT :limit;

-- name: list_lost
-- Read what was set aside for claims whose end nobody saw.
SELECT job_id, claim, budget, key, starts_at, amount, spent, at
FROM holdfast_reservations
WHERE budget = :name AND state = 'lost'
ORDER BY job_id, claim
LIMIT :limit;

-- name: mean_spend
-- Read what a claim of a kind has spent on average.
SELECT CAST(sum(amount) / count(DISTINCT job_id || '.' || claim) AS INTEGER)
FROM (
    SELECT amount, job_id, claim
    FROM holdfast_ledger
    WHERE budget = :name AND kind = :kind AND at > :now - 604800000
    ORDER BY at DESC
    LIMIT 10000
);

-- name: break_down
-- Sum what was spent by one of its columns.
SELECT part, sum(amount), count(*)
FROM (
    SELECT CASE :by WHEN 'kind' THEN kind WHEN 'key' THEN key WHEN 'queue' THEN queue ELSE actor END AS part, amount
    FROM holdfast_ledger
    WHERE budget = :name AND at >= :since AND at < :until
)
GROUP BY part
ORDER BY sum(amount) DESC, part NULLS LAST
LIMIT :limit;

-- name: spend_series
-- Sum what was spent under one key, step by step.
SELECT :since + (at - :since) / :step_ms * :step_ms, sum(amount)
FROM holdfast_ledger
WHERE budget = :name AND key = :key AND at >= :since AND at < :until
GROUP BY 1
ORDER BY 1;

-- name: read_ledger
-- Read the entries of a budget.
SELECT id, at, budget, key, kind, queue, actor, job_id, claim, unit, amount, note, is_late
FROM holdfast_ledger
WHERE budget = :name AND (:before IS NULL OR (at, id) < (SELECT l.at, l.id FROM holdfast_ledger AS l WHERE l.id = :before))
ORDER BY at DESC, id DESC
LIMIT :limit;

-- name: read_whole_ledger
-- Read the entries of all budgets, and those that count for none.
SELECT id, at, budget, key, kind, queue, actor, job_id, claim, unit, amount, note, is_late
FROM holdfast_ledger
WHERE :before IS NULL OR (at, id) < (SELECT l.at, l.id FROM holdfast_ledger AS l WHERE l.id = :before)
ORDER BY at DESC, id DESC
LIMIT :limit;

-- name: prune_ledger
-- Delete what is older than 25 months of 31 days.
DELETE FROM holdfast_budget_periods
WHERE (budget, key, starts_at) IN (
    SELECT budget, key, starts_at
    FROM holdfast_budget_periods
    WHERE ends_at < :now - 66960000000
    ORDER BY ends_at
    LIMIT :limit
);
DELETE FROM holdfast_reservations
WHERE state = 'lost'
    AND NOT EXISTS (
        SELECT 1
        FROM holdfast_budget_periods AS p
        WHERE p.budget = holdfast_reservations.budget AND p.key = holdfast_reservations.key
            AND p.starts_at = holdfast_reservations.starts_at
    );
DELETE FROM holdfast_ledger
WHERE id IN (SELECT id FROM holdfast_ledger WHERE at < :now - 66960000000 ORDER BY at, id LIMIT :limit);
