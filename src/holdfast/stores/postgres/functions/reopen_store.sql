-- Open a store again whose jobs were to move away.
DROP FUNCTION IF EXISTS holdfast.reopen_store;
CREATE FUNCTION holdfast.reopen_store() RETURNS void
LANGUAGE plpgsql
SET lock_timeout = '5s'
AS $$
DECLARE
    v_table regclass;
    v_name name;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('holdfast move ' || 'holdfast.meta'::regclass::oid, 0));
    FOR v_table, v_name IN
        SELECT t.tgrelid::regclass, t.tgname
        FROM pg_trigger AS t
        WHERE t.tgfoid = 'holdfast.refuse_moved'::regproc AND t.tgparentid = 0
    LOOP
        EXECUTE format('DROP TRIGGER %I ON %s', v_name, v_table);
    END LOOP;
    DELETE FROM holdfast.meta WHERE key = 'move';
END
$$;
