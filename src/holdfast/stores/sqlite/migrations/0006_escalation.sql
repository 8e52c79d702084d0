-- Escalation: what went wrong, who was told of it, and who has answered.

-- The escalation policy of the queue, by name; NULL: nobody is told.
ALTER TABLE holdfast_queues ADD COLUMN escalation TEXT;

-- The inbox, append only: written in the transaction of whatever went wrong, emptied by the service that escalates.
-- Without a policy the queue's counts. Hardly anything is required: no alarm may undo what it tells of.
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
CREATE INDEX holdfast_alarms_at ON holdfast_alarms (at);

-- What people deal with: alarms that belong together. `policy` was told first, `stage` is the policy in charge by now.
-- `said` counts the messages of that stage, `digested` the alarms that a digest has told of. `due_at` is when an answer
-- has to be there, `ack_told_at` when pagers were told of one. `version` lets one change win where two meet.
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
-- One open escalation of each, which counts what repeats.
CREATE UNIQUE INDEX holdfast_escalations_open ON holdfast_escalations (policy, source, kind, fingerprint)
WHERE closed_at IS NULL;
CREATE INDEX holdfast_escalations_unresolved ON holdfast_escalations (id) WHERE resolved_at IS NULL;
CREATE INDEX holdfast_escalations_undigested ON holdfast_escalations (stage, id) WHERE digested < count;
CREATE INDEX holdfast_escalations_last ON holdfast_escalations (last_at);

-- How far each policy has come: up to when its rate is used up (the theoretical arrival time of GCRA), and which daily
-- digest was the last.
CREATE TABLE holdfast_escalation_policies (
    name TEXT PRIMARY KEY,
    rated_until INTEGER,
    digested_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The outbox: messages to channels, by the name of the channel; keys and addresses are known to those who send.
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
CREATE INDEX holdfast_notices_due ON holdfast_notices (next_at) WHERE state = 'pending';
CREATE INDEX holdfast_notices_order ON holdfast_notices (escalation, channel, id) WHERE state = 'pending';
CREATE INDEX holdfast_notices_escalation ON holdfast_notices (escalation, id);
CREATE INDEX holdfast_notices_age ON holdfast_notices (created_at);
