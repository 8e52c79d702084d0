-- How long jobs of queues wait, which promises are broken, and how many workers each instance gives to a queue.

-- What the last looks have found. `late_looks` counts those in a row that found a promise passed; `late_at` is the last
-- of them. `told_at` remembers that a breach, or the end that `ended_at` names, was told.
CREATE TABLE holdfast.sla_states (
    queue text PRIMARY KEY,
    sla_ms bigint,
    p95_ms bigint,
    starts integer NOT NULL,
    oldest_ms bigint,
    waiting integer NOT NULL,
    looked_at timestamptz NOT NULL,
    late_looks integer NOT NULL,
    late_at timestamptz,
    breached_at timestamptz,
    ended_at timestamptz,
    told_at timestamptz
);

-- How many jobs of a queue an instance runs at once while that may change, and why.
CREATE TABLE holdfast.tunings (
    instance text NOT NULL,
    queue text NOT NULL,
    workers integer NOT NULL,
    lowest integer NOT NULL,
    highest integer NOT NULL,
    reason text NOT NULL,
    changed_at timestamptz NOT NULL,
    PRIMARY KEY (instance, queue)
);
