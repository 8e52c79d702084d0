-- name: add_token
-- Keep a way in.
INSERT INTO holdfast.passes (kind, name, digest, hint, role, queues, created_at, created_by, expires_at, parent)
VALUES (
    $1, $2, $3, $4, $5, $6::text[], holdfast.clock(), $7,
    holdfast.clock() + $8::bigint * interval '1 millisecond', $9
)
RETURNING
    id, kind, name, hint, role, queues, created_at, created_by, expires_at, used_at, revoked_at, revoked_by, parent;

-- name: find_token
-- Find a way in that holds now, itself and its parent.
SELECT
    p.id, p.kind, p.name, p.hint, p.role, p.queues, p.created_at, p.created_by, p.expires_at, p.used_at, p.revoked_at,
    p.revoked_by, p.parent,
    p.used_at IS NULL OR p.used_at < holdfast.clock() - interval '1 minute' AS is_to_be_touched
FROM holdfast.passes AS p
LEFT JOIN holdfast.passes AS parent ON parent.id = p.parent
WHERE p.digest = $1 AND p.kind <> 'link' AND p.revoked_at IS NULL
    AND (p.expires_at IS NULL OR p.expires_at > holdfast.clock())
    AND (p.parent IS NULL OR parent.id IS NOT NULL)
    AND parent.revoked_at IS NULL AND (parent.expires_at IS NULL OR parent.expires_at > holdfast.clock());

-- name: touch_token
-- Remember that a way in was used; a session ($2) lasts so much longer.
UPDATE holdfast.passes
SET
    used_at = holdfast.clock(),
    expires_at = CASE
        WHEN kind = 'session' AND $2::bigint IS NOT NULL
            THEN holdfast.clock() + $2::bigint * interval '1 millisecond'
        ELSE expires_at
    END
WHERE id = $1
RETURNING id;

-- name: use_link
-- Let a link be used up that never was.
UPDATE holdfast.passes
SET used_at = holdfast.clock(), revoked_at = holdfast.clock(), revoked_by = name
WHERE digest = $1 AND kind = 'link' AND revoked_at IS NULL AND expires_at > holdfast.clock()
RETURNING
    id, kind, name, hint, role, queues, created_at, created_by, expires_at, used_at, revoked_at, revoked_by, parent;

-- name: has_token
-- Say whether there is a token that holds now.
SELECT EXISTS (
    SELECT FROM holdfast.passes
    WHERE kind = 'token' AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > holdfast.clock())
);

-- name: list_tokens
-- Read the ways in of a kind, or one of them, those that hold first, the youngest first.
SELECT id, kind, name, hint, role, queues, created_at, created_by, expires_at, used_at, revoked_at, revoked_by, parent
FROM holdfast.passes
WHERE kind = $1 AND ($2::bigint IS NULL OR id = $2)
ORDER BY revoked_at IS NOT NULL OR COALESCE(expires_at <= holdfast.clock(), false), id DESC
LIMIT 1000;

-- name: revoke_token
-- Let a way in, and the sessions begun with it, hold no more.
WITH children AS (
    UPDATE holdfast.passes
    SET revoked_at = holdfast.clock(), revoked_by = $2
    WHERE parent = $1 AND revoked_at IS NULL
)

UPDATE holdfast.passes
SET revoked_at = COALESCE(revoked_at, holdfast.clock()), revoked_by = COALESCE(revoked_by, $2)
WHERE id = $1
RETURNING
    id, kind, name, hint, role, queues, created_at, created_by, expires_at, used_at, revoked_at, revoked_by, parent;

-- name: add_audit
-- Write down what somebody did.
INSERT INTO holdfast.audit (at, actor, role, action, target, queue, status, detail, request)
VALUES (holdfast.clock(), $1, $2, $3, $4, $5, $6, $7::jsonb, $8)
RETURNING id;

-- name: list_audit
-- Read what was done, the latest first.
SELECT actor, role, action, target, queue, status, detail::text, request, id, at
FROM holdfast.audit
WHERE id < $2 AND id >= $7
    AND ($3::text IS NULL OR actor = $3) AND ($4::text IS NULL OR action = $4) AND ($5::text IS NULL OR target = $5)
    AND ($6::text[] IS NULL OR queue = ANY ($6))
ORDER BY id DESC
LIMIT $1;

-- name: prune_access
-- Forget old audit entries, and ways in that ended a month ago.
SELECT holdfast.prune_access($1);
