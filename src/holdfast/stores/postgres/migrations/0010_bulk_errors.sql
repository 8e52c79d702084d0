-- What keeps a bulk run from going on: how many errors it met in a row, since when, and the last of them. One that is
-- given up for it has the state `cancelled`, the only one that release 0.6 knows for it, and `gave_up`.
ALTER TABLE holdfast.bulk_runs ADD COLUMN errors integer NOT NULL DEFAULT 0;
ALTER TABLE holdfast.bulk_runs ADD COLUMN failing_since timestamptz;
ALTER TABLE holdfast.bulk_runs ADD COLUMN error text;
ALTER TABLE holdfast.bulk_runs ADD COLUMN gave_up boolean NOT NULL DEFAULT false;
