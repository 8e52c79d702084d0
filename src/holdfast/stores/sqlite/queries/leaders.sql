-- name: lead
-- Keep an office under its term, or take one whose lease has ended; no row means that somebody else holds it.
INSERT INTO holdfast_leaders AS l (name, term, holder, since, until)
VALUES (:office, 1, :holder, :now, :now + :lease_ms)
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
-- Leave an office.
UPDATE holdfast_leaders SET until = :now
-- guard: resigned-term, without: WHERE name = :office AND holder = :holder;
WHERE name = :office AND holder = :holder AND term = :term;

-- name: list_leaders
-- Read who leads.
SELECT name, holder, term, since, until FROM holdfast_leaders WHERE until > :now ORDER BY name;
