-- name: list_policies
-- Read what apps have published.
SELECT path, definition, published_at FROM holdfast_policies ORDER BY path;

-- name: define_policies
-- Publish one definition; an unchanged one costs no write.
INSERT INTO holdfast_policies (path, definition, published_at)
VALUES (:path, :definition, :now)
ON CONFLICT (path) DO UPDATE
SET definition = excluded.definition, published_at = excluded.published_at
WHERE definition <> excluded.definition;

-- name: mark_policies
-- Remember what the rows in force were worked out from.
INSERT INTO holdfast_policies (path, definition, published_at)
VALUES ('', :mark, :now)
ON CONFLICT (path) DO UPDATE SET definition = excluded.definition, published_at = excluded.published_at;

-- name: list_kinds
-- Read what is published of kinds.
SELECT name, queue, definition, debounce_ms, debounce_path, budget, estimate, former FROM holdfast_kinds ORDER BY name;

-- name: define_kinds
-- Publish what holds for one kind; an unchanged one costs no write. One that has another queue now remembers the one it
-- had.
INSERT INTO holdfast_kinds (name, queue, definition, debounce_ms, debounce_path, budget, estimate, published_at)
VALUES (:name, :queue, :definition, :debounce_ms, :debounce_path, :budget, :estimate, :now)
ON CONFLICT (name) DO UPDATE
SET
    queue = excluded.queue, definition = excluded.definition, debounce_ms = excluded.debounce_ms,
    debounce_path = excluded.debounce_path, budget = excluded.budget, estimate = excluded.estimate,
    published_at = excluded.published_at,
    former = CASE
        WHEN holdfast_kinds.queue = excluded.queue THEN former
        ELSE (
            SELECT json_group_array(queue)
            FROM (
                SELECT value AS queue FROM json_each(holdfast_kinds.former)
                WHERE value NOT IN (excluded.queue, holdfast_kinds.queue)
                UNION ALL
                SELECT holdfast_kinds.queue
            )
        )
    END
WHERE (holdfast_kinds.queue, definition, debounce_path)
    <> (excluded.queue, excluded.definition, excluded.debounce_path)
    OR debounce_ms IS NOT excluded.debounce_ms OR budget IS NOT excluded.budget
    OR estimate IS NOT excluded.estimate;

-- name: move_kind
-- Let waiting jobs of a kind change their queue, beyond an id.
UPDATE holdfast_jobs
SET
    queue = :queue, priority = CASE WHEN priority = :was THEN :becomes ELSE priority END, announced_at = NULL
WHERE id IN (
    SELECT id FROM holdfast_jobs
    WHERE id > :after AND kind = :kind AND queue = :source AND state <> 'running'
    ORDER BY id
    LIMIT :limit
)
RETURNING id;

-- name: define_queue_policies
-- Set what holds for one queue, and whether an enqueue has to look.
INSERT INTO holdfast_queues (name, definition, screened)
VALUES (:name, :definition, :screened)
ON CONFLICT (name) DO UPDATE
SET definition = excluded.definition, screened = excluded.screened
WHERE definition IS NOT excluded.definition OR screened <> excluded.screened;

-- name: list_queue_policies
-- Read what holds for queues.
SELECT name, definition FROM holdfast_queues WHERE definition IS NOT NULL ORDER BY name;

-- name: note_policies
-- Note what a worker was started with.
UPDATE holdfast_workers SET policies = :policies WHERE id = :worker;

-- name: worker_policies
-- Read what the living workers were started with.
SELECT id, policies FROM holdfast_workers WHERE dead_at IS NULL AND policies IS NOT NULL ORDER BY id;
