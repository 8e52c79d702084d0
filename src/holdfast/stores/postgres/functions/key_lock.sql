-- The number of the lock under which jobs are parked for a key (alone) and slots of it are given back (together), so that
-- no job is parked just as the last slot comes free.
DROP FUNCTION IF EXISTS holdfast.key_lock;
CREATE FUNCTION holdfast.key_lock(p_limit_key text) RETURNS bigint
LANGUAGE sql STABLE
AS $$
SELECT hashtextextended(p_limit_key, 'holdfast.jobs'::regclass::oid::bigint)
$$;
