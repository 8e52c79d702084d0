"""Sizes as people read them: `512 B`, `1.5 MB`."""

_UNITS = (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000))


def size(count: int) -> str:
    """Say how large something is, by its bytes."""
    for unit, bytes_each in _UNITS:
        if count >= bytes_each:
            return f"{count / bytes_each:.3g} {unit}"
    return f"{count} B"
