-- name: define_schedule
-- Publish one schedule; one that is as it was costs no write. What has been due until now is settled when its times change,
-- when it is enabled or disabled, or when it comes back.
INSERT INTO holdfast.schedules AS s (name, origin, definition, defined_at, changed_at)
VALUES ($1, 'code', $2::jsonb, holdfast.clock(), holdfast.clock())
ON CONFLICT (name) DO UPDATE
SET
    origin = 'code',
    definition = excluded.definition,
    version = s.version + 1,
    changed_at = excluded.changed_at,
    changed_by = NULL,
    last_fire = CASE
        WHEN s.withdrawn_at IS NOT NULL OR s.definition -> 'times' IS DISTINCT FROM excluded.definition -> 'times'
            OR s.definition -> 'enabled' IS DISTINCT FROM excluded.definition -> 'enabled'
            THEN GREATEST(s.last_fire, excluded.changed_at)
        ELSE s.last_fire
    END,
    next_fire = NULL,
    withdrawn_at = NULL
WHERE s.definition IS DISTINCT FROM excluded.definition OR s.withdrawn_at IS NOT NULL OR s.origin <> 'code';

-- name: withdraw_schedules
-- Let schedules fire no more that a program knows nothing of any more, though it knows their kind.
UPDATE holdfast.schedules
SET withdrawn_at = holdfast.clock(), changed_at = holdfast.clock(), version = version + 1, next_fire = NULL
WHERE origin = 'code' AND withdrawn_at IS NULL AND definition ->> 'kind' = ANY ($1::text[])
    AND NOT name = ANY ($2::text[]);

-- name: store_schedule
-- Keep a schedule that no app defines.
INSERT INTO holdfast.schedules (name, origin, definition, defined_at, changed_at, changed_by)
VALUES ($1, 'stored', $2::jsonb, holdfast.clock(), holdfast.clock(), $3)
ON CONFLICT (name) DO NOTHING
RETURNING name;

-- name: change_schedule
-- Change parts of a schedule; a null puts one back to its definition.
UPDATE holdfast.schedules
SET
    override = COALESCE(
        (SELECT jsonb_object_agg(part.key, part.value) FROM jsonb_each(override || $2::jsonb) AS part WHERE part.value <> 'null'),
        '{}'
    ),
    version = version + 1,
    changed_at = holdfast.clock(),
    changed_by = $4,
    last_fire = CASE WHEN $3 THEN GREATEST(last_fire, holdfast.clock()) ELSE last_fire END,
    next_fire = NULL
WHERE name = $1
RETURNING name;

-- name: drop_schedule
-- Forget a schedule that no app defines.
DELETE FROM holdfast.schedules WHERE name = $1 AND (origin = 'stored' OR withdrawn_at IS NOT NULL) RETURNING name;

-- name: read_schedules
-- Read the store's time and all schedules.
SELECT
    holdfast.clock() AS now,
    s.name, s.origin, s.definition, s.override, s.withdrawn_at, s.version, s.defined_at, s.changed_at, s.changed_by,
    s.last_fire, s.next_fire
FROM (SELECT) AS one
LEFT JOIN holdfast.schedules AS s ON true
ORDER BY s.name;

-- name: lock_schedule
-- Let nobody else fire a schedule meanwhile; no row when it has changed.
SELECT name FROM holdfast.schedules WHERE name = $1 AND version = $2 FOR UPDATE;

-- name: record_fire
-- Record one nominal time, once; no row when it was recorded before.
INSERT INTO holdfast.fires AS f (schedule, nominal, outcome, job_id, note, at, expires_at)
VALUES ($1, $2, $3, $4, $5, holdfast.clock(), GREATEST($2, holdfast.clock()) + interval '30 days')
ON CONFLICT (schedule, nominal) DO NOTHING
RETURNING schedule, nominal, outcome, job_id, note, at;

-- name: jobs_of_schedule
-- Find the live jobs of a schedule.
SELECT id FROM holdfast.jobs WHERE schedule = $1 ORDER BY id;

-- name: name_schedule
-- Note which schedule a new job belongs to, and which of its times.
UPDATE holdfast.jobs SET schedule = $2, fire_time = $3 WHERE id = $1;

-- name: advance_schedule
-- Note how far a schedule has come; what is told late takes nothing back.
UPDATE holdfast.schedules
SET last_fire = GREATEST(last_fire, $2), next_fire = $3
WHERE name = $1 AND (last_fire IS DISTINCT FROM GREATEST(last_fire, $2) OR next_fire IS DISTINCT FROM $3);

-- name: list_fires
-- Read what came of the last nominal times of a schedule.
SELECT schedule, nominal, outcome, job_id, note, at FROM holdfast.fires WHERE schedule = $1 ORDER BY nominal DESC LIMIT $2;

-- name: prune_fires
-- Forget nominal times of long ago. By their places, as a list of keys would be joined with the whole table if nothing were
-- known of it.
WITH gone AS (
    DELETE FROM holdfast.fires
    WHERE ctid = ANY (ARRAY(
        SELECT ctid
        FROM holdfast.fires
        WHERE expires_at <= holdfast.clock()
        ORDER BY expires_at
        LIMIT $1
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING 1
)

SELECT count(*) FROM gone;
