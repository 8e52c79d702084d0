-- Who may come in, and what they did.

-- Tokens that people made, sessions begun with one, links that let somebody in once. Of a secret only its digest is kept.
CREATE TABLE holdfast.passes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL,
    name text NOT NULL,
    digest text NOT NULL UNIQUE,
    hint text NOT NULL,
    role text NOT NULL,
    queues text[],
    created_at timestamptz NOT NULL,
    created_by text NOT NULL,
    expires_at timestamptz,
    used_at timestamptz,
    revoked_at timestamptz,
    revoked_by text,
    parent bigint
);
CREATE INDEX passes_parent ON holdfast.passes (parent) WHERE parent IS NOT NULL;

CREATE TABLE holdfast.audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL,
    actor text NOT NULL,
    role text NOT NULL,
    action text NOT NULL,
    target text NOT NULL,
    queue text,
    status integer NOT NULL,
    detail jsonb NOT NULL,
    request text NOT NULL
);
CREATE INDEX audit_target ON holdfast.audit (target, id);
CREATE INDEX audit_at ON holdfast.audit (at);
