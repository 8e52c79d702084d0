-- How much of a ceiling a threshold is: the share is in millionths.
DROP FUNCTION IF EXISTS holdfast.share_of;
CREATE FUNCTION holdfast.share_of(p_ceiling bigint, p_share bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN floor(p_ceiling::numeric * p_share / 1000000)::bigint;
