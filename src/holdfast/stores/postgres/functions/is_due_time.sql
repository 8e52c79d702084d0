-- Whether a text is a time at which a job can be due, whatever the session's settings are; null is no text and no fault.
DROP FUNCTION IF EXISTS holdfast.is_due_time;
CREATE FUNCTION holdfast.is_due_time(p_text text) RETURNS boolean
LANGUAGE plpgsql
AS $$
BEGIN
    -- A date, perhaps a time, and an offset. PostgreSQL alone would read "tomorrow" too, and take its own offset.
    RETURN p_text IS NULL OR (
        p_text ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?)?([Zz]|[+-][0-9]{2}(:?[0-9]{2})?)$'
        AND p_text::timestamptz >= '1970-01-01Z' AND p_text::timestamptz < '9999-01-01Z'
    );
EXCEPTION WHEN data_exception THEN
    RETURN false;
END
$$;
