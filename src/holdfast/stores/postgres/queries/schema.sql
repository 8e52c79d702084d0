-- name: applied_migrations
-- Read which migrations were applied.
SELECT version, name, checksum, applied_at FROM holdfast.schema_migrations ORDER BY version;

-- name: record_migration
-- Remember that a migration was applied.
INSERT INTO holdfast.schema_migrations (version, name, checksum) VALUES ($1, $2, $3);
