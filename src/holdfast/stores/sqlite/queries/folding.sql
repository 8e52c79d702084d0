-- name: fold_rollups
-- Find the roll-ups of the oldest groups that are to be folded, with the row that an earlier call has made of each.
WITH old AS (
    SELECT minute, queue, kind, state
    FROM holdfast_rollups
    WHERE span_s = :span_s AND minute < :until
    ORDER BY minute
    LIMIT 2000
),

groups AS (
    SELECT DISTINCT minute / (:wider_s * 1000) * (:wider_s * 1000) AS start, queue, kind, state
    FROM old
    ORDER BY 1, 2, 3, 4
    LIMIT :limit
)

SELECT rollup.rowid, groups.start, rollup.queue, rollup.kind, rollup.state, rollup.jobs, rollup.wait, rollup.run
FROM groups
CROSS JOIN holdfast_rollups AS rollup
WHERE rollup.span_s IN (:span_s, :wider_s)
    AND rollup.minute >= groups.start
    AND rollup.minute < groups.start + :wider_s * 1000
    AND (rollup.queue, rollup.kind, rollup.state) = (groups.queue, groups.kind, groups.state)
ORDER BY groups.start, rollup.queue, rollup.kind, rollup.state;
