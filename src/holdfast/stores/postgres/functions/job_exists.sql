-- Whether a job is live or finished, in one snapshot.
DROP FUNCTION IF EXISTS holdfast.job_exists;
CREATE FUNCTION holdfast.job_exists(p_id bigint) RETURNS boolean
LANGUAGE plpgsql
AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM holdfast.jobs WHERE id = p_id
        UNION ALL
        SELECT FROM holdfast.history WHERE id = p_id
    );
END
$$;
