"""Which Redis servers carry the ids of waiting jobs: each serves a band of priorities, its shard.

A Redis URL may hold a password, so every message and every repr shows it without user information and query.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta

from holdfast import names
from holdfast.about import About
from holdfast.errors import ConfigError, InvalidValue, shown
from holdfast.formats import text_format

Priorities = tuple[names.Priority, names.Priority]

HEAVIEST = 100
DEFAULT_PREFIX = "holdfast"

RedisUrl = Annotated[str, text_format(lambda value, _: _check_url(value))]
"""The type of a setting that is the address of a Redis server."""

_ALL: Priorities = (names.HIGHEST_PRIORITY, names.LOWEST_PRIORITY)
_BANDS: Mapping[str, tuple[Priorities, int]] = {"high": ((0, 4), 4), "low": ((5, 10), 1)}
_SCHEMES = ("redis", "rediss", "unix")
_EXPECTED = "redis://host:port/0, rediss://host:port/0 or unix:///path/to/socket"


@dataclass(frozen=True)
class Shard:
    """A Redis server for the jobs of some priorities, the first and the last included.

    While every shard has work, each is served by its share of the weights.
    """

    name: Annotated[names.Name, About("Name of the shard.", "high")]
    url: Annotated[RedisUrl, About("Its Redis server.", "redis://localhost/0")]
    priorities: Annotated[Priorities, About("The first and the last priority that it serves.", [0, 4])] = _ALL
    weight: Annotated[int, Meta(ge=1, le=HEAVIEST), About("Its share while every shard has work.", 4)] = 1

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "name", names.name(self.name, "name"))
            names.count(self.weight, "weight", HEAVIEST)
            object.__setattr__(self, "priorities", _read_priorities(self.priorities))
            _check_url(self.url)
        except InvalidValue as error:
            message = f"shard {shown(self.name)}: {error}"
            raise ConfigError(message) from None

    def __repr__(self) -> str:
        shape = f"priorities={self.priorities!r}, weight={self.weight!r}"
        return f"Shard(name={self.name!r}, url={masked(self.url)!r}, {shape})"

    @property
    def band(self) -> range:
        """Its priorities, the most urgent first."""
        return range(self.priorities[0], self.priorities[1] + 1)


@dataclass(frozen=True)
class RedisDelivery:
    """Ids of waiting jobs by way of Redis; `prefix` keeps stores apart that share a server."""

    shards: Sequence[Shard]
    prefix: str = DEFAULT_PREFIX

    def __post_init__(self) -> None:
        if isinstance(self.shards, str | bytes) or not isinstance(self.shards, Iterable):
            message = f"shards: expected a list of Shard(...), got {_kind(self.shards)}; a single URL is"
            message += ' delivery="redis://…"'
            raise ConfigError(message)
        object.__setattr__(self, "shards", tuple(self.shards))
        try:
            names.name(self.prefix, "prefix")
        except InvalidValue as error:
            raise ConfigError(str(error)) from None
        _check_shards(self.shards)

    def key(self, queue: str, priority: int) -> str:
        """Name the sorted set of a lane; the braces keep all of them in one slot of a cluster."""
        return f"{self.tag}:lane:{queue}:{priority}"

    @property
    def tag(self) -> str:
        """What every key of this delivery starts with."""
        return f"{{{self.prefix}}}"


def read_delivery(value: object) -> RedisDelivery | None:
    """Read the option `delivery`; None means hints by way of the store."""
    if value is None or isinstance(value, RedisDelivery):
        return value
    if isinstance(value, str):
        return RedisDelivery([Shard("all", value)])
    if isinstance(value, Mapping):
        if set(value) != set(_BANDS):
            message = f'delivery: expected a mapping with the keys "high" and "low", got {_named(value)}; for other'
            message += " bands write RedisDelivery(shards=[Shard(...), ...])"
            raise ConfigError(message)
        return RedisDelivery([Shard(name, value[name], *band) for name, band in _BANDS.items()])
    message = f'delivery: expected None, a URL like {_EXPECTED}, {{"high": url, "low": url}}, RedisDelivery(...) or'
    message += f" ArqDelivery(...), got {_kind(value)}"
    raise ConfigError(message)


def masked(url: str) -> str:
    """Show a Redis URL without user information and query; one that cannot be read is not shown at all."""
    try:
        parts = urlsplit(url)
        place = parts.netloc.rpartition("@")[2]
    except (AttributeError, TypeError, ValueError):
        return "***"
    if parts.scheme not in _SCHEMES or "@" in parts.path:  # a stray slash may have split a password
        return f"{parts.scheme}://***" if parts.scheme in _SCHEMES else "***"
    hidden = ("***@" if "@" in parts.netloc else "", "?***" if parts.query else "")
    return f"{parts.scheme}://{hidden[0]}{place}{parts.path}{hidden[1]}"


def _check_url(url: object) -> None:
    if not isinstance(url, str):
        message = f"url: expected text like {_EXPECTED}, got {_kind(url)}"
        raise InvalidValue(message)
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for a port that is no number
    except ValueError:
        # The parser's own message quotes the URL, password and all, so it is neither shown nor chained.
        message = f"url: expected {_EXPECTED}, got {masked(url)!r}; escape special characters as %XX"
        raise InvalidValue(message) from None
    if parts.scheme not in _SCHEMES:
        message = f"url: expected {_EXPECTED}, got {masked(url)!r}"
        raise InvalidValue(message)
    if parts.scheme == "unix":
        if not parts.path.strip("/"):
            message = f"url: expected the path of a socket, as in unix:///run/redis.sock, got {masked(url)!r}"
            raise InvalidValue(message)
    elif not parts.path.strip("/").isdigit() and parts.path.strip("/"):
        # The client library would take database 0 without a word.
        message = f"url: expected a database number after the host, as in redis://host/0, got {masked(url)!r}"
        message += "; escape special characters of a password as %XX"
        raise InvalidValue(message)


def _read_priorities(given: object) -> Priorities:
    try:
        first, last = given if isinstance(given, Sequence) else ()
        band = (names.priority(first), names.priority(last))
    except (InvalidValue, ValueError):
        message = f"priorities: expected (first, last), two whole numbers from 0 to 10, got {shown(given)}"
        raise InvalidValue(message) from None
    if band[0] > band[1]:
        message = f"priorities: expected the more urgent, smaller one first, got {band}; write {band[::-1]}"
        raise InvalidValue(message)
    return band


def _check_shards(shards: Sequence[Shard]) -> None:
    strangers = [shard for shard in shards if not isinstance(shard, Shard)]
    if not shards or strangers:
        got = _kind(strangers[0]) if strangers else "an empty list"
        message = f"shards: expected Shard(...) values, got {got}; write Shard(name, url, priorities=(0, 10))"
        raise ConfigError(message)
    twice = sorted({shard.name for shard in shards if sum(other.name == shard.name for other in shards) > 1})
    if twice:
        message = f"shards: {', '.join(twice)} is defined twice; names are compared without case"
        raise ConfigError(message)
    for priority in names.PRIORITIES:
        serving = [shard.name for shard in shards if priority in shard.band]
        if len(serving) != 1:
            got = " and ".join(serving) if serving else "none"
            message = f"shards: expected one shard for each priority from 0 to 10, got {got} for {priority}"
            message += "; let one band begin where the other ends, as in (0, 4) and (5, 10)"
            raise ConfigError(message)


def _named(value: Mapping[object, object]) -> str:
    """Name the keys of a mapping; its values may hold passwords."""
    return ", ".join(shown(key) for key in value) or "an empty one"


def _kind(value: object) -> str:
    """Name the type of what may hold a password."""
    return type(value).__name__
