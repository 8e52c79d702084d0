-- Escalation: what went wrong, who was told of it, and who has answered.

-- The escalation policy of the queue, by name; NULL: nobody is told.
ALTER TABLE holdfast.queues ADD COLUMN escalation text;

-- The inbox, append only: written in the transaction of whatever went wrong, emptied by the service that escalates.
-- Without a policy the queue's counts. Hardly anything is required: no alarm may undo what it tells of.
CREATE TABLE holdfast.alarms (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL,
    source text NOT NULL,
    policy text,
    queue text,
    kind text,
    fingerprint text,
    job_id bigint,
    life integer,
    title text,
    details jsonb,
    CONSTRAINT alarms_source CHECK (source IN ('failed', 'sla', 'budget', 'schedule'))
);
CREATE INDEX alarms_at ON holdfast.alarms (at);

-- What people deal with: alarms that belong together. `policy` was told first, `stage` is the policy in charge by now.
-- `said` counts the messages of that stage, `digested` the alarms that a digest has told of. `due_at` is when an answer
-- has to be there, `ack_told_at` when pagers were told of one. `version` lets one change win where two meet.
CREATE TABLE holdfast.escalations (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    policy text NOT NULL,
    stage text NOT NULL,
    source text NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    fingerprint text NOT NULL,
    title text NOT NULL,
    details jsonb,
    jobs bigint[] NOT NULL DEFAULT '{}',
    count bigint NOT NULL,
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    told_at timestamptz,
    said integer NOT NULL DEFAULT 0,
    digested bigint NOT NULL DEFAULT 0,
    due_at timestamptz,
    snoozed_until timestamptz,
    snoozed_by text,
    acked_at timestamptz,
    acked_by text,
    note text,
    ack_told_at timestamptz,
    closed_at timestamptz,
    resolved_at timestamptz,
    version integer NOT NULL DEFAULT 1
);
-- One open escalation of each, which counts what repeats.
CREATE UNIQUE INDEX escalations_open ON holdfast.escalations (policy, source, kind, fingerprint)
WHERE closed_at IS NULL;
CREATE INDEX escalations_unresolved ON holdfast.escalations (id) WHERE resolved_at IS NULL;
CREATE INDEX escalations_undigested ON holdfast.escalations (stage, id) WHERE digested < count;
CREATE INDEX escalations_last ON holdfast.escalations (last_at);

-- How far each policy has come: up to when its rate is used up (the theoretical arrival time of GCRA), and which daily
-- digest was the last.
CREATE TABLE holdfast.escalation_policies (
    name text PRIMARY KEY,
    rated_until timestamptz,
    digested_at timestamptz NOT NULL
);

-- The outbox: messages to channels, by the name of the channel; keys and addresses are known to those who send.
CREATE TABLE holdfast.notices (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    escalation bigint,
    policy text NOT NULL,
    channel text NOT NULL,
    event text NOT NULL,
    data jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    state text NOT NULL DEFAULT 'pending',
    tries integer NOT NULL DEFAULT 0,
    -- When it is tried next; whoever takes it sets this to the end of its lease.
    next_at timestamptz NOT NULL,
    ended_at timestamptz,
    error text,
    CONSTRAINT notices_state CHECK (state IN ('pending', 'sent', 'failed'))
);
CREATE INDEX notices_due ON holdfast.notices (next_at) WHERE state = 'pending';
CREATE INDEX notices_order ON holdfast.notices (escalation, channel, id) WHERE state = 'pending';
CREATE INDEX notices_escalation ON holdfast.notices (escalation, id);
CREATE INDEX notices_age ON holdfast.notices (created_at);
