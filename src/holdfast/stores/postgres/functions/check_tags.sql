-- Say what is wrong with the tags that another program gives a job, or null.
DROP FUNCTION IF EXISTS holdfast.check_tags;
CREATE FUNCTION holdfast.check_tags(p_tags jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    IF jsonb_typeof(p_tags) <> 'object' OR EXISTS (
        SELECT
        FROM jsonb_each(p_tags) AS tag
        WHERE jsonb_typeof(tag.value) <> 'string' OR tag.key !~ '^[A-Za-z0-9_.:-]{1,64}$'
    ) THEN
        RETURN 'tags: expected an object of texts, with names of 1 to 64 letters, digits, _ . : or -';
    END IF;
    RETURN (
        SELECT CASE
            WHEN count(*) > 32 THEN 'tags: expected at most 32'
            WHEN count(DISTINCT lower(tag.key)) < count(*)
                THEN 'tags: names are compared without case, and one is there twice'
            WHEN bool_or(octet_length(tag.value) NOT BETWEEN 1 AND 512) THEN 'tags: expected texts of 1 to 512 bytes'
        END
        FROM jsonb_each_text(p_tags) AS tag
    );
END
$$;
