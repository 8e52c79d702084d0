-- name: define_schedule
-- Publish one schedule; one that is as it was costs no write. What has been due until now is settled when its times change,
-- when it is enabled or disabled, or when it comes back.
INSERT INTO holdfast_schedules AS s (name, origin, definition, defined_at, changed_at)
VALUES (:name, 'code', :definition, :now, :now)
ON CONFLICT (name) DO UPDATE
SET
    origin = 'code',
    definition = excluded.definition,
    version = s.version + 1,
    changed_at = excluded.changed_at,
    changed_by = NULL,
    last_fire = CASE
        WHEN s.withdrawn_at IS NOT NULL OR s.definition ->> '$.times' <> excluded.definition ->> '$.times'
            OR s.definition ->> '$.enabled' <> excluded.definition ->> '$.enabled'
            THEN max(coalesce(s.last_fire, 0), excluded.changed_at)
        ELSE s.last_fire
    END,
    next_fire = NULL,
    withdrawn_at = NULL
WHERE s.definition <> excluded.definition OR s.withdrawn_at IS NOT NULL OR s.origin <> 'code';

-- name: withdraw_schedules
-- Let schedules fire no more that a program knows nothing of any more, though it knows their kind.
UPDATE holdfast_schedules
SET withdrawn_at = :now, changed_at = :now, version = version + 1, next_fire = NULL
WHERE origin = 'code' AND withdrawn_at IS NULL AND definition ->> '$.kind' IN (SELECT value FROM json_each(:kinds))
    AND name NOT IN (SELECT value FROM json_each(:names));

-- name: store_schedule
-- Keep a schedule that no app defines.
INSERT INTO holdfast_schedules (name, origin, definition, defined_at, changed_at, changed_by)
VALUES (:name, 'stored', :definition, :now, :now, :actor)
ON CONFLICT (name) DO NOTHING;

-- name: change_schedule
-- Change parts of a schedule; a null puts one back to its definition.
UPDATE holdfast_schedules
SET
    override = :override,
    version = version + 1,
    changed_at = :now,
    changed_by = :actor,
    last_fire = CASE WHEN :moves THEN max(coalesce(last_fire, 0), :now) ELSE last_fire END,
    next_fire = NULL
WHERE name = :name;

-- name: drop_schedule
-- Forget a schedule that no app defines.
DELETE FROM holdfast_schedules WHERE name = :name AND (origin = 'stored' OR withdrawn_at IS NOT NULL);

-- name: read_schedules
-- Read all schedules.
SELECT
    name, origin, definition, override, withdrawn_at, version, defined_at, changed_at, changed_by, last_fire, next_fire
FROM holdfast_schedules
ORDER BY name;

-- name: lock_schedule
-- Look whether a schedule is as it was; no row when it has changed.
SELECT name FROM holdfast_schedules WHERE name = :name AND version = :version;

-- name: record_fire
-- Record one nominal time, once; no row when it was recorded before.
INSERT INTO holdfast_fires (schedule, nominal, outcome, job_id, note, at, expires_at)
VALUES (:name, :nominal, :outcome, :job_id, :note, :now, max(:nominal, :now) + 2592000000)
ON CONFLICT (schedule, nominal) DO NOTHING
RETURNING schedule, nominal, outcome, job_id, note, at;

-- name: jobs_of_schedule
-- Find the live jobs of a schedule.
SELECT id FROM holdfast_jobs WHERE schedule = :name ORDER BY id;

-- name: name_schedule
-- Note which schedule a new job belongs to, and which of its times.
UPDATE holdfast_jobs SET schedule = :name, fire_time = :nominal WHERE id = :id;

-- name: advance_schedule
-- Note how far a schedule has come; what is told late takes nothing back.
UPDATE holdfast_schedules
SET last_fire = nullif(max(coalesce(last_fire, 0), coalesce(:last, 0)), 0), next_fire = :next
WHERE name = :name AND (coalesce(last_fire, 0) < coalesce(:last, 0) OR next_fire IS NOT :next);

-- name: list_fires
-- Read what came of the last nominal times of a schedule.
SELECT schedule, nominal, outcome, job_id, note, at
FROM holdfast_fires
WHERE schedule = :name
ORDER BY nominal DESC
LIMIT :limit;

-- name: prune_fires
-- Forget nominal times of long ago.
DELETE FROM holdfast_fires
WHERE (schedule, nominal) IN (
    SELECT schedule, nominal FROM holdfast_fires WHERE expires_at <= :now ORDER BY expires_at LIMIT :limit
);
