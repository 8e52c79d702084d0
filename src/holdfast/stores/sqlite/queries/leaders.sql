-- name: lead
-- Keep a lease under its term, or take one that has ended; no row means that another process holds it.
INSERT INTO holdfast_leaders AS l (name, term, holder, since, until)
VALUES (:name, 1, :holder, :now, :now + :lease_ms)
ON CONFLICT (name) DO UPDATE
SET
    term = CASE WHEN l.holder = excluded.holder AND l.term = :term THEN l.term ELSE l.term + 1 END,
    since = CASE WHEN l.holder = excluded.holder AND l.term = :term THEN l.since ELSE excluded.since END,
    holder = excluded.holder,
    until = excluded.until
-- Whose term has ended may have it again under the same number only as long as nobody has followed.
WHERE (l.holder = excluded.holder AND l.term = :term) OR l.until <= :now  -- guard: leader-lease
RETURNING term;

-- name: resign
-- Give up a lease.
UPDATE holdfast_leaders SET until = :now
-- guard: resigned-term, without: WHERE name = :name AND holder = :holder;
WHERE name = :name AND holder = :holder AND term = :term;

-- name: list_leaders
-- Read who leads.
SELECT name, holder, term, since, until FROM holdfast_leaders WHERE until > :now ORDER BY name;
