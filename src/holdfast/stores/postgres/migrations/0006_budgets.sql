-- What jobs may spend, what they have spent, and what is set aside for those that run. Amounts are whole millionths.

-- The budgets in force. `definition` is what programs or configuration say; the other columns are what holds, with the
-- changes that people have made at run time. `thresholds` are pairs of a share in millionths and an action.
CREATE TABLE holdfast.budgets (
    name text PRIMARY KEY,
    definition jsonb NOT NULL,
    unit text NOT NULL,
    ceiling bigint NOT NULL,
    period text NOT NULL,
    tz text NOT NULL,
    queue text,
    kinds text[] NOT NULL,
    path text[] NOT NULL,
    thresholds jsonb NOT NULL,
    changed_at timestamptz NOT NULL,
    CONSTRAINT budgets_name CHECK (name ~ '^[a-z0-9_.:-]{1,64}$'),
    CONSTRAINT budgets_ceiling CHECK (ceiling >= 0)
);

-- One period of a budget, for one key: `spent` is the sum of its ledger, `reserved` what running jobs may still spend,
-- `lost` what jobs may have spent whose end nobody saw. `alerts` are the thresholds that were told of already.
CREATE TABLE holdfast.budget_periods (
    budget text NOT NULL,
    key text NOT NULL,
    starts_at timestamptz NOT NULL,
    ends_at timestamptz NOT NULL,
    spent bigint NOT NULL DEFAULT 0,
    reserved bigint NOT NULL DEFAULT 0,
    lost bigint NOT NULL DEFAULT 0,
    alerts jsonb NOT NULL DEFAULT '[]',
    PRIMARY KEY (budget, key, starts_at),
    CONSTRAINT budget_periods_sums CHECK (spent >= 0 AND reserved >= 0 AND lost >= 0)
) WITH (fillfactor = 70);
CREATE INDEX budget_periods_starts ON holdfast.budget_periods (budget, starts_at, key);
CREATE INDEX budget_periods_ends ON holdfast.budget_periods (ends_at);

-- What is set aside for one claim, until it ends: `spent` is what it has reported within the period.
CREATE TABLE holdfast.reservations (
    job_id bigint NOT NULL,
    claim integer NOT NULL,
    budget text NOT NULL,
    key text NOT NULL,
    starts_at timestamptz NOT NULL,
    queue text NOT NULL,
    amount bigint NOT NULL,
    spent bigint NOT NULL DEFAULT 0,
    state text NOT NULL DEFAULT 'open',
    at timestamptz NOT NULL,
    PRIMARY KEY (job_id, claim),
    CONSTRAINT reservations_state CHECK (state IN ('open', 'lost'))
);
CREATE INDEX reservations_lost ON holdfast.reservations (budget, job_id) WHERE state = 'lost';

-- Every amount that a handler has reported, never changed: the n-th one of a claim. Without a budget it counts for
-- none: the kind has none, or its budget is in another unit.
CREATE TABLE holdfast.ledger (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL,
    budget text,
    key text NOT NULL,
    kind text NOT NULL,
    queue text NOT NULL,
    actor text,
    job_id bigint NOT NULL,
    claim integer NOT NULL,
    n integer NOT NULL,
    unit text NOT NULL,
    amount bigint NOT NULL,
    note text,
    is_late boolean NOT NULL,
    CONSTRAINT ledger_claim UNIQUE (job_id, claim, n),
    CONSTRAINT ledger_amount CHECK (amount >= 0)
);
CREATE INDEX ledger_budget ON holdfast.ledger (budget, at, id);
CREATE INDEX ledger_kind ON holdfast.ledger (budget, kind, at);
CREATE INDEX ledger_at ON holdfast.ledger (at, id);
