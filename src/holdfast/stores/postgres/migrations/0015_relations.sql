-- The jobs that a handler enqueued, and those that replay another one, each in the order of lists. Live jobs have them
-- too: whoever opens a job asks for both, and only jobs that have such a relation pay.

CREATE INDEX jobs_parent ON holdfast.jobs (parent, enqueued_at, id) WHERE parent IS NOT NULL;
CREATE INDEX history_parent ON holdfast.history (parent, enqueued_at, id) WHERE parent IS NOT NULL;
CREATE INDEX jobs_origin ON holdfast.jobs (origin, enqueued_at, id) WHERE origin IS NOT NULL;
CREATE INDEX history_origin ON holdfast.history (origin, enqueued_at, id) WHERE origin IS NOT NULL;
