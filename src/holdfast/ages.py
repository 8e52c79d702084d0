"""Times as people read them: `3m ago`, `in 2h`, `2026-11-15 09:12:00 UTC`."""

from datetime import UTC, datetime, timedelta

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
_LONGEST_WITH_TENTHS_S = 10


def now() -> datetime:
    """The time of this machine; good enough for ages that people read."""
    return datetime.now(UTC)


def age(moment: datetime, at: datetime) -> str:
    """Say how far a moment lies from another, in one unit."""
    seconds = (at - moment).total_seconds()
    if abs(seconds) < 1:
        return "just now"
    size = _largest(abs(seconds))
    return f"{size} ago" if seconds > 0 else f"in {size}"


def span(length: timedelta) -> str:
    """Say how long something took, in at most two units."""
    seconds = max(length.total_seconds(), 0)
    if seconds < 1:
        return f"{seconds * 1_000:.0f}ms"
    if seconds < _LONGEST_WITH_TENTHS_S:
        return f"{seconds:.1f}s"
    parts: list[str] = []
    rest = int(seconds)
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        if count or parts:
            parts.append(f"{count}{unit}" if count else "")
    return " ".join(part for part in parts[:2] if part)


def stamp(moment: datetime) -> str:
    """Write a moment for reading."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def clock(moment: datetime) -> str:
    """Write the time of a moment that is not long ago."""
    return moment.astimezone(UTC).strftime("%H:%M:%S UTC")


def iso(moment: datetime) -> str:
    """Write a moment for machines."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _largest(seconds: float) -> str:
    unit, size = next((unit, size) for unit, size in _UNITS if seconds >= size)
    return f"{int(seconds // size)}{unit}"
