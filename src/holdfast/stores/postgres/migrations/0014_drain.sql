-- Instances of workers that somebody asked to leave; they learn of it with their next renewal.
--
-- By instance, and not with its workers: a process that is renewed at that moment must not forget it.
CREATE TABLE holdfast.drains (
    instance text PRIMARY KEY,
    asked_at timestamptz NOT NULL,
    asked_by text
);
