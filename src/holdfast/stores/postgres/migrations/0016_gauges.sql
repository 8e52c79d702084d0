-- How much memory a worker process has, in bytes, as told with its last renewal; nothing where nobody can tell.
ALTER TABLE holdfast.workers ADD COLUMN memory_bytes bigint;
