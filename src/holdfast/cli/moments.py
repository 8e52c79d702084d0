"""Times and names as they are typed: `5m`, `2026-11-15T09:00Z`, `name=value`."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from holdfast import ages
from holdfast.duration import milliseconds
from holdfast.errors import InvalidValue

_FORMS = 'a time like "2026-11-15T09:00:00Z"'


def due(text: str, option: str) -> datetime:
    """Read an absolute time; when a job runs must not depend on where this is typed."""
    moment = _iso(text)
    if moment is None or moment.tzinfo is None:
        message = f"{option}: expected {_FORMS} with an offset (Z or +02:00), got {text!r}; --delay 5m counts from now"
        raise InvalidValue(message)
    return moment


def past(text: str | None, option: str) -> datetime | None:
    """Read a bound of a list: so long ago, or an absolute time, in UTC unless it says otherwise."""
    if text is None:
        return None
    moment = _iso(text)
    if moment is not None:
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    try:
        return ages.now() - timedelta(milliseconds=milliseconds(text))
    except (InvalidValue, OverflowError):
        message = f'{option}: expected how long ago ("90s", "5m", "1h 30m", "7d") or {_FORMS}, got {text!r}'
        raise InvalidValue(message) from None


def tags(pairs: Sequence[str]) -> dict[str, str]:
    """Read `--tag name=value`, given any number of times."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            message = f"--tag: expected name=value, got {pair!r}"
            raise InvalidValue(message)
        if found.setdefault(name, value) != value:
            message = f"--tag: {name} is given twice, as {found[name]!r} and {value!r}"
            raise InvalidValue(message)
    return found


def _iso(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
