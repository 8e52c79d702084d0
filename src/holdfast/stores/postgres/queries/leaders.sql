-- name: lead
-- Keep a lease under its term, or take one that has ended; no row means that another process holds it.
INSERT INTO holdfast.leaders AS l (name, term, holder, since, until)
VALUES ($1, 1, $2, holdfast.clock(), holdfast.clock() + $4 * interval '1 millisecond')
ON CONFLICT (name) DO UPDATE
SET
    term = CASE WHEN l.holder = excluded.holder AND l.term = $3 THEN l.term ELSE l.term + 1 END,
    since = CASE WHEN l.holder = excluded.holder AND l.term = $3 THEN l.since ELSE excluded.since END,
    holder = excluded.holder,
    until = excluded.until
-- Whose term has ended may have it again under the same number only as long as nobody has followed.
WHERE (l.holder = excluded.holder AND l.term = $3) OR l.until <= holdfast.clock()  -- guard: leader-lease
RETURNING term;

-- name: resign
-- Give up a lease.
UPDATE holdfast.leaders SET until = holdfast.clock()
-- guard: resigned-term, without: WHERE name = $1 AND holder = $2 AND $3 > 0;
WHERE name = $1 AND holder = $2 AND term = $3;

-- name: list_leaders
-- Read who leads.
SELECT name, holder, term, since, until FROM holdfast.leaders WHERE until > holdfast.clock() ORDER BY name;
