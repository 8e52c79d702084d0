-- Refuse a change in a store whose jobs move away. Triggers that call it exist only from the beginning of a move, so that
-- nothing is asked of anybody before. Never dropped, for the same reason.
CREATE OR REPLACE FUNCTION holdfast.refuse_moved() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF tg_level = 'ROW' THEN
        RETURN NULL;  -- a claim that takes nothing, while those that run may still end
    END IF;
    RAISE EXCEPTION '%', COALESCE(
        (SELECT value::jsonb ->> 'words' FROM holdfast.meta WHERE key = 'move'), 'this store is being moved'
    ) USING ERRCODE = 'HF002';
END
$$;
