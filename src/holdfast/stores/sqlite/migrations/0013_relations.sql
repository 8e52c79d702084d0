-- The jobs that a handler enqueued, and those that replay another one, each in the order of lists. Live jobs have them
-- too: whoever opens a job asks for both, and only jobs that have such a relation pay.

CREATE INDEX holdfast_jobs_parent ON holdfast_jobs (parent, enqueued_at, id) WHERE parent IS NOT NULL;
CREATE INDEX holdfast_history_parent ON holdfast_history (parent, enqueued_at, id) WHERE parent IS NOT NULL;
CREATE INDEX holdfast_jobs_origin ON holdfast_jobs (origin, enqueued_at, id) WHERE origin IS NOT NULL;
CREATE INDEX holdfast_history_origin ON holdfast_history (origin, enqueued_at, id) WHERE origin IS NOT NULL;
