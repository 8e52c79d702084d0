-- Whether anybody watches: only then are events written. The look is part of the statement that changes a job, so that
-- whoever registered before it misses nothing.
CREATE OR REPLACE FUNCTION holdfast.is_watched() RETURNS boolean
LANGUAGE sql STABLE
AS $$
SELECT EXISTS (SELECT FROM holdfast.watchers WHERE until > holdfast.clock())
$$;
