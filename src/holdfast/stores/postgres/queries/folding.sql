-- name: fold_rollups
-- Fold roll-ups that have grown old into rows that stand for longer.
SELECT holdfast.fold_rollups($1);
