-- Who may come in, and what they did.

-- Tokens that people made, sessions begun with one, links that let somebody in once. Of a secret only its digest is kept.
CREATE TABLE holdfast_passes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    digest TEXT NOT NULL UNIQUE,
    hint TEXT NOT NULL,
    role TEXT NOT NULL,
    queues TEXT,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    expires_at INTEGER,
    used_at INTEGER,
    revoked_at INTEGER,
    revoked_by TEXT,
    parent INTEGER
) STRICT;
CREATE INDEX holdfast_passes_parent ON holdfast_passes (parent) WHERE parent IS NOT NULL;

CREATE TABLE holdfast_audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    role TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    queue TEXT,
    status INTEGER NOT NULL,
    detail TEXT NOT NULL,
    request TEXT NOT NULL
) STRICT;
CREATE INDEX holdfast_audit_target ON holdfast_audit (target, id);
CREATE INDEX holdfast_audit_at ON holdfast_audit (at);
