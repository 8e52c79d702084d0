-- The time of the store, by which everything is compared. Tests replace this function, and no other SQL reads a clock.
CREATE OR REPLACE FUNCTION holdfast.clock() RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
RETURN statement_timestamp();
