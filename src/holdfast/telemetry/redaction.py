"""Keeping secrets out of what people read: known ones are covered, wherever they turn up.

Nothing of Holdfast writes a secret into a message. But the text of an error may come from a database driver, from an
HTTP library or from a handler, and those quote what they were given.
"""

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote, urlsplit

COVER = "**********"
_SHORTEST = 5  # what is shorter is no secret, and would be covered in the middle of words

_known: set[str] = set()
_pattern: re.Pattern[str] | None = None


def keep(secrets: Iterable[str]) -> None:
    """Cover these from now on, in this process."""
    global _pattern  # noqa: PLW0603 - what a process must not say is one thing, whoever is about to say it
    _known.update(secret for secret in secrets if len(secret) >= _SHORTEST)
    by_length = sorted(_known, key=len, reverse=True)
    _pattern = re.compile("|".join(map(re.escape, by_length))) if by_length else None


def hide(text: str) -> str:
    """Cover every secret that is known."""
    return text if _pattern is None else _pattern.sub(COVER, text)


def hide_within(value: Any) -> Any:
    """Cover every secret that is known in the texts of a JSON value."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, dict):
        return {name: hide_within(inner) for name, inner in value.items()}
    return [hide_within(inner) for inner in value] if isinstance(value, list) else value


def password_in(url: str | None) -> list[str]:
    """Find the password in a URL, as it is written and as it is meant."""
    try:
        found = None if url is None else urlsplit(url).password
    except ValueError:
        return []
    return [] if not found else [found, unquote(found)]
