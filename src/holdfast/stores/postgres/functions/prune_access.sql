-- Forget old deeds, and ways in that ended a month ago. Runs with the rights of its owner: a worker's role may delete
-- nothing else of either.
DROP FUNCTION IF EXISTS holdfast.prune_access;
CREATE FUNCTION holdfast.prune_access(p_limit integer) RETURNS bigint
LANGUAGE sql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
WITH deeds AS (
    DELETE FROM holdfast.audit
    WHERE id IN (
        SELECT id FROM holdfast.audit WHERE at < holdfast.clock() - interval '400 days' ORDER BY at LIMIT p_limit
    )
    RETURNING 1
),

passes AS (
    DELETE FROM holdfast.passes
    WHERE LEAST(revoked_at, expires_at) < holdfast.clock() - interval '30 days'
    RETURNING 1
)

SELECT (SELECT count(*) FROM deeds) + (SELECT count(*) FROM passes)
$$;
REVOKE EXECUTE ON FUNCTION holdfast.prune_access FROM PUBLIC;
