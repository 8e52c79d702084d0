"""What an app is told about itself: where its store is, its queues, its defaults and limits.

A database URL may hold a password, so every message and every repr shows it through `masked`.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from holdfast import names
from holdfast.duration import Duration, milliseconds
from holdfast.errors import ConfigError, InvalidValue
from holdfast.job import TERMINAL, JobState

Outcome = Literal["completed", "completed_with_errors", "failed", "cancelled"]
Retention = Duration | Mapping[Outcome, Duration]
Synchronous = Literal["full", "normal"]

FOREVER = "forever"
LONGEST_RETENTION_MS = 100 * 7 * 86_400_000
DEFAULT_PRIORITY = 5
LARGEST_PAYLOAD = 64_000_000
DEEPEST_PAYLOAD = 500
LARGEST_POOL = 1_000

_RETENTION: Mapping[Outcome, Duration] = {
    "completed": "7d",
    "completed_with_errors": "7d",
    "failed": "30d",  # dead letters must outlive a holiday
    "cancelled": "7d",
}
_SECRET = re.compile(r"((?:ssl)?password\s*=\s*)('[^']*'|[^&\s]*)", re.IGNORECASE)
_EXPECTED = "sqlite:///file.db, sqlite:////absolute/file.db, sqlite:// (in memory) or postgresql://user@host/database"


@contextmanager
def definition(what: str) -> Iterator[None]:
    """Turn a refused value inside a definition into a ConfigError that names the definition."""
    try:
        yield
    except InvalidValue as error:
        message = f"{what}: {error}"
        raise ConfigError(message) from error


@dataclass(frozen=True)
class Queue:
    """What is known about a queue: the priority of its jobs and how long finished ones are kept.

    `retention` is a duration or "forever" for every outcome, or a mapping of outcomes to either; outcomes left out
    keep their default (failed 30 days, the others 7).
    """

    name: str
    priority: int = DEFAULT_PRIORITY
    retention: Retention = field(default_factory=dict)
    retention_ms: Mapping[JobState, int | None] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        with definition(f"queue {self.name!r}"):
            object.__setattr__(self, "name", names.name(self.name, "name"))
            names.priority(self.priority)
            object.__setattr__(self, "retention_ms", _retention_ms(self.retention))


def _retention_ms(retention: Retention) -> dict[JobState, int | None]:
    """Read how long each outcome is kept, in milliseconds; None keeps it for ever."""
    if isinstance(retention, Mapping):
        unknown = sorted(str(outcome) for outcome in retention if outcome not in TERMINAL)
        if unknown:
            expected = ", ".join(sorted(TERMINAL))
            message = f"retention: expected outcomes among {expected}, got {', '.join(unknown)}"
            raise InvalidValue(message)
        chosen: dict[Outcome, Duration] = {**_RETENTION, **retention}
    else:
        chosen = dict.fromkeys(_RETENTION, retention)
    return {JobState(outcome): _kept_ms(kept, f"retention of {outcome}") for outcome, kept in chosen.items()}


def _kept_ms(kept: Duration, what: str) -> int | None:
    if kept == FOREVER:
        return None
    kept_ms = _positive_ms(kept, what)
    if kept_ms > LONGEST_RETENTION_MS:
        message = f'{what}: expected at most 100 weeks, got {kept!r}; write "forever" to keep jobs longer'
        raise InvalidValue(message)
    return kept_ms


@dataclass(frozen=True)
class SqliteLocation:
    """A SQLite file, or (None) a database in memory."""

    path: str | None


@dataclass(frozen=True)
class PostgresLocation:
    """A PostgreSQL database; the DSN is kept out of the repr because it may hold a password."""

    dsn: str = field(repr=False)


Location = SqliteLocation | PostgresLocation


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything `Holdfast(...)` was told, checked and converted."""

    url: str = field(repr=False)
    location: Location
    schema: str
    queues: Mapping[str, Queue]
    deadline_s: float
    pool_size: int
    synchronous: Synchronous
    max_payload: int
    max_depth: int
    max_attempts: int
    max_crashes: int
    timeout_ms: int | None

    def priority_of(self, queue: str) -> int:
        """The priority of a queue's jobs that name none themselves."""
        defined = self.queues.get(queue)
        return DEFAULT_PRIORITY if defined is None else defined.priority


def read_settings(
    url: str,
    *,
    schema: str,
    queues: Iterable[Queue],
    deadline: Duration,
    pool_size: int,
    synchronous: Synchronous,
    max_payload: int,
    max_depth: int,
    max_attempts: int,
    max_crashes: int,
    timeout: Duration | None,
) -> Settings:
    """Check the options of an app; the first wrong one is refused with what was expected."""
    with definition("Holdfast(...)"):
        if synchronous not in ("full", "normal"):
            message = f'synchronous: expected "full" (every commit is on disk) or "normal", got {synchronous!r}'
            raise InvalidValue(message)
        return Settings(
            url=url,
            location=locate(url),
            schema=names.schema(schema),
            queues=_by_name(queues),
            deadline_s=_positive_ms(deadline, "deadline") / 1_000,
            pool_size=names.count(pool_size, "pool_size", LARGEST_POOL),
            synchronous=synchronous,
            max_payload=names.count(max_payload, "max_payload", LARGEST_PAYLOAD),
            max_depth=names.count(max_depth, "max_depth", DEEPEST_PAYLOAD),
            max_attempts=names.count(max_attempts, "max_attempts"),
            max_crashes=names.count(max_crashes, "max_crashes"),
            timeout_ms=timeout_ms(timeout),
        )


def timeout_ms(timeout: Duration | None) -> int | None:
    """Read how long a job may run; None, written out, means as long as it likes."""
    if timeout is None:
        return None
    return _positive_ms(timeout, "timeout", "; None means no timeout")


def _positive_ms(value: Duration, what: str, hint: str = "") -> int:
    if isinstance(value, float) and not math.isfinite(value):
        message = f"{what}: expected a finite duration, got {value!r}{hint}"
        raise InvalidValue(message)
    length = milliseconds(value, what)
    if length == 0:
        message = f"{what}: expected more than 0, got {value!r}{hint}"
        raise InvalidValue(message)
    return length


def _by_name(queues: Iterable[Queue]) -> dict[str, Queue]:
    defined: dict[str, Queue] = {}
    for queue in queues:
        if not isinstance(queue, Queue):
            message = f"queues: expected Queue(...) values, got {queue!r}; write Queue({queue!r})"
            raise ConfigError(message)
        if queue.name in defined:
            message = f"queues: {queue.name!r} is defined twice; names are compared without case"
            raise ConfigError(message)
        defined[queue.name] = queue
    return defined


def locate(url: str) -> Location:
    """Read a store's URL."""
    if not isinstance(url, str):
        message = f"store URL: expected text like {_EXPECTED}, got {type(url).__name__}"
        raise ConfigError(message)
    scheme, separator, rest = url.partition("://")
    if separator and scheme == "sqlite":
        return SqliteLocation(_sqlite_path(url, rest))
    if separator and scheme in ("postgresql", "postgres"):
        return PostgresLocation(_postgres_dsn(url))
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


def _postgres_dsn(url: str) -> str:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for a port that is no number
    except ValueError:
        # The parser's own message quotes the URL, password and all, so it is neither shown nor chained.
        message = f"store URL: expected {_EXPECTED}, got {masked(url)!r}; escape special characters as %XX"
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
