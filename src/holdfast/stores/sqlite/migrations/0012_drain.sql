-- Instances of workers that somebody asked to leave; they learn of it with their next renewal.
--
-- By instance, and not with its workers: a process that is renewed at that moment must not forget it.
CREATE TABLE holdfast_drains (
    instance TEXT PRIMARY KEY,
    asked_at INTEGER NOT NULL,
    asked_by TEXT
) STRICT;
