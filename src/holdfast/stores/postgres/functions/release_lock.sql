-- Let go of a lock or a ticket; answers whether others wait for it.
--
-- In turn with those who ask for the same name: one who was told to wait is seen here, or sees that the lock is free.
DROP FUNCTION IF EXISTS holdfast.release_lock;
CREATE FUNCTION holdfast.release_lock(p_name text, p_owner text) RETURNS boolean
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(p_name, 'holdfast.locks'::regclass::oid::bigint));
    DELETE FROM holdfast.lock_waiters WHERE owner = p_owner;
    -- guard: released-owner, without: DELETE FROM holdfast.locks WHERE name = p_name;
    DELETE FROM holdfast.locks WHERE name = p_name AND owner = p_owner;
    RETURN EXISTS (SELECT FROM holdfast.lock_waiters WHERE name = p_name AND until > holdfast.clock());
END
$$;
