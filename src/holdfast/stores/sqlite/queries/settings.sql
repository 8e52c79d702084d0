-- name: set_override
-- Set one setting for everybody.
INSERT INTO holdfast_overrides (path, value, actor, reason, changed_at)
VALUES (:path, :value, :actor, :reason, :now)
ON CONFLICT (path) DO UPDATE
SET value = excluded.value, actor = excluded.actor, reason = excluded.reason, changed_at = excluded.changed_at;

-- name: reset_override
-- Put a setting back to what apps say.
DELETE FROM holdfast_overrides WHERE path = :path;

-- name: list_overrides
-- Read the settings that somebody has changed.
SELECT path, value, actor, reason, changed_at
FROM holdfast_overrides
WHERE substr(path, 1, length(:prefix)) = :prefix
ORDER BY path;

-- name: report_services
-- Tell what a service has done.
INSERT INTO holdfast_service_reports (name, holder, at, runs, scanned, moved, failures, lag_ms, error)
VALUES (:name, :holder, :now, :runs, :scanned, :moved, :failures, :lag_ms, :error)
ON CONFLICT (name) DO UPDATE
SET
    holder = excluded.holder, at = excluded.at, runs = excluded.runs, scanned = excluded.scanned, moved = excluded.moved,
    failures = excluded.failures, lag_ms = excluded.lag_ms, error = excluded.error;

-- name: list_services
-- Read what services have told last.
SELECT name, holder, at, runs, scanned, moved, failures, lag_ms, error FROM holdfast_service_reports ORDER BY name;
