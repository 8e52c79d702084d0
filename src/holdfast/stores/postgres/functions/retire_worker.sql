-- Remove a worker and give back, uncharged, whatever it still holds.
DROP FUNCTION IF EXISTS holdfast.retire_worker;
CREATE FUNCTION holdfast.retire_worker(p_worker bigint) RETURNS integer
LANGUAGE plpgsql
AS $$
BEGIN
    -- Before the row of the worker, so that nobody's renewal waits for that while this waits for the table.
    LOCK TABLE holdfast.jobs IN ROW EXCLUSIVE MODE;
    -- The row goes first: a claim that is still on its way is then refused, or found by the next rescue.
    DELETE FROM holdfast.workers WHERE id = p_worker;
    RETURN holdfast.give_back_batch(p_worker, NULL);
END
$$;
