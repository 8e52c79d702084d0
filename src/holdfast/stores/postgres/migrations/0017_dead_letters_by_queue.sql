-- Dead letters by queue: who may see some queues only is told what failed in those, and nothing of the others.

-- A group as it is in one queue; a group that is spread over three queues has three rows here.
CREATE TABLE holdfast.dead_letter_queues (
    queue text NOT NULL,
    id text NOT NULL,
    kind text NOT NULL,
    fingerprint text NOT NULL,
    error_class text,
    error text,
    seen bigint NOT NULL,
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    last_job bigint NOT NULL,
    PRIMARY KEY (queue, id)
);
CREATE INDEX dead_letter_queues_last ON holdfast.dead_letter_queues (last_at);

-- What is left of a group in one queue is counted in the index, however many of others there are.
CREATE INDEX history_dead_queue ON holdfast.history (kind, error_fingerprint, queue, enqueued_at, id)
    INCLUDE (delete_at)
    WHERE state = 'failed';

-- What was counted before: of which queue it was is known of jobs that are still there, and of no others.
INSERT INTO holdfast.dead_letter_queues (
    queue, id, kind, fingerprint, error_class, error, seen, first_at, last_at, last_job
)
SELECT
    h.queue, d.id, d.kind, d.fingerprint,
    (array_agg(h.error_class ORDER BY h.finished_at DESC, h.id DESC))[1],
    (array_agg(left(h.error, 500) ORDER BY h.finished_at DESC, h.id DESC))[1],
    count(*), min(h.finished_at), max(h.finished_at),
    (array_agg(h.id ORDER BY h.finished_at DESC, h.id DESC))[1]
FROM holdfast.history AS h
INNER JOIN holdfast.dead_letters AS d ON d.kind = h.kind AND d.fingerprint = h.error_fingerprint
WHERE h.state = 'failed'
    AND NOT EXISTS (SELECT FROM holdfast.failures AS f WHERE f.job_id = h.id AND f.life = h.life)
GROUP BY h.queue, d.id;
