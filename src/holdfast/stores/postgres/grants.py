"""What a role needs that works with the store and owns nothing of it."""

from collections.abc import Sequence

from holdfast.stores.sql import quoted

_LEDGERS = ("schema_migrations", "schema_functions")  # read by programs, written by migrations alone
_RIGHTS = (
    ("SELECT, INSERT, UPDATE, DELETE", "TABLES"),
    ("USAGE", "SEQUENCES"),
    ("EXECUTE", "FUNCTIONS"),
)


def grants(schema: str, owner: str, role: str) -> Sequence[str]:
    """Spell the statements; the last ones are for what the owner makes later."""
    place, whom = quoted(schema), quoted(role)
    later = f"ALTER DEFAULT PRIVILEGES FOR ROLE {quoted(owner)} IN SCHEMA {place} GRANT"
    ledgers = ", ".join(f"{place}.{name}" for name in _LEDGERS)
    return (
        f"GRANT USAGE ON SCHEMA {place} TO {whom}",
        *(f"GRANT {rights} ON ALL {what} IN SCHEMA {place} TO {whom}" for rights, what in _RIGHTS),
        f"REVOKE INSERT, UPDATE, DELETE ON {ledgers} FROM {whom}",
        *(f"{later} {rights} ON {what} TO {whom}" for rights, what in _RIGHTS),
    )
