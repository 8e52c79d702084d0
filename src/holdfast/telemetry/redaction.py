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
_public: set[str] = set()
_placed: re.Pattern[str] | None = None
_pattern: re.Pattern[str] | None = None


def keep(secrets: Iterable[str], public: Iterable[str] = ()) -> None:
    """Cover these secrets from now on, in this process, but not within names that are public.

    A secret that is also a public name, such as the password of the user `postgres`, is covered where a password
    stands: in a URL before `@`, and after `password=`.
    """
    global _placed, _pattern  # noqa: PLW0603 - what a process must not say is one thing, whoever is about to say it
    _known.update(secret for secret in secrets if len(secret) >= _SHORTEST)
    _public.update(public)
    shared = "|".join(map(re.escape, _longest_first(_known & _public)))
    password = rf"(?P<before>:)(?:{shared})(?=@)|(?P<named>password\W{{1,4}})(?:{shared})"
    _placed = re.compile(password, re.IGNORECASE) if shared else None
    spared = {name for name in _public if any(secret in name for secret in _known)}
    words = (
        rf"(?<!\w){re.escape(word)}(?!\w)" if word in _public else re.escape(word)
        for word in _longest_first(_known | spared)
    )
    _pattern = re.compile("|".join(words)) if _known else None


def hide(text: str) -> str:
    """Cover every secret that is known."""
    if _placed is not None:
        text = _placed.sub(lambda found: f"{found['before'] or found['named']}{COVER}", text)
    return text if _pattern is None else _pattern.sub(_cover, text)


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


def names_in(url: str | None) -> list[str]:
    """Find what a URL shows beside its password: the scheme, the user, the host and the database."""
    try:
        parts = urlsplit(url or "")
        found = [parts.scheme, parts.username, parts.hostname, parts.path.strip("/")]
    except ValueError:
        return []
    return [name for part in found if part for name in (part, unquote(part))]


def _cover(found: re.Match[str]) -> str:
    return found[0] if found[0] in _public else COVER


def _longest_first(words: Iterable[str]) -> list[str]:
    """Put what is longer first, because it may begin with what is shorter."""
    return sorted(words, key=len, reverse=True)
