-- Draw ids that no other store and no other caller has: the store's tag, then blocks of 64 of its sequence.
DROP FUNCTION IF EXISTS holdfast.take_ids;
CREATE FUNCTION holdfast.take_ids(p_count integer) RETURNS SETOF bigint
LANGUAGE sql VOLATILE
BEGIN ATOMIC
    SELECT (SELECT value::bigint << 48 FROM holdfast.meta WHERE key = 'store_tag') + block.first + step
    FROM (
        SELECT nextval('holdfast.job_id_seq'::regclass) AS first
        FROM generate_series(1, (p_count + 63) / 64)
    ) AS block
    CROSS JOIN generate_series(0, 63) AS step
    ORDER BY block.first, step
    LIMIT p_count;
END;
