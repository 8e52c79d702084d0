-- What people look for among finished jobs, each in the order of lists. Live jobs have but one of these, for
-- those that are tried again: there are few of them, and every claim would pay.

CREATE INDEX history_kind ON holdfast.history (kind, enqueued_at, id);
CREATE INDEX history_queue ON holdfast.history (queue, enqueued_at, id);

-- Jobs that completed, which most are, are in none of the others unless somebody named an actor or a schedule.
CREATE INDEX history_trouble ON holdfast.history (state, enqueued_at, id) INCLUDE (delete_at)
    WHERE state IN ('cancelled', 'completed_with_errors');
CREATE INDEX history_trouble_kind ON holdfast.history (kind, enqueued_at, id) INCLUDE (state, delete_at)
    WHERE state <> 'completed';
CREATE INDEX history_trouble_queue ON holdfast.history (queue, enqueued_at, id) INCLUDE (state, delete_at)
    WHERE state <> 'completed';
CREATE INDEX history_errors ON holdfast.history (enqueued_at, id) WHERE error_class IS NOT NULL;
CREATE INDEX history_actor ON holdfast.history (actor, enqueued_at, id) WHERE actor IS NOT NULL;
CREATE INDEX history_unique ON holdfast.history (unique_key, enqueued_at, id) WHERE unique_key IS NOT NULL;
CREATE INDEX history_schedule ON holdfast.history (schedule, enqueued_at, id) WHERE schedule IS NOT NULL;
CREATE INDEX jobs_errors ON holdfast.jobs (enqueued_at, id) WHERE error_class IS NOT NULL;

-- With what tells whether a job is still there: whoever counts failed jobs reads nothing but the index.
DROP INDEX holdfast.history_dead;
DROP INDEX holdfast.history_failed;
CREATE INDEX history_dead ON holdfast.history (kind, error_fingerprint, enqueued_at, id) INCLUDE (delete_at)
    WHERE state = 'failed';
CREATE INDEX history_failed ON holdfast.history (enqueued_at, id) INCLUDE (delete_at) WHERE state = 'failed';
