-- Hint that jobs of these queues may run which were there before: claims of the same transaction, and those of whoever
-- hears it, then begin at the beginning of the lanes.
DROP FUNCTION IF EXISTS holdfast.hint_at;
CREATE FUNCTION holdfast.hint_at(p_queues text[]) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF cardinality(p_queues) > 0 THEN
        PERFORM set_config('holdfast_call.released', 'on', true);
        PERFORM pg_notify('holdfast:' || 'holdfast.jobs'::regclass::oid, named.queue)
        FROM unnest(p_queues) AS named (queue);
    END IF;
END
$$;
