-- Some services have new names: what was set and reported under an old name holds under the new one too. The rows of the
-- old names stay, because a leader of the last release reads them; the next release deletes them.

INSERT INTO holdfast_overrides (path, value, actor, reason, changed_at)
WITH renamed (was, name) AS (
    VALUES
        ('promote', 'promotion'), ('announce', 'announcements'), ('fold', 'rollups'), ('gauges', 'lane_counts'),
        ('escalate', 'escalations')
)
SELECT
    'services.' || renamed.name || substr(o.path, length('services.' || renamed.was) + 1),
    o.value, o.actor, o.reason, o.changed_at
FROM holdfast_overrides AS o
INNER JOIN renamed ON o.path LIKE 'services.' || renamed.was || '.%';

INSERT INTO holdfast_service_reports (name, holder, at, runs, scanned, moved, failures, lag_ms, error)
WITH renamed (was, name) AS (
    VALUES
        ('promote', 'promotion'), ('announce', 'announcements'), ('fold', 'rollups'), ('gauges', 'lane_counts'),
        ('escalate', 'escalations')
)
SELECT renamed.name, r.holder, r.at, r.runs, r.scanned, r.moved, r.failures, r.lag_ms, r.error
FROM holdfast_service_reports AS r
INNER JOIN renamed ON renamed.was = r.name;
