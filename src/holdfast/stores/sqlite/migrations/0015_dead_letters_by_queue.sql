-- Dead letters by queue: who may see some queues only is told what failed in those, and nothing of the others.

-- A group as it is in one queue; a group that is spread over three queues has three rows here.
CREATE TABLE holdfast_dead_letter_queues (
    queue TEXT NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    error_class TEXT,
    error TEXT,
    seen INTEGER NOT NULL,
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    last_job INTEGER NOT NULL,
    PRIMARY KEY (queue, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_dead_letter_queues_last ON holdfast_dead_letter_queues (last_at);

-- What is left of a group in one queue is counted by its index, however many of others there are.
CREATE INDEX holdfast_history_dead_queue ON holdfast_history (kind, error_fingerprint, queue, enqueued_at, id)
WHERE state = 'failed';

-- What was counted before: of which queue it was is known of jobs that are still there, and of no others.
INSERT INTO holdfast_dead_letter_queues (
    queue, id, kind, fingerprint, error_class, error, seen, first_at, last_at, last_job
)
SELECT queue, group_id, kind, fingerprint, error_class, error, seen, first_at, finished_at, id
FROM (
    SELECT
        job.queue, dead.id AS group_id, dead.kind, dead.fingerprint, job.error_class,
        substr(job.error, 1, 500) AS error, job.finished_at, job.id,
        count(*) OVER alike AS seen,
        min(job.finished_at) OVER alike AS first_at,
        row_number() OVER (PARTITION BY job.queue, dead.id ORDER BY job.finished_at DESC, job.id DESC) AS place
    FROM holdfast_history AS job
    INNER JOIN holdfast_dead_letters AS dead ON dead.kind = job.kind AND dead.fingerprint = job.error_fingerprint
    WHERE job.state = 'failed'
        AND NOT EXISTS (
            SELECT 1 FROM holdfast_failures AS waiting WHERE waiting.job_id = job.id AND waiting.life = job.life
        )
    WINDOW alike AS (PARTITION BY job.queue, dead.id)
)
WHERE place = 1;
