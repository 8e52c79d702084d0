-- Make the weeks of history that are missing, up to the longest retention in force and four weeks more.
--
-- A table is made and then attached, which blocks nobody; there is no default partition, so that old weeks can be
-- detached concurrently. Runs with the rights of its owner, so that a worker's role needs none to change tables.
DROP FUNCTION IF EXISTS holdfast.keep_partitions;
CREATE FUNCTION holdfast.keep_partitions() RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s'
AS $$
DECLARE
    v_week timestamptz := date_trunc('week', holdfast.clock(), 'UTC');
    v_last timestamptz;
    v_schema name;
    v_name name;
    v_made integer := 0;
BEGIN
    SELECT n.nspname
    INTO v_schema
    FROM pg_class AS c
    INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.oid = 'holdfast.history'::regclass;
    -- Several may come at once: the second finds the work done.
    PERFORM pg_advisory_xact_lock(hashtextextended('holdfast partitions ' || v_schema, 0));

    SELECT v_week + interval '4 weeks' + GREATEST(
        interval '30 days', max(LEAST(kept.ms::bigint, 60480000000) * interval '1 millisecond')
    )
    INTO v_last
    FROM holdfast.queues AS q
    CROSS JOIN LATERAL jsonb_each_text(q.retention) AS kept (state, ms)
    WHERE kept.ms IS NOT NULL;

    WHILE v_week <= v_last LOOP
        v_name := 'history_w' || to_char(v_week AT TIME ZONE 'UTC', 'YYYYMMDD');
        IF to_regclass(format('%I.%I', v_schema, v_name)) IS NULL THEN
            EXECUTE format('CREATE TABLE %1$I.%2$I (LIKE %1$I.history INCLUDING CONSTRAINTS)', v_schema, v_name);
            EXECUTE format(
                'ALTER TABLE %1$I.history ATTACH PARTITION %1$I.%2$I FOR VALUES FROM (%3$L) TO (%4$L)',
                v_schema, v_name, v_week, v_week + interval '7 days'
            );
            v_made := v_made + 1;
        END IF;
        v_week := v_week + interval '7 days';
    END LOOP;
    RETURN v_made;
END
$$;
