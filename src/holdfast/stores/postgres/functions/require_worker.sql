-- Refuse a worker that was declared dead or never entered.
DROP FUNCTION IF EXISTS holdfast.require_worker;
CREATE FUNCTION holdfast.require_worker(p_worker bigint) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    -- guard: living-worker, without: IF false THEN
    IF NOT EXISTS (SELECT FROM holdfast.workers WHERE id = p_worker AND dead_at IS NULL) THEN
        RAISE EXCEPTION 'worker % is not alive in the store', p_worker USING ERRCODE = 'HF001';
    END IF;
END
$$;
