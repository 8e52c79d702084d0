"""Where a store is: its URL, read and shown.

A database URL may hold a password, so every message and every repr shows it through `masked`.
"""

import re
from dataclasses import dataclass, field
from typing import Annotated
from urllib.parse import urlsplit

from holdfast.errors import ConfigError, InvalidValue
from holdfast.formats import text_format

_SECRET = re.compile(r"((?:ssl)?password\s*=\s*)('[^']*'|[^&\s]*)", re.IGNORECASE)
_EXPECTED = "sqlite:///file.db, sqlite:////absolute/file.db, sqlite:// (in memory) or postgresql://user@host/database"


@dataclass(frozen=True)
class SqliteLocation:
    """A SQLite file, or (None) a database in memory."""

    path: str | None


@dataclass(frozen=True)
class PostgresLocation:
    """A PostgreSQL database; the DSN is kept out of the repr because it may hold a password."""

    dsn: str = field(repr=False)


Location = SqliteLocation | PostgresLocation


def locate(url: str) -> Location:
    """Read a store's URL."""
    if not isinstance(url, str):
        message = f"store URL: expected text like {_EXPECTED}, got {type(url).__name__}"
        raise ConfigError(message)
    scheme, separator, rest = url.partition("://")
    if separator and scheme == "sqlite":
        return SqliteLocation(_sqlite_path(url, rest))
    if separator and scheme in ("postgresql", "postgres"):
        return PostgresLocation(_postgres_dsn(url, "store URL", _EXPECTED))
    message = f"store URL: expected {_EXPECTED}, got {masked(url)!r}"
    if scheme.startswith(("postgresql+", "postgres+", "sqlite+")):
        message += f"; write {scheme.partition('+')[0]}:// without a driver"
    raise ConfigError(message)


def _sqlite_path(url: str, rest: str) -> str | None:
    if rest in ("", "/:memory:"):
        return None
    path = rest.removeprefix("/")
    if path == rest or not path or "?" in path or "\x00" in path:
        message = f"store URL: expected {_EXPECTED}, got {url!r}; three slashes are relative, four absolute"
        message += ", and nothing follows the file's name"
        raise ConfigError(message)
    return path


def checked_listen_dsn(url: str | None) -> str | None:
    """Check the address at which workers listen beside a pooler."""
    if url is None:
        return None
    expected = "postgresql://user@host/database, an address of the server itself and not of a pooler"
    if not isinstance(url, str) or not url.startswith(("postgresql://", "postgres://")):
        message = f"listen_dsn: expected {expected}, got {masked(url) if isinstance(url, str) else url!r}"
        raise InvalidValue(message)
    return _postgres_dsn(url, "listen_dsn", expected)


def _postgres_dsn(url: str, what: str, expected: str) -> str:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for a port that is no number
    except ValueError:
        # The parser's own message quotes the URL, password and all, so it is neither shown nor chained.
        message = f"{what}: expected {expected}, got {masked(url)!r}; escape special characters as %XX"
        raise ConfigError(message) from None
    return url


def masked(url: str) -> str:
    """Show a URL without its password; in doubt more is hidden, never less."""
    if url.startswith("sqlite://"):
        return url
    shown = _SECRET.sub(r"\1***", url)
    head, at, tail = shown.rpartition("@")
    scheme, separator, credentials = head.partition("://")
    if not separator:
        scheme, credentials = "", head
    user, colon, _ = credentials.partition(":")
    return f"{scheme}{separator}{user}{':***' if colon else ''}{at}{tail}" if at else shown


StoreUrl = Annotated[str, text_format(lambda value, _: locate(value))]
ListenUrl = Annotated[str, text_format(lambda value, _: checked_listen_dsn(value))]
"""Types of settings; the configuration file is checked with them."""
