-- Tell which key of a limit a job belongs to: the text that the path leads to, or the empty one for all jobs without it.
-- What is too long to stand in an index is told apart by its digest.
DROP FUNCTION IF EXISTS holdfast.limit_key_of;
CREATE FUNCTION holdfast.limit_key_of(
    p_path text[], p_payload jsonb, p_tags jsonb, p_actor text, p_kind text, p_queue text
) RETURNS text
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN (
    SELECT CASE WHEN octet_length(found.value) > 200 THEN '#' || md5(found.value) ELSE COALESCE(found.value, '') END
    FROM (
        SELECT CASE p_path[1]
            WHEN 'payload' THEN p_payload #>> p_path[2:]
            WHEN 'tags' THEN p_tags ->> array_to_string(p_path[2:], '.')
            WHEN 'actor' THEN p_actor
            WHEN 'kind' THEN p_kind
            WHEN 'queue' THEN p_queue
        END AS value
    ) AS found
);
