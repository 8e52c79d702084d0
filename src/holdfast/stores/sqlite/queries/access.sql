-- name: add_token
-- Keep a way in.
INSERT INTO holdfast_passes (kind, name, digest, hint, role, queues, created_at, created_by, expires_at, parent)
VALUES (:kind, :name, :digest, :hint, :role, :queues, :now, :created_by, :now + :lasts_ms, :parent)
RETURNING
    id, kind, name, hint, role, queues, created_at, created_by, expires_at, used_at, revoked_at, revoked_by, parent;

-- name: find_token
-- Find a way in that holds now, itself and its parent.
SELECT
    pass.id, pass.kind, pass.name, pass.hint, pass.role, pass.queues, pass.created_at, pass.created_by, pass.expires_at,
    pass.used_at, pass.revoked_at, pass.revoked_by, pass.parent,
    pass.used_at IS NULL OR pass.used_at < :now - 60000 AS is_to_be_touched
FROM holdfast_passes AS pass
LEFT JOIN holdfast_passes AS parent ON parent.id = pass.parent
WHERE pass.digest = :digest AND pass.kind <> 'link' AND pass.revoked_at IS NULL
    AND (pass.expires_at IS NULL OR pass.expires_at > :now)
    AND (pass.parent IS NULL OR parent.id IS NOT NULL)
    AND parent.revoked_at IS NULL AND (parent.expires_at IS NULL OR parent.expires_at > :now);

-- name: touch_token
-- Remember that a way in was used; a session lasts so much longer.
UPDATE holdfast_passes
SET
    used_at = :now,
    expires_at = CASE
        WHEN kind = 'session' AND :lasts_ms IS NOT NULL THEN :now + :lasts_ms
        ELSE expires_at
    END
WHERE id = :id;

-- name: use_link
-- Let a link be used up that never was.
UPDATE holdfast_passes
SET used_at = :now, revoked_at = :now, revoked_by = name
WHERE digest = :digest AND kind = 'link' AND revoked_at IS NULL AND expires_at > :now
RETURNING
    id, kind, name, hint, role, queues, created_at, created_by, expires_at, used_at, revoked_at, revoked_by, parent;

-- name: has_token
-- Say whether there is a token that holds now.
SELECT EXISTS (
    SELECT 1
    FROM holdfast_passes
    WHERE kind = 'token' AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
);

-- name: list_tokens
-- Read the ways in of a kind, or one of them, those that hold first, the youngest first.
SELECT id, kind, name, hint, role, queues, created_at, created_by, expires_at, used_at, revoked_at, revoked_by, parent
FROM holdfast_passes
WHERE kind = :kind AND (:number IS NULL OR id = :number)
ORDER BY revoked_at IS NOT NULL OR COALESCE(expires_at <= :now, false), id DESC
LIMIT 1000;

-- name: revoke_token
-- Let a way in, or the sessions begun with it, hold no more.
UPDATE holdfast_passes
SET revoked_at = COALESCE(revoked_at, :now), revoked_by = COALESCE(revoked_by, :actor)
WHERE id = :id OR parent = :id
RETURNING
    id, kind, name, hint, role, queues, created_at, created_by, expires_at, used_at, revoked_at, revoked_by, parent;

-- name: add_audit
-- Write down what somebody did.
INSERT INTO holdfast_audit (at, actor, role, action, target, queue, status, detail, request)
VALUES (:now, :actor, :role, :action, :target, :queue, :status, :detail, :request)
RETURNING id;

-- name: list_audit
-- Read what was done, the latest first.
SELECT actor, role, action, target, queue, status, detail, request, id, at
FROM holdfast_audit
WHERE id < :before AND id >= :first
    AND (:actor IS NULL OR actor = :actor) AND (:action IS NULL OR action = :action)
    AND (:target IS NULL OR target = :target)
    AND (:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues)))
ORDER BY id DESC
LIMIT :limit;

-- name: prune_access
-- Forget old audit entries, and then ways in that ended a month ago.
DELETE FROM holdfast_audit
WHERE id IN (SELECT id FROM holdfast_audit WHERE at < :now - 34560000000 ORDER BY at LIMIT :limit);
DELETE FROM holdfast_passes
WHERE min(COALESCE(revoked_at, expires_at), COALESCE(expires_at, revoked_at)) < :now - 2592000000;
