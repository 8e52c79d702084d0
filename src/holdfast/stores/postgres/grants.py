"""What a role needs that uses the store and owns nothing of it."""

from collections.abc import Sequence

from holdfast.stores.migrate import Purpose
from holdfast.stores.sql import quoted

_LEDGERS = ("schema_migrations", "schema_functions")  # read by programs, written by migrations alone
_ACCESS = ("passes", "audit")  # who is let in by the server, and what was done through it
_RIGHTS = (
    ("SELECT, INSERT, UPDATE, DELETE", "TABLES"),
    ("USAGE", "SEQUENCES"),
    ("EXECUTE", "FUNCTIONS"),
)


def grants(schema: str, owner: str, role: str, purpose: Purpose = "serve") -> Sequence[str]:
    """Spell the statements; the last ones are for what the owner makes later."""
    place, whom = quoted(schema), quoted(role)
    usage = f"GRANT USAGE ON SCHEMA {place} TO {whom}"
    if purpose == "enqueue":
        return (usage, f"GRANT EXECUTE ON FUNCTION {place}.enqueue_v1(jsonb) TO {whom}")
    later = f"ALTER DEFAULT PRIVILEGES FOR ROLE {quoted(owner)} IN SCHEMA {place} GRANT"
    kept = _LEDGERS if purpose == "serve" else (*_LEDGERS, *_ACCESS)
    tables = ", ".join(f"{place}.{name}" for name in kept)
    return (
        usage,
        *(f"GRANT {rights} ON ALL {what} IN SCHEMA {place} TO {whom}" for rights, what in _RIGHTS),
        f"REVOKE INSERT, UPDATE, DELETE ON {tables} FROM {whom}",
        *(f"{later} {rights} ON {what} TO {whom}" for rights, what in _RIGHTS),
    )
