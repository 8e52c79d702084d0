-- The same names as before, checked apart from their length: a counted repetition, `{1,64}`, costs fifteen times as much,
-- and every insert and every claim pays for it twice.
ALTER TABLE holdfast.jobs
    DROP CONSTRAINT jobs_kind,
    DROP CONSTRAINT jobs_queue,
    ADD CONSTRAINT jobs_kind CHECK (kind ~ '^[a-z0-9_.:-]+$' AND octet_length(kind) <= 64),
    ADD CONSTRAINT jobs_queue CHECK (queue ~ '^[a-z0-9_.:-]+$' AND octet_length(queue) <= 64);

-- Programs of 0.2 that still run call the functions due() and finish_and_claim(), which this release replaces: they stay
-- here, and the next migration drops them.
