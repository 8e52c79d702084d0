-- Phases, items and log lines of live jobs, events for whoever watches, webhooks that wait to be sent, and what has to be
-- told before a finished job is deleted. Whatever belongs to a live job is folded into its one history row when it ends.

-- `percent` is that of the whole job; the phase that is under way has its own.
ALTER TABLE holdfast_progress ADD COLUMN phase TEXT;
ALTER TABLE holdfast_progress ADD COLUMN phase_percent REAL;

ALTER TABLE holdfast_history ADD COLUMN phases TEXT;
ALTER TABLE holdfast_history ADD COLUMN items TEXT;
ALTER TABLE holdfast_history ADD COLUMN logs TEXT;

-- Milliseconds after which finished jobs are stale, by state; a missing state means never.
ALTER TABLE holdfast_queues ADD COLUMN stale TEXT NOT NULL DEFAULT '{}';
-- Whether somebody is told before a finished job is deleted, and when it becomes stale.
ALTER TABLE holdfast_queues ADD COLUMN tells INTEGER NOT NULL DEFAULT 0;
-- {"url": ..., "events": [...]}: where the ends of the queue's jobs are posted to.
ALTER TABLE holdfast_queues ADD COLUMN webhook TEXT;

CREATE TABLE holdfast_phases (
    job_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    ordinal INTEGER NOT NULL,
    weight REAL NOT NULL,
    state TEXT NOT NULL,
    claim INTEGER NOT NULL,
    percent REAL,
    message TEXT,
    data TEXT,
    error TEXT,
    result TEXT,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    PRIMARY KEY (job_id, name),
    CONSTRAINT phases_state CHECK (state IN ('running', 'completed', 'failed', 'cancelled')),
    CONSTRAINT phases_json CHECK ((data IS NULL OR json_valid(data)) AND (result IS NULL OR json_valid(result)))
) STRICT, WITHOUT ROWID;

-- A set of things that one phase works through; `word` is what readers call one of them.
CREATE TABLE holdfast_item_sets (
    job_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    word TEXT NOT NULL,
    phase TEXT,
    PRIMARY KEY (job_id, name)
) STRICT, WITHOUT ROWID;

-- One row per item, so that no report ever rewrites a list.
CREATE TABLE holdfast_items (
    job_id INTEGER NOT NULL,
    set_name TEXT NOT NULL,
    key TEXT NOT NULL,
    ordinal INTEGER NOT NULL,
    state TEXT NOT NULL,
    note TEXT,
    PRIMARY KEY (job_id, set_name, key),
    CONSTRAINT items_state CHECK (state IN ('in_progress', 'completed', 'skipped', 'failed'))
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_logs (
    job_id INTEGER NOT NULL,
    claim INTEGER NOT NULL,
    line INTEGER NOT NULL,
    at INTEGER NOT NULL,
    level TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (job_id, claim, line)
) STRICT, WITHOUT ROWID;

-- Who watches: while no row here is of the present, no event is written.
CREATE TABLE holdfast_watchers (
    id TEXT PRIMARY KEY,
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    job_id INTEGER NOT NULL,
    task TEXT NOT NULL,
    queue TEXT NOT NULL,
    state TEXT,
    life INTEGER NOT NULL,
    claim INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    data TEXT
) STRICT;

-- What is to be posted, with everything that the message says: its job may be deleted or live again meanwhile.
CREATE TABLE holdfast_deliveries (
    id INTEGER PRIMARY KEY,
    job_id INTEGER NOT NULL,
    life INTEGER NOT NULL,
    event TEXT NOT NULL,
    url TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    at INTEGER NOT NULL,
    task TEXT NOT NULL,
    queue TEXT NOT NULL,
    status TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    tags TEXT,
    error_class TEXT,
    error TEXT,
    result TEXT,
    result_omitted INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL DEFAULT 'pending',
    tries INTEGER NOT NULL DEFAULT 0,
    -- When it is tried next; whoever takes it sets this to the end of its lease.
    next_at INTEGER NOT NULL,
    ended_at INTEGER,
    log TEXT NOT NULL DEFAULT '[]',
    expires_at INTEGER NOT NULL,
    UNIQUE (job_id, life, event),
    CONSTRAINT deliveries_state CHECK (state IN ('pending', 'delivered', 'failed'))
) STRICT;

CREATE INDEX holdfast_deliveries_due ON holdfast_deliveries (next_at) WHERE state = 'pending';
CREATE INDEX holdfast_deliveries_expiry ON holdfast_deliveries (expires_at);

-- Places that said they are gone for good (410): nothing is posted there until somebody allows it again.
CREATE TABLE holdfast_disabled_endpoints (
    endpoint TEXT PRIMARY KEY,
    disabled_at INTEGER NOT NULL,
    reason TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What has to be told of a finished job before it is deleted, for the queues that ask for it.
CREATE TABLE holdfast_retention_due (
    job_id INTEGER NOT NULL,
    life INTEGER NOT NULL,
    queue TEXT NOT NULL,
    what TEXT NOT NULL,
    at INTEGER NOT NULL,
    delete_at INTEGER NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    error TEXT,
    PRIMARY KEY (job_id, what),
    CONSTRAINT retention_due_what CHECK (what IN ('stale', 'delete'))
) STRICT, WITHOUT ROWID;

CREATE INDEX holdfast_retention_due_at ON holdfast_retention_due (at);

DROP VIEW holdfast_live_jobs;
DROP VIEW holdfast_finished_jobs;
DROP VIEW holdfast_folded_progress;

CREATE VIEW holdfast_live_jobs AS
SELECT
    id, kind, queue, priority, state, position, payload, tags, actor, run_at, enqueued_at, enqueued_seq, claim, life,
    attempt, max_attempts, crashes, max_crashes, timeout_ms, worker, claim_batch, claimed_at, started_at,
    cancel_requested_at, announced_at, unique_key, idempotency_key, limit_key, fifo_key, debounce_key, schedule,
    fire_time, parent, workflow, pending, origin, error_class, error, error_fingerprint, extra, stale_at, delete_at,
    NULL AS finished_at,
    NULL AS result,
    (SELECT report.folded FROM holdfast_folded_progress AS report WHERE report.job_id = holdfast_jobs.id) AS progress,
    (SELECT ended.folded FROM holdfast_folded_attempts AS ended WHERE ended.job_id = holdfast_jobs.id) AS attempts,
    (SELECT part.folded FROM holdfast_folded_phases AS part WHERE part.job_id = holdfast_jobs.id) AS phases,
    (SELECT part.folded FROM holdfast_folded_items AS part WHERE part.job_id = holdfast_jobs.id) AS items,
    (SELECT part.folded FROM holdfast_folded_logs AS part WHERE part.job_id = holdfast_jobs.id) AS logs,
    (SELECT part.folded FROM holdfast_folded_deliveries AS part WHERE part.job_id = holdfast_jobs.id) AS deliveries
FROM holdfast_jobs;

CREATE VIEW holdfast_finished_jobs AS
SELECT
    id, kind, queue, priority, state, position, payload, tags, actor, run_at, enqueued_at, enqueued_seq, claim, life,
    attempt, max_attempts, crashes, max_crashes, timeout_ms, worker, claim_batch, claimed_at, started_at,
    cancel_requested_at, announced_at, unique_key, idempotency_key, limit_key, fifo_key, debounce_key, schedule,
    fire_time, parent, workflow, pending, origin, error_class, error, error_fingerprint, extra, stale_at, delete_at,
    finished_at, result, progress, attempts, phases, items, logs,
    (SELECT part.folded FROM holdfast_folded_deliveries AS part WHERE part.job_id = holdfast_history.id) AS deliveries
FROM holdfast_history;

CREATE VIEW holdfast_folded_progress AS
SELECT
    job_id,
    json_object(
        'percent', percent,
        'message', message,
        'data', json(data),
        'updated_at', strftime('%Y-%m-%dT%H:%M:%fZ', updated_at / 1000.0, 'unixepoch'),
        'phase', phase,
        'phase_percent', phase_percent
    ) AS folded
FROM holdfast_progress;

CREATE VIEW holdfast_folded_phases AS
SELECT
    job.job_id,
    (
        SELECT NULLIF(
            json_group_array(
                json_object(
                    'name', part.name,
                    'ordinal', part.ordinal,
                    'weight', part.weight,
                    'state', part.state,
                    'claim', part.claim,
                    'percent', part.percent,
                    'message', part.message,
                    'data', json(part.data),
                    'error', part.error,
                    'result', json(part.result),
                    'started_at', strftime('%Y-%m-%dT%H:%M:%fZ', part.started_at / 1000.0, 'unixepoch'),
                    'ended_at', strftime('%Y-%m-%dT%H:%M:%fZ', part.ended_at / 1000.0, 'unixepoch')
                )
            ),
            '[]'
        )
        FROM (SELECT * FROM holdfast_phases WHERE job_id = job.job_id ORDER BY ordinal, started_at, name) AS part
    ) AS folded
FROM holdfast_progress AS job;

CREATE VIEW holdfast_folded_items AS
SELECT
    job.job_id,
    (
        SELECT NULLIF(
            json_group_object(
                sets.name,
                json_object(
                    sets.name || '_total',
                    (SELECT count(*) FROM holdfast_items WHERE job_id = job.job_id AND set_name = sets.name),
                    sets.name || '_completed',
                    (
                        SELECT json_group_array(item.key)
                        FROM (
                            SELECT key FROM holdfast_items
                            WHERE job_id = job.job_id AND set_name = sets.name AND state = 'completed'
                            ORDER BY ordinal
                        ) AS item
                    ),
                    sets.name || '_skipped',
                    (
                        SELECT json_group_array(json_object(sets.word, item.key, 'reason', item.note))
                        FROM (
                            SELECT key, note FROM holdfast_items
                            WHERE job_id = job.job_id AND set_name = sets.name AND state = 'skipped'
                            ORDER BY ordinal
                        ) AS item
                    ),
                    sets.name || '_failed',
                    (
                        SELECT json_group_array(json_object(sets.word, item.key, 'error', item.note))
                        FROM (
                            SELECT key, note FROM holdfast_items
                            WHERE job_id = job.job_id AND set_name = sets.name AND state = 'failed'
                            ORDER BY ordinal
                        ) AS item
                    ),
                    sets.name || '_in_progress',
                    (
                        SELECT json_group_array(item.key)
                        FROM (
                            SELECT key FROM holdfast_items
                            WHERE job_id = job.job_id AND set_name = sets.name AND state = 'in_progress'
                            ORDER BY ordinal
                        ) AS item
                    ),
                    'word', sets.word,
                    'phase', sets.phase
                )
            ),
            '{}'
        )
        FROM holdfast_item_sets AS sets
        WHERE sets.job_id = job.job_id
    ) AS folded
FROM holdfast_progress AS job;

CREATE VIEW holdfast_folded_logs AS
SELECT
    job.job_id,
    (
        SELECT NULLIF(
            json_group_array(
                json_object(
                    'claim', part.claim,
                    'line', part.line,
                    'at', strftime('%Y-%m-%dT%H:%M:%fZ', part.at / 1000.0, 'unixepoch'),
                    'level', part.level,
                    'text', part.text
                )
            ),
            '[]'
        )
        FROM (SELECT * FROM holdfast_logs WHERE job_id = job.job_id ORDER BY claim, line) AS part
    ) AS folded
FROM holdfast_progress AS job;

CREATE VIEW holdfast_folded_deliveries AS
SELECT
    job_id,
    json_group_array(
        json_object(
            'life', life,
            'event', event,
            'url', url,
            'state', state,
            'tries', tries,
            'at', strftime('%Y-%m-%dT%H:%M:%fZ', at / 1000.0, 'unixepoch'),
            'next_at', CASE state WHEN 'pending' THEN strftime('%Y-%m-%dT%H:%M:%fZ', next_at / 1000.0, 'unixepoch') END,
            'ended_at', strftime('%Y-%m-%dT%H:%M:%fZ', ended_at / 1000.0, 'unixepoch'),
            'log', json(log)
        )
    ) AS folded
FROM (SELECT * FROM holdfast_deliveries ORDER BY id) AS part
GROUP BY job_id;
