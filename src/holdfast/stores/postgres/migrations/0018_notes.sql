-- What is kept with a job is an object, as it is on SQLite: the database could not end a job with anything else there.
UPDATE holdfast.jobs SET extra = NULL WHERE jsonb_typeof(extra) <> 'object';
ALTER TABLE holdfast.jobs ADD CONSTRAINT jobs_extra CHECK (jsonb_typeof(extra) = 'object');
