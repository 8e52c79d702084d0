-- Slots that pass from one job of a worker to its next: found by their worker, which stays, so that no index is written.
CREATE INDEX slots_worker ON holdfast.slots (worker) WHERE worker IS NOT NULL;
DROP INDEX holdfast.slots_job;
