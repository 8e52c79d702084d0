-- Made by scripts/dump_schema.py from an empty database after `migrate up`: review it, never edit it.

CREATE VIEW holdfast_all_jobs (
    id, kind, queue, priority, state, position, args, tags, actor, run_at, enqueued_at, enqueued_seq, claim, run,
    attempt, max_attempts, crashes, max_crashes, timeout_ms, worker, claim_batch, claimed_at, started_at,
    cancel_requested_at, announced_at, unique_key, key, limit_key, fifo_key, debounce_key, schedule, fire_time, parent,
    workflow, pending, origin, error_class, error, error_fingerprint, extra, stale_at, delete_at, finished_at, result,
    progress, attempts, phases, items, logs, webhooks
) AS
SELECT * FROM holdfast_live_jobs
UNION ALL
SELECT * FROM holdfast_finished_jobs
WHERE delete_at > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER);

CREATE VIEW holdfast_finished_jobs AS
SELECT
    id, kind, queue, priority, state, position, payload, tags, actor, run_at, enqueued_at, enqueued_seq, claim, life,
    attempt, max_attempts, crashes, max_crashes, timeout_ms, worker, claim_batch, claimed_at, started_at,
    cancel_requested_at, announced_at, unique_key, idempotency_key, limit_key, fifo_key, debounce_key, schedule,
    fire_time, parent, workflow, pending, origin, error_class, error, error_fingerprint, extra, stale_at, delete_at,
    finished_at, result, progress, attempts, phases, items, logs,
    (SELECT part.folded FROM holdfast_folded_deliveries AS part WHERE part.job_id = holdfast_history.id) AS deliveries
FROM holdfast_history;

CREATE VIEW holdfast_folded_attempts AS
SELECT
    job.id AS job_id,
    (
        SELECT NULLIF(
            json_group_array(
                json_object(
                    'claim', ended.claim,
                    'attempt', ended.attempt,
                    'worker', ended.worker,
                    'claimed_at', strftime('%Y-%m-%dT%H:%M:%fZ', ended.claimed_at / 1000.0, 'unixepoch'),
                    'started_at', strftime('%Y-%m-%dT%H:%M:%fZ', ended.started_at / 1000.0, 'unixepoch'),
                    'ended_at', strftime('%Y-%m-%dT%H:%M:%fZ', ended.ended_at / 1000.0, 'unixepoch'),
                    'outcome', ended.outcome,
                    'error_class', ended.error_class,
                    'error', ended.error,
                    'traceback', CASE WHEN ended.later < 10 THEN ended.traceback END
                )
            ),
            '[]'
        )
        FROM (
            SELECT
                *,
                (
                    SELECT count(*) FROM holdfast_attempts AS later
                    WHERE later.job_id = one.job_id AND later.claim > one.claim
                ) AS later
            FROM holdfast_attempts AS one
            WHERE one.job_id = job.id
            ORDER BY one.claim
        ) AS ended
    ) AS folded
FROM holdfast_jobs AS job;

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

CREATE TRIGGER holdfast_tags_of_gone_job AFTER DELETE ON holdfast_history
WHEN OLD.tags IS NOT NULL AND NOT EXISTS (SELECT 1 FROM holdfast_jobs WHERE id = OLD.id)
BEGIN
    DELETE FROM holdfast_tags
    WHERE (name, value, enqueued_at, job_id) IN (
        SELECT tag.key, CAST(tag.value AS TEXT), OLD.enqueued_at, OLD.id FROM json_each(OLD.tags) AS tag
    );
END;

CREATE TRIGGER holdfast_tags_of_new_job AFTER INSERT ON holdfast_jobs WHEN NEW.tags IS NOT NULL
BEGIN
    INSERT OR IGNORE INTO holdfast_tags (name, value, enqueued_at, job_id)
    SELECT tag.key, CAST(tag.value AS TEXT), NEW.enqueued_at, NEW.id
    FROM json_each(NEW.tags) AS tag
    WHERE tag.value IS NOT NULL;
END;

CREATE TABLE holdfast_alarms (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    source TEXT NOT NULL,
    policy TEXT,
    queue TEXT,
    kind TEXT,
    fingerprint TEXT,
    job_id INTEGER,
    life INTEGER,
    title TEXT,
    details TEXT,
    CONSTRAINT alarms_source CHECK (source IN ('failed', 'sla', 'budget', 'schedule'))
) STRICT;

CREATE TABLE holdfast_attempts (
    job_id INTEGER NOT NULL,
    claim INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    worker INTEGER,
    claimed_at INTEGER,
    started_at INTEGER,
    ended_at INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    error_class TEXT,
    error TEXT,
    traceback TEXT,
    PRIMARY KEY (job_id, claim)
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    role TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    queue TEXT,
    status INTEGER NOT NULL,
    detail TEXT NOT NULL,
    request TEXT NOT NULL
) STRICT;

CREATE TABLE holdfast_budget_periods (
    budget TEXT NOT NULL,
    key TEXT NOT NULL,
    starts_at INTEGER NOT NULL,
    ends_at INTEGER NOT NULL,
    spent INTEGER NOT NULL DEFAULT 0,
    reserved INTEGER NOT NULL DEFAULT 0,
    lost INTEGER NOT NULL DEFAULT 0,
    alerts TEXT NOT NULL DEFAULT '[]',
    PRIMARY KEY (budget, key, starts_at),
    CONSTRAINT budget_periods_sums CHECK (spent >= 0 AND reserved >= 0 AND lost >= 0),
    CONSTRAINT budget_periods_json CHECK (json_valid(alerts))
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_budgets (
    name TEXT PRIMARY KEY,
    definition TEXT NOT NULL,
    unit TEXT NOT NULL,
    ceiling INTEGER NOT NULL,
    period TEXT NOT NULL,
    tz TEXT NOT NULL,
    queue TEXT,
    kinds TEXT NOT NULL,
    path TEXT NOT NULL,
    thresholds TEXT NOT NULL,
    changed_at INTEGER NOT NULL,
    CONSTRAINT budgets_json CHECK (
        json_valid(definition) AND json_valid(kinds) AND json_valid(path) AND json_valid(thresholds)
    ),
    CONSTRAINT budgets_ceiling CHECK (ceiling >= 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_bulk_runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    verb TEXT NOT NULL,
    filter TEXT NOT NULL,
    priority INTEGER,
    actor TEXT,
    reason TEXT,
    state TEXT NOT NULL DEFAULT 'running',
    expected INTEGER NOT NULL,
    spacing_us INTEGER NOT NULL,
    step INTEGER NOT NULL DEFAULT 0,
    done INTEGER NOT NULL DEFAULT 0,
    refused INTEGER NOT NULL DEFAULT 0,
    cursor_at INTEGER,
    cursor_id INTEGER,
    started_at INTEGER NOT NULL,
    next_at INTEGER NOT NULL,
    ended_at INTEGER, errors INTEGER NOT NULL DEFAULT 0, failing_since INTEGER, error TEXT, gave_up INTEGER NOT NULL DEFAULT 0,
    CONSTRAINT bulk_runs_verb CHECK (verb IN ('retry', 'delete', 'cancel', 'reprioritise')),
    CONSTRAINT bulk_runs_state CHECK (state IN ('running', 'paused', 'cancelled', 'ended')),
    CONSTRAINT bulk_runs_json CHECK (json_valid(filter))
) STRICT;

CREATE TABLE holdfast_counters (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

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

CREATE TABLE holdfast_dead_letters (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    queue TEXT NOT NULL,
    error_class TEXT,
    error TEXT,
    seen INTEGER NOT NULL,
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    last_job INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

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

CREATE TABLE holdfast_disabled_endpoints (
    endpoint TEXT PRIMARY KEY,
    disabled_at INTEGER NOT NULL,
    reason TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_drains (
    instance TEXT PRIMARY KEY,
    asked_at INTEGER NOT NULL,
    asked_by TEXT
) STRICT;

CREATE TABLE holdfast_escalation_policies (
    name TEXT PRIMARY KEY,
    rated_until INTEGER,
    digested_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_escalations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    policy TEXT NOT NULL,
    stage TEXT NOT NULL,
    source TEXT NOT NULL,
    queue TEXT NOT NULL,
    kind TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    title TEXT NOT NULL,
    details TEXT,
    jobs TEXT NOT NULL DEFAULT '[]',
    count INTEGER NOT NULL,
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    told_at INTEGER,
    said INTEGER NOT NULL DEFAULT 0,
    digested INTEGER NOT NULL DEFAULT 0,
    due_at INTEGER,
    snoozed_until INTEGER,
    snoozed_by TEXT,
    acked_at INTEGER,
    acked_by TEXT,
    note TEXT,
    ack_told_at INTEGER,
    closed_at INTEGER,
    resolved_at INTEGER,
    version INTEGER NOT NULL DEFAULT 1
) STRICT;

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

CREATE TABLE holdfast_failures (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    job_id INTEGER NOT NULL,
    life INTEGER NOT NULL,
    kind TEXT NOT NULL,
    queue TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    error_class TEXT,
    error TEXT
) STRICT;

CREATE TABLE holdfast_fires (
    schedule TEXT NOT NULL,
    nominal INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    job_id INTEGER,
    note TEXT,
    at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (schedule, nominal),
    CONSTRAINT fires_outcome CHECK (outcome IN ('enqueued', 'by_hand', 'overlap', 'missed', 'maintenance'))
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_gauges (
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    state TEXT NOT NULL,
    jobs INTEGER NOT NULL,
    oldest_at INTEGER,
    measured_at INTEGER NOT NULL,
    PRIMARY KEY (queue, priority, state)
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_history (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    state TEXT NOT NULL,
    position INTEGER,
    payload TEXT NOT NULL,
    tags TEXT,
    actor TEXT,
    run_at INTEGER NOT NULL,
    enqueued_at INTEGER NOT NULL,
    enqueued_seq INTEGER,
    claim INTEGER NOT NULL,
    life INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    crashes INTEGER NOT NULL,
    max_crashes INTEGER NOT NULL,
    timeout_ms INTEGER,
    worker INTEGER,
    claim_batch INTEGER,
    claimed_at INTEGER,
    started_at INTEGER,
    cancel_requested_at INTEGER,
    announced_at INTEGER,
    unique_key TEXT,
    idempotency_key TEXT,
    limit_key TEXT,
    fifo_key TEXT,
    debounce_key TEXT,
    schedule TEXT,
    fire_time INTEGER,
    parent INTEGER,
    workflow INTEGER,
    pending INTEGER,
    origin INTEGER,
    error_class TEXT,
    error TEXT,
    error_fingerprint TEXT,
    extra TEXT,
    stale_at INTEGER,
    delete_at INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    result TEXT,
    progress TEXT,
    attempts TEXT, phases TEXT, items TEXT, logs TEXT,
    CONSTRAINT history_state CHECK (state IN ('completed', 'completed_with_errors', 'failed', 'cancelled')),
    CONSTRAINT history_result CHECK (result IS NULL OR json_valid(result))
) STRICT;

CREATE TABLE holdfast_idempotency (
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    job_id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    payload_hash INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_item_sets (
    job_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    word TEXT NOT NULL,
    phase TEXT,
    PRIMARY KEY (job_id, name)
) STRICT, WITHOUT ROWID;

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

CREATE TABLE holdfast_jobs (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    state TEXT NOT NULL,
    position INTEGER,
    payload TEXT NOT NULL,
    tags TEXT,
    actor TEXT,
    run_at INTEGER NOT NULL,
    enqueued_at INTEGER NOT NULL,
    enqueued_seq INTEGER,
    claim INTEGER NOT NULL DEFAULT 0,
    life INTEGER NOT NULL DEFAULT 1,
    attempt INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL,
    crashes INTEGER NOT NULL DEFAULT 0,
    max_crashes INTEGER NOT NULL,
    timeout_ms INTEGER,
    worker INTEGER,
    claim_batch INTEGER,
    claimed_at INTEGER,
    started_at INTEGER,
    cancel_requested_at INTEGER,
    announced_at INTEGER,
    unique_key TEXT,
    idempotency_key TEXT,
    limit_key TEXT,
    fifo_key TEXT,
    debounce_key TEXT,
    schedule TEXT,
    fire_time INTEGER,
    parent INTEGER,
    workflow INTEGER,
    pending INTEGER,
    origin INTEGER,
    error_class TEXT,
    error TEXT,
    error_fingerprint TEXT,
    extra TEXT,
    stale_at INTEGER,
    delete_at INTEGER,
    -- A row that another program writes wrongly is refused here, so that no loop ever meets it.
    CONSTRAINT jobs_id CHECK (id BETWEEN 0 AND 1152921504606846975),
    CONSTRAINT jobs_kind CHECK (length(kind) BETWEEN 1 AND 64 AND kind NOT GLOB '*[^a-z0-9_.:-]*'),
    CONSTRAINT jobs_queue CHECK (length(queue) BETWEEN 1 AND 64 AND queue NOT GLOB '*[^a-z0-9_.:-]*'),
    CONSTRAINT jobs_priority CHECK (priority BETWEEN 0 AND 10),
    CONSTRAINT jobs_state CHECK (state IN ('blocked', 'scheduled', 'queued', 'held', 'running')),
    CONSTRAINT jobs_position CHECK (state <> 'queued' OR position IS NOT NULL),
    CONSTRAINT jobs_run_at CHECK (run_at >= 0 AND run_at < 253370764800000),
    CONSTRAINT jobs_enqueued_at CHECK (enqueued_at >= 0 AND enqueued_at < 253370764800000),
    CONSTRAINT jobs_counts CHECK (
        claim >= 0 AND life >= 1 AND attempt >= 0 AND max_attempts >= 1 AND crashes >= 0 AND max_crashes >= 1
    ),
    CONSTRAINT jobs_timeout CHECK (timeout_ms > 0),
    CONSTRAINT jobs_keys CHECK (
        length(CAST(unique_key AS BLOB)) <= 512
        AND length(CAST(idempotency_key AS BLOB)) <= 512
        AND length(CAST(actor AS BLOB)) <= 256
    ),
    CONSTRAINT jobs_payload CHECK (json_valid(payload) AND json_type(payload) = 'object'),
    CONSTRAINT jobs_tags CHECK (tags IS NULL OR (json_valid(tags) AND json_type(tags) = 'object')),
    CONSTRAINT jobs_extra CHECK (extra IS NULL OR (json_valid(extra) AND json_type(extra) = 'object'))
) STRICT;

CREATE TABLE holdfast_kinds (
    name TEXT PRIMARY KEY,
    queue TEXT NOT NULL,
    definition TEXT NOT NULL,
    debounce_ms INTEGER,
    debounce_path TEXT,
    budget TEXT,
    estimate INTEGER,
    published_at INTEGER NOT NULL,
    -- The queues that it once had: programs that know no better may still enqueue there.
    former TEXT NOT NULL DEFAULT '[]',
    CONSTRAINT kinds_json CHECK (json_valid(definition) AND json_valid(former))
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_leaders (
    name TEXT PRIMARY KEY,
    term INTEGER NOT NULL,
    holder TEXT NOT NULL,
    since INTEGER NOT NULL,
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_ledger (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    budget TEXT,
    key TEXT NOT NULL,
    kind TEXT NOT NULL,
    queue TEXT NOT NULL,
    actor TEXT,
    job_id INTEGER NOT NULL,
    claim INTEGER NOT NULL,
    n INTEGER NOT NULL,
    unit TEXT NOT NULL,
    amount INTEGER NOT NULL,
    note TEXT,
    is_late INTEGER NOT NULL,
    CONSTRAINT ledger_claim UNIQUE (job_id, claim, n),
    CONSTRAINT ledger_amount CHECK (amount >= 0)
) STRICT;

CREATE TABLE holdfast_limit_keys (
    limit_name TEXT NOT NULL,
    key TEXT NOT NULL,
    throttled_until INTEGER,
    rated_until INTEGER,
    wake_at INTEGER,
    seen_at INTEGER NOT NULL,
    PRIMARY KEY (limit_name, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_limits (
    name TEXT PRIMARY KEY,
    definition TEXT NOT NULL,
    queue TEXT,
    kinds TEXT NOT NULL,
    path TEXT NOT NULL,
    concurrency INTEGER,
    scope TEXT NOT NULL,
    throttle_us INTEGER,
    burst INTEGER NOT NULL,
    rate_us INTEGER,
    rate_burst INTEGER,
    rotate INTEGER NOT NULL,
    fifo INTEGER NOT NULL,
    metric TEXT,
    changed_at INTEGER NOT NULL,
    CONSTRAINT limits_json CHECK (json_valid(definition) AND json_valid(kinds) AND json_valid(path))
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_lock_waiters (
    ticket INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    owner TEXT NOT NULL UNIQUE,
    context TEXT NOT NULL,
    place TEXT NOT NULL,
    worker INTEGER,
    job_id INTEGER,
    claim INTEGER,
    since INTEGER NOT NULL,
    until INTEGER NOT NULL
) STRICT;

CREATE TABLE holdfast_locks (
    name TEXT PRIMARY KEY,
    token INTEGER NOT NULL,
    owner TEXT NOT NULL UNIQUE,
    context TEXT NOT NULL,
    place TEXT NOT NULL,
    worker INTEGER,
    job_id INTEGER,
    claim INTEGER,
    since INTEGER NOT NULL,
    until INTEGER NOT NULL
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

CREATE TABLE holdfast_meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_notices (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    escalation INTEGER,
    policy TEXT NOT NULL,
    channel TEXT NOT NULL,
    event TEXT NOT NULL,
    data TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'pending',
    tries INTEGER NOT NULL DEFAULT 0,
    -- When it is tried next; whoever takes it sets this to the end of its lease.
    next_at INTEGER NOT NULL,
    ended_at INTEGER,
    error TEXT,
    CONSTRAINT notices_state CHECK (state IN ('pending', 'sent', 'failed'))
) STRICT;

CREATE TABLE holdfast_overrides (
    path TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    actor TEXT,
    reason TEXT,
    changed_at INTEGER NOT NULL,
    CONSTRAINT overrides_json CHECK (json_valid(value))
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_passes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    digest TEXT NOT NULL UNIQUE,
    hint TEXT NOT NULL,
    role TEXT NOT NULL,
    queues TEXT,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    expires_at INTEGER,
    used_at INTEGER,
    revoked_at INTEGER,
    revoked_by TEXT,
    parent INTEGER
) STRICT;

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

CREATE TABLE holdfast_policies (
    path TEXT PRIMARY KEY,
    definition TEXT NOT NULL,
    published_at INTEGER NOT NULL,
    CONSTRAINT policies_json CHECK (json_valid(definition))
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_progress (
    job_id INTEGER PRIMARY KEY,
    claim INTEGER,
    percent REAL,
    message TEXT,
    data TEXT,
    updated_at INTEGER NOT NULL, phase TEXT, phase_percent REAL,
    CONSTRAINT progress_data CHECK (data IS NULL OR json_valid(data))
) STRICT;

CREATE TABLE holdfast_queues (
    name TEXT PRIMARY KEY,
    paused_at INTEGER,
    paused_by TEXT,
    paused_reason TEXT,
    -- Milliseconds that finished jobs are kept, by state; a missing state means the default, null means for ever.
    retention TEXT NOT NULL DEFAULT '{}', stale TEXT NOT NULL DEFAULT '{}', tells INTEGER NOT NULL DEFAULT 0, webhook TEXT, gated INTEGER NOT NULL DEFAULT 0, closed_until INTEGER, resumed_at INTEGER, definition TEXT, screened INTEGER NOT NULL DEFAULT 0, escalation TEXT,
    CONSTRAINT queues_name CHECK (length(name) BETWEEN 1 AND 64 AND name NOT GLOB '*[^a-z0-9_.:-]*'),
    CONSTRAINT queues_retention CHECK (json_valid(retention) AND json_type(retention) = 'object')
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_reservations (
    job_id INTEGER NOT NULL,
    claim INTEGER NOT NULL,
    budget TEXT NOT NULL,
    key TEXT NOT NULL,
    starts_at INTEGER NOT NULL,
    queue TEXT NOT NULL,
    amount INTEGER NOT NULL,
    spent INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL DEFAULT 'open',
    at INTEGER NOT NULL,
    PRIMARY KEY (job_id, claim),
    CONSTRAINT reservations_state CHECK (state IN ('open', 'lost'))
) STRICT, WITHOUT ROWID;

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

CREATE TABLE holdfast_rollups (
    minute INTEGER NOT NULL,
    queue TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    jobs INTEGER NOT NULL,
    wait TEXT NOT NULL,
    run TEXT NOT NULL
, span_s INTEGER NOT NULL DEFAULT 1) STRICT;

CREATE TABLE holdfast_schedules (
    name TEXT PRIMARY KEY,
    origin TEXT NOT NULL,
    definition TEXT NOT NULL,
    override TEXT NOT NULL DEFAULT '{}',
    -- Gone from what the programs define: it fires no more, and nothing about it is forgotten.
    withdrawn_at INTEGER,
    version INTEGER NOT NULL DEFAULT 1,
    defined_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    changed_by TEXT,
    -- The last nominal time that was decided on, whatever came of it, and the next one.
    last_fire INTEGER,
    next_fire INTEGER,
    CONSTRAINT schedules_origin CHECK (origin IN ('code', 'stored')),
    CONSTRAINT schedules_json CHECK (json_valid(definition) AND json_valid(override))
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_schema_migrations (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT;

CREATE TABLE holdfast_service_reports (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    at INTEGER NOT NULL,
    runs INTEGER NOT NULL,
    scanned INTEGER NOT NULL,
    moved INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    lag_ms INTEGER NOT NULL,
    error TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_sla_states (
    queue TEXT PRIMARY KEY,
    sla_ms INTEGER,
    p95_ms INTEGER,
    starts INTEGER NOT NULL,
    oldest_ms INTEGER,
    waiting INTEGER NOT NULL,
    looked_at INTEGER NOT NULL,
    late_looks INTEGER NOT NULL,
    late_at INTEGER,
    breached_at INTEGER,
    ended_at INTEGER,
    told_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_slots (
    limit_name TEXT NOT NULL,
    key TEXT NOT NULL,
    n INTEGER NOT NULL,
    job_id INTEGER,
    claim INTEGER,
    worker INTEGER,
    taken_at INTEGER,
    PRIMARY KEY (limit_name, key, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_tags (
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    enqueued_at INTEGER NOT NULL,
    job_id INTEGER NOT NULL,
    PRIMARY KEY (name, value, enqueued_at, job_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_tunings (
    instance TEXT NOT NULL,
    queue TEXT NOT NULL,
    workers INTEGER NOT NULL,
    lowest INTEGER NOT NULL,
    highest INTEGER NOT NULL,
    reason TEXT NOT NULL,
    changed_at INTEGER NOT NULL,
    PRIMARY KEY (instance, queue)
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_watchers (
    id TEXT PRIMARY KEY,
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_workers (
    id INTEGER PRIMARY KEY,
    instance TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    boot_id TEXT,
    pid_namespace TEXT,
    process_start INTEGER,
    version TEXT,
    queues TEXT NOT NULL,
    concurrency INTEGER NOT NULL,
    registered_at INTEGER NOT NULL,
    renewed_at INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    dead_at INTEGER
, policies TEXT, memory_bytes INTEGER) STRICT;

CREATE TABLE sqlite_sequence(name,seq);

CREATE INDEX holdfast_alarms_at ON holdfast_alarms (at);

CREATE INDEX holdfast_audit_at ON holdfast_audit (at);

CREATE INDEX holdfast_audit_target ON holdfast_audit (target, id);

CREATE INDEX holdfast_budget_periods_ends ON holdfast_budget_periods (ends_at);

CREATE INDEX holdfast_budget_periods_starts ON holdfast_budget_periods (budget, starts_at, key);

CREATE INDEX holdfast_bulk_runs_due ON holdfast_bulk_runs (next_at) WHERE state = 'running';

CREATE INDEX holdfast_bulk_runs_ended ON holdfast_bulk_runs (ended_at) WHERE ended_at IS NOT NULL;

CREATE INDEX holdfast_dead_letter_queues_last ON holdfast_dead_letter_queues (last_at);

CREATE INDEX holdfast_dead_letters_last ON holdfast_dead_letters (last_at);

CREATE INDEX holdfast_deliveries_due ON holdfast_deliveries (next_at) WHERE state = 'pending';

CREATE INDEX holdfast_deliveries_expiry ON holdfast_deliveries (expires_at);

CREATE INDEX holdfast_escalations_last ON holdfast_escalations (last_at);

CREATE UNIQUE INDEX holdfast_escalations_open ON holdfast_escalations (policy, source, kind, fingerprint)
WHERE closed_at IS NULL;

CREATE INDEX holdfast_escalations_undigested ON holdfast_escalations (stage, id) WHERE digested < count;

CREATE INDEX holdfast_escalations_unresolved ON holdfast_escalations (id) WHERE resolved_at IS NULL;

CREATE INDEX holdfast_fires_expiry ON holdfast_fires (expires_at);

CREATE INDEX holdfast_history_actor ON holdfast_history (actor, enqueued_at, id) WHERE actor IS NOT NULL;

CREATE INDEX holdfast_history_dead ON holdfast_history (kind, error_fingerprint, enqueued_at, id)
WHERE state = 'failed';

CREATE INDEX holdfast_history_dead_queue ON holdfast_history (kind, error_fingerprint, queue, enqueued_at, id)
WHERE state = 'failed';

CREATE INDEX holdfast_history_errors ON holdfast_history (enqueued_at, id) WHERE error_class IS NOT NULL;

CREATE INDEX holdfast_history_expiry ON holdfast_history (delete_at);

CREATE INDEX holdfast_history_failed ON holdfast_history (enqueued_at, id) WHERE state = 'failed';

CREATE INDEX holdfast_history_fingerprint ON holdfast_history (error_fingerprint, enqueued_at, id)
    WHERE error_fingerprint IS NOT NULL;

CREATE INDEX holdfast_history_kind ON holdfast_history (kind, enqueued_at, id);

CREATE INDEX holdfast_history_listed ON holdfast_history (enqueued_at, id);

CREATE INDEX holdfast_history_origin ON holdfast_history (origin, enqueued_at, id) WHERE origin IS NOT NULL;

CREATE INDEX holdfast_history_parent ON holdfast_history (parent, enqueued_at, id) WHERE parent IS NOT NULL;

CREATE INDEX holdfast_history_queue ON holdfast_history (queue, enqueued_at, id);

CREATE INDEX holdfast_history_schedule ON holdfast_history (schedule, enqueued_at, id) WHERE schedule IS NOT NULL;

CREATE INDEX holdfast_history_trouble ON holdfast_history (state, enqueued_at, id)
    WHERE state IN ('cancelled', 'completed_with_errors');

CREATE INDEX holdfast_history_trouble_kind ON holdfast_history (kind, enqueued_at, id) WHERE state <> 'completed';

CREATE INDEX holdfast_history_trouble_queue ON holdfast_history (queue, enqueued_at, id) WHERE state <> 'completed';

CREATE INDEX holdfast_history_unique ON holdfast_history (unique_key, enqueued_at, id) WHERE unique_key IS NOT NULL;

CREATE INDEX holdfast_idempotency_expiry ON holdfast_idempotency (expires_at);

CREATE INDEX holdfast_jobs_cancelling ON holdfast_jobs (cancel_requested_at) WHERE cancel_requested_at IS NOT NULL;

CREATE UNIQUE INDEX holdfast_jobs_debounce ON holdfast_jobs (kind, debounce_key)
WHERE debounce_key IS NOT NULL AND state = 'scheduled' AND claim = 0;

CREATE INDEX holdfast_jobs_deferred ON holdfast_jobs (run_at, id) WHERE state = 'held' AND position IS NULL;

CREATE INDEX holdfast_jobs_due ON holdfast_jobs (run_at, id, queue, state) WHERE state = 'scheduled';

CREATE INDEX holdfast_jobs_errors ON holdfast_jobs (enqueued_at, id) WHERE error_class IS NOT NULL;

CREATE INDEX holdfast_jobs_fifo ON holdfast_jobs (fifo_key, enqueued_seq) WHERE fifo_key IS NOT NULL;

CREATE INDEX holdfast_jobs_held ON holdfast_jobs (limit_key, priority, position)
WHERE state = 'held' AND position IS NOT NULL;

CREATE INDEX holdfast_jobs_listed ON holdfast_jobs (enqueued_at, id);

CREATE INDEX holdfast_jobs_origin ON holdfast_jobs (origin, enqueued_at, id) WHERE origin IS NOT NULL;

CREATE INDEX holdfast_jobs_parent ON holdfast_jobs (parent, enqueued_at, id) WHERE parent IS NOT NULL;

CREATE INDEX holdfast_jobs_parked ON holdfast_jobs (state, limit_key, enqueued_seq, queue)
    WHERE state IN ('held', 'blocked');

CREATE INDEX holdfast_jobs_ready ON holdfast_jobs (queue, priority, position, state) WHERE state = 'queued';

CREATE INDEX holdfast_jobs_running ON holdfast_jobs (worker, claim_batch, queue, state) WHERE state = 'running';

CREATE INDEX holdfast_jobs_schedule ON holdfast_jobs (schedule) WHERE schedule IS NOT NULL;

CREATE UNIQUE INDEX holdfast_jobs_unique ON holdfast_jobs (kind, unique_key) WHERE unique_key IS NOT NULL;

CREATE INDEX holdfast_ledger_at ON holdfast_ledger (at, id);

CREATE INDEX holdfast_ledger_budget ON holdfast_ledger (budget, at, id);

CREATE INDEX holdfast_ledger_kind ON holdfast_ledger (budget, kind, at);

CREATE INDEX holdfast_limit_keys_seen ON holdfast_limit_keys (seen_at);

CREATE INDEX holdfast_limit_keys_wake ON holdfast_limit_keys (wake_at) WHERE wake_at IS NOT NULL;

CREATE INDEX holdfast_lock_waiters_context ON holdfast_lock_waiters (context);

CREATE INDEX holdfast_lock_waiters_job ON holdfast_lock_waiters (job_id, claim) WHERE job_id IS NOT NULL;

CREATE INDEX holdfast_lock_waiters_name ON holdfast_lock_waiters (name, ticket);

CREATE INDEX holdfast_lock_waiters_until ON holdfast_lock_waiters (until);

CREATE INDEX holdfast_locks_job ON holdfast_locks (job_id, claim) WHERE job_id IS NOT NULL;

CREATE INDEX holdfast_locks_until ON holdfast_locks (until);

CREATE INDEX holdfast_notices_age ON holdfast_notices (created_at);

CREATE INDEX holdfast_notices_due ON holdfast_notices (next_at) WHERE state = 'pending';

CREATE INDEX holdfast_notices_escalation ON holdfast_notices (escalation, id);

CREATE INDEX holdfast_notices_order ON holdfast_notices (escalation, channel, id) WHERE state = 'pending';

CREATE INDEX holdfast_passes_parent ON holdfast_passes (parent) WHERE parent IS NOT NULL;

CREATE INDEX holdfast_reservations_lost ON holdfast_reservations (budget, job_id) WHERE state = 'lost';

CREATE INDEX holdfast_retention_due_at ON holdfast_retention_due (at);

CREATE INDEX holdfast_rollups_fold ON holdfast_rollups (span_s, minute);

CREATE INDEX holdfast_rollups_minute ON holdfast_rollups (minute);

CREATE INDEX holdfast_slots_free ON holdfast_slots (limit_name, key, n) WHERE job_id IS NULL;

CREATE INDEX holdfast_slots_job ON holdfast_slots (job_id, claim) WHERE job_id IS NOT NULL;
