-- Let the first living job of a row have its only slot, if it is among those asked for; answers its place among them,
-- 0, or null as take_slots does.
DROP FUNCTION IF EXISTS holdfast.take_turn;
CREATE FUNCTION holdfast.take_turn(
    p_name text, p_key text, p_ids bigint[], p_claims integer[], p_worker bigint
) RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    v_head bigint;
    v_place integer;
BEGIN
    SELECT j.id
    INTO v_head
    FROM holdfast.jobs AS j
    WHERE j.fifo_key = p_name || '/' || p_key
    ORDER BY j.enqueued_seq
    LIMIT 1;
    v_place := COALESCE(array_position(p_ids, v_head), 0);
    IF v_place > 0 THEN
        v_place := v_place * holdfast.take_slots(
            p_name, p_key, 1, p_ids[v_place:v_place], p_claims[v_place:v_place], p_worker
        );
    END IF;
    RETURN v_place;
END
$$;
