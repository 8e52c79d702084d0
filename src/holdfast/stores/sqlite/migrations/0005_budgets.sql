-- What jobs may spend, what they have spent, and what is set aside for those that run. Amounts are whole millionths.

-- The budgets in force. `definition` is what programs or configuration say; the other columns are what holds, with the
-- changes that people have made at run time. `thresholds` are pairs of a share in millionths and an action.
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

-- One period of a budget, for one key: `spent` is the sum of its ledger, `reserved` what running jobs may still spend,
-- `lost` what jobs may have spent whose end nobody saw. `alerts` are the thresholds that were told of already.
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
CREATE INDEX holdfast_budget_periods_starts ON holdfast_budget_periods (budget, starts_at, key);
CREATE INDEX holdfast_budget_periods_ends ON holdfast_budget_periods (ends_at);

-- What is set aside for one claim, until it ends: `spent` is what it has reported within the period.
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
CREATE INDEX holdfast_reservations_lost ON holdfast_reservations (budget, job_id) WHERE state = 'lost';

-- Every amount that a handler has reported, never changed: the n-th one of a claim. Without a budget it counts for
-- none: the kind has none, or its budget is in another unit.
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
CREATE INDEX holdfast_ledger_budget ON holdfast_ledger (budget, at, id);
CREATE INDEX holdfast_ledger_kind ON holdfast_ledger (budget, kind, at);
CREATE INDEX holdfast_ledger_at ON holdfast_ledger (at, id);
