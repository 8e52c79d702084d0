-- name: list_policies
-- Read what apps have published.
SELECT path, definition, published_at FROM holdfast.policies ORDER BY path;

-- name: define_policies
-- Publish definitions, and forget those that are gone; an unchanged one costs no write.
WITH gone AS (
    DELETE FROM holdfast.policies WHERE path = ANY ($3::text[])
)

INSERT INTO holdfast.policies AS p (path, definition, published_at)
SELECT t.path, t.definition, holdfast.clock()
FROM unnest($1::text[], $2::jsonb[]) AS t (path, definition)
ORDER BY t.path
ON CONFLICT (path) DO UPDATE
SET definition = excluded.definition, published_at = excluded.published_at
WHERE p.definition <> excluded.definition;

-- name: mark_policies
-- Remember what the rows in force were worked out from.
INSERT INTO holdfast.policies (path, definition, published_at)
VALUES ('', $1::jsonb, holdfast.clock())
ON CONFLICT (path) DO UPDATE SET definition = excluded.definition, published_at = excluded.published_at;

-- name: list_kinds
-- Read what is published of kinds.
SELECT name, queue, definition, debounce_ms, debounce_path, budget, estimate, former FROM holdfast.kinds ORDER BY name;

-- name: define_kinds
-- Publish what holds for kinds; an unchanged one costs no write. One that has another queue now remembers the one it had.
INSERT INTO holdfast.kinds AS k (name, queue, definition, debounce_ms, debounce_path, budget, estimate, published_at)
SELECT
    t.name, t.queue, t.definition, t.debounce_ms, ARRAY(SELECT jsonb_array_elements_text(t.path)), t.budget,
    t.estimate, holdfast.clock()
FROM unnest($1::text[], $2::text[], $3::jsonb[], $4::bigint[], $5::jsonb[], $6::text[], $7::bigint[])
    AS t (name, queue, definition, debounce_ms, path, budget, estimate)
ORDER BY t.name
ON CONFLICT (name) DO UPDATE
SET
    queue = excluded.queue, definition = excluded.definition, debounce_ms = excluded.debounce_ms,
    debounce_path = excluded.debounce_path, budget = excluded.budget, estimate = excluded.estimate,
    published_at = excluded.published_at,
    former = CASE
        WHEN k.queue = excluded.queue THEN k.former
        ELSE array_append(array_remove(array_remove(k.former, excluded.queue), k.queue), k.queue)
    END
WHERE (k.queue, k.definition, k.debounce_path) <> (excluded.queue, excluded.definition, excluded.debounce_path)
    OR (k.debounce_ms, k.budget, k.estimate)
    IS DISTINCT FROM (excluded.debounce_ms, excluded.budget, excluded.estimate);

-- name: move_kind
-- Let waiting jobs of a kind change their queue: of $1 from $2 to $3, with the priority $5 instead of $4, beyond the id $6.
WITH page AS MATERIALIZED (
    SELECT id
    FROM holdfast.jobs
    WHERE id > $6 AND kind = $1 AND queue = $2 AND state <> 'running'
    ORDER BY id
    LIMIT $7
    FOR UPDATE
),

moved AS (
    UPDATE holdfast.jobs AS j
    SET
        queue = $3,
        priority = CASE WHEN j.priority = $4::smallint THEN $5::smallint ELSE j.priority END,
        announced_at = NULL
    WHERE j.id = ANY (ARRAY(SELECT id FROM page))
    RETURNING j.id
)

SELECT count(*), max(id) FROM moved;

-- name: define_queue_policies
-- Set what holds for queues, and in which of them an enqueue has to look; every other one has no definition any more.
WITH cleared AS (
    UPDATE holdfast.queues SET definition = NULL, screened = false
    WHERE NOT name = ANY ($1::text[]) AND (definition IS NOT NULL OR screened)
)

INSERT INTO holdfast.queues AS q (name, definition, screened)
SELECT t.name, t.definition, t.screened
FROM unnest($1::text[], $2::jsonb[], $3::boolean[]) AS t (name, definition, screened)
ORDER BY t.name
ON CONFLICT (name) DO UPDATE
SET definition = excluded.definition, screened = excluded.screened
WHERE q.definition IS DISTINCT FROM excluded.definition OR q.screened <> excluded.screened;

-- name: list_queue_policies
-- Read what holds for queues.
SELECT name, definition FROM holdfast.queues WHERE definition IS NOT NULL ORDER BY name;

-- name: note_policies
-- Note what a worker was started with.
UPDATE holdfast.workers SET policies = $2::jsonb WHERE id = $1;

-- name: worker_policies
-- Read what the living workers were started with.
SELECT id, policies FROM holdfast.workers WHERE dead_at IS NULL AND policies IS NOT NULL ORDER BY id;
