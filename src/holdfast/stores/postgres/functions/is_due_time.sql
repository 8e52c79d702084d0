-- Whether a text is a time at which a job can be due; null is no text and no fault.
DROP FUNCTION IF EXISTS holdfast.is_due_time;
CREATE FUNCTION holdfast.is_due_time(p_text text) RETURNS boolean
LANGUAGE plpgsql
AS $$
BEGIN
    RETURN p_text IS NULL OR (p_text::timestamptz >= '1970-01-01Z' AND p_text::timestamptz < '9999-01-01Z');
EXCEPTION WHEN data_exception THEN
    RETURN false;
END
$$;
