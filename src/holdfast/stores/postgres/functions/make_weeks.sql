-- Make the weeks of history in which rows with these times of deletion lie, where they are missing: a job that comes from
-- another store may have been kept by another rule. See keep_partitions().
DROP FUNCTION IF EXISTS holdfast.make_weeks;
CREATE FUNCTION holdfast.make_weeks(p_ats timestamptz[]) RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s'
AS $$
DECLARE
    v_week timestamptz;
    v_schema name;
    v_name name;
    v_made integer := 0;
BEGIN
    SELECT n.nspname
    INTO v_schema
    FROM pg_class AS c
    INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.oid = 'holdfast.history'::regclass;
    PERFORM pg_advisory_xact_lock(hashtextextended('holdfast partitions ' || v_schema, 0));
    FOR v_week IN
        SELECT DISTINCT date_trunc('week', at, 'UTC') FROM unnest(p_ats) AS at WHERE at < '9999-01-01Z'
    LOOP
        v_name := 'history_w' || to_char(v_week AT TIME ZONE 'UTC', 'YYYYMMDD');
        IF to_regclass(format('%I.%I', v_schema, v_name)) IS NULL THEN
            EXECUTE format('CREATE TABLE %1$I.%2$I (LIKE %1$I.history INCLUDING CONSTRAINTS)', v_schema, v_name);
            EXECUTE format(
                'ALTER TABLE %1$I.history ATTACH PARTITION %1$I.%2$I FOR VALUES FROM (%3$L) TO (%4$L)',
                v_schema, v_name, v_week, v_week + interval '7 days'
            );
            v_made := v_made + 1;
        END IF;
    END LOOP;
    RETURN v_made;
END
$$;
