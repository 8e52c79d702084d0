-- name: set_override
-- Set one setting for everybody.
INSERT INTO holdfast.overrides (path, value, actor, reason, changed_at)
VALUES ($1, $2::jsonb, $3, $4, holdfast.clock())
ON CONFLICT (path) DO UPDATE
SET value = excluded.value, actor = excluded.actor, reason = excluded.reason, changed_at = excluded.changed_at;

-- name: reset_override
-- Put a setting back to what apps say.
DELETE FROM holdfast.overrides WHERE path = $1 RETURNING path;

-- name: list_overrides
-- Read the settings that somebody has changed.
SELECT path, value, actor, reason, changed_at FROM holdfast.overrides WHERE starts_with(path, $1) ORDER BY path;

-- name: report_services
-- Tell what a service has done.
INSERT INTO holdfast.service_reports (name, holder, at, runs, scanned, moved, failures, lag_ms, error)
SELECT name, holder, holdfast.clock(), runs, scanned, moved, failures, lag_ms, error
FROM jsonb_to_recordset($1::jsonb) AS r (
    name text, holder text, runs bigint, scanned bigint, moved bigint, failures bigint, lag_ms bigint, error text
)
ON CONFLICT (name) DO UPDATE
SET
    holder = excluded.holder, at = excluded.at, runs = excluded.runs, scanned = excluded.scanned, moved = excluded.moved,
    failures = excluded.failures, lag_ms = excluded.lag_ms, error = excluded.error;

-- name: list_services
-- Read what services have told last.
SELECT name, holder, at, runs, scanned, moved, failures, lag_ms, error FROM holdfast.service_reports ORDER BY name;
