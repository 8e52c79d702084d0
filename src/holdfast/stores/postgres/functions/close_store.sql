-- Close a store whose jobs move away, by triggers that were not there before; false while a job runs, null when
-- the store is marked by another move, by none any more, or is closed further already.
--
-- To make a trigger takes a lock that waits for every transaction that has changed the table: what was changed before is
-- committed and will be copied, what comes later meets the trigger. Draining, a store takes no jobs and no workers, and
-- gives no job away; closed, it takes no change at all.
DROP FUNCTION IF EXISTS holdfast.close_store;
CREATE FUNCTION holdfast.close_store(p_stage text, p_move jsonb, p_tables text[]) RETURNS boolean
LANGUAGE plpgsql
SET lock_timeout = '5s'
AS $$
DECLARE
    v_table text;
    v_marked jsonb;
    v_stages text[] := ARRAY['draining', 'closed', 'moved'];
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('holdfast move ' || 'holdfast.meta'::regclass::oid, 0));
    SELECT value::jsonb INTO v_marked FROM holdfast.meta WHERE key = 'move';
    IF v_marked IS NULL AND p_stage <> 'draining'
        OR v_marked ->> 'id' <> p_move ->> 'id'
        OR array_position(v_stages, v_marked ->> 'stage') > array_position(v_stages, p_stage)
    THEN
        RETURN NULL;
    END IF;
    IF p_stage = 'draining' THEN
        CREATE OR REPLACE TRIGGER moving_insert BEFORE INSERT ON holdfast.jobs
            FOR EACH STATEMENT EXECUTE FUNCTION holdfast.refuse_moved();
        CREATE OR REPLACE TRIGGER moving_claim BEFORE UPDATE ON holdfast.jobs
            FOR EACH ROW WHEN (new.state = 'running' AND old.state <> 'running')
            EXECUTE FUNCTION holdfast.refuse_moved();
        CREATE OR REPLACE TRIGGER moving_insert BEFORE INSERT ON holdfast.workers
            FOR EACH STATEMENT EXECUTE FUNCTION holdfast.refuse_moved();
    ELSIF p_stage = 'closed' THEN
        -- Once without the lock, which would hold up those that are to end; none begins any more.
        IF EXISTS (SELECT FROM holdfast.jobs WHERE state = 'running') THEN
            RETURN false;
        END IF;
        LOCK TABLE holdfast.jobs IN SHARE ROW EXCLUSIVE MODE;
        IF EXISTS (SELECT FROM holdfast.jobs WHERE state = 'running') THEN
            RETURN false;
        END IF;
        FOREACH v_table IN ARRAY p_tables LOOP
            EXECUTE format(
                'CREATE OR REPLACE TRIGGER moving_closed BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON holdfast.%I '
                'FOR EACH STATEMENT EXECUTE FUNCTION holdfast.refuse_moved()', v_table
            );
        END LOOP;
        CREATE OR REPLACE TRIGGER moving_closed BEFORE INSERT OR UPDATE ON holdfast.workers
            FOR EACH STATEMENT EXECUTE FUNCTION holdfast.refuse_moved();
    END IF;
    INSERT INTO holdfast.meta (key, value) VALUES ('move', p_move::text)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value;
    RETURN true;
END
$$;
