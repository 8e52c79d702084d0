-- How long jobs of queues wait, which promises are broken, and how many workers each instance gives to a queue.

-- What the last looks have found. `late_looks` counts those in a row that found a promise passed; `late_at` is the last
-- of them. `told_at` remembers that a breach, or the end that `ended_at` names, was told.
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

-- How many jobs of a queue an instance runs at once while that may change, and why.
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
