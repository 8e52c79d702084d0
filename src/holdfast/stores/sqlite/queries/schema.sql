-- name: applied_migrations
-- Read which migrations were applied.
SELECT version, name, checksum, applied_at FROM holdfast_schema_migrations ORDER BY version;

-- name: record_migration
-- Remember that a migration was applied.
CREATE TABLE IF NOT EXISTS holdfast_schema_migrations (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT;
INSERT INTO holdfast_schema_migrations (version, name, checksum, applied_at) VALUES (:version, :name, :checksum, :now);
