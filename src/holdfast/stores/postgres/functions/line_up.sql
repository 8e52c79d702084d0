-- Give jobs that run one after the other their key and their place in that row, if they came before the limit did.
DROP FUNCTION IF EXISTS holdfast.line_up;
CREATE FUNCTION holdfast.line_up(p_limit_key text, p_ids bigint[]) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE holdfast.jobs AS j
    SET fifo_key = p_limit_key, enqueued_seq = COALESCE(j.enqueued_seq, j.position)
    WHERE j.id = ANY (p_ids) AND j.fifo_key IS DISTINCT FROM p_limit_key;
END
$$;
