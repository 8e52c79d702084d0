-- What people look for among finished jobs, each in the order of lists. Live jobs have but one of these, for
-- those that are tried again: there are few of them, and every enqueue would pay.

CREATE INDEX holdfast_history_kind ON holdfast_history (kind, enqueued_at, id);
CREATE INDEX holdfast_history_queue ON holdfast_history (queue, enqueued_at, id);

-- Jobs that completed, which most are, are in none of the others unless somebody named an actor or a schedule.
CREATE INDEX holdfast_history_trouble ON holdfast_history (state, enqueued_at, id)
    WHERE state IN ('cancelled', 'completed_with_errors');
CREATE INDEX holdfast_history_trouble_kind ON holdfast_history (kind, enqueued_at, id) WHERE state <> 'completed';
CREATE INDEX holdfast_history_trouble_queue ON holdfast_history (queue, enqueued_at, id) WHERE state <> 'completed';
CREATE INDEX holdfast_history_errors ON holdfast_history (enqueued_at, id) WHERE error_class IS NOT NULL;
CREATE INDEX holdfast_history_actor ON holdfast_history (actor, enqueued_at, id) WHERE actor IS NOT NULL;
CREATE INDEX holdfast_history_unique ON holdfast_history (unique_key, enqueued_at, id) WHERE unique_key IS NOT NULL;
CREATE INDEX holdfast_history_schedule ON holdfast_history (schedule, enqueued_at, id) WHERE schedule IS NOT NULL;
CREATE INDEX holdfast_jobs_errors ON holdfast_jobs (enqueued_at, id) WHERE error_class IS NOT NULL;
