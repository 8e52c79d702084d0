"""The limits of everything that names something: kinds, queues, keys, tags, actors, priorities."""

import re
from collections.abc import Mapping
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta

from holdfast.errors import InvalidValue, shown
from holdfast.formats import Format, text_format

KEY_BYTES = 512
ACTOR_BYTES = 256
SCHEMA_BYTES = 63
TAGS = 32
HIGHEST_PRIORITY, LOWEST_PRIORITY = 0, 10
PRIORITIES = range(HIGHEST_PRIORITY, LOWEST_PRIORITY + 1)

_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,64}", re.ASCII)
_DIGITS = re.compile(r"[0-9]{1,19}")


def name(value: str, what: str) -> str:
    """Return a kind or queue name as it is stored: lower-case."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        message = f"{what}: expected 1 to 64 letters, digits, '_', '.', ':' or '-', got {shown(value)}"
        raise InvalidValue(message)
    return value.lower()


def key(value: str, what: str) -> str:
    """Check a unique, idempotency or lock key: free text of 1 to 512 bytes."""
    return text(value, what, KEY_BYTES)


def text(value: str, what: str, most_bytes: int) -> str:
    """Check free text that both databases can store and find again."""
    size = _utf8_size(value)
    if size is None or not 1 <= size <= most_bytes or "\x00" in value:
        message = f"{what}: expected text of 1 to {most_bytes} bytes in UTF-8 without NUL, got {shown(value)}"
        raise InvalidValue(message)
    return value


def address(value: str, what: str) -> str:
    """Check the address of a server that people open: whole, without a password, a query or a fragment."""
    try:
        parts = urlsplit(value) if isinstance(value, str) else None
    except ValueError:
        parts = None
    if (
        parts is None
        or parts.scheme not in {"http", "https"}
        or not parts.hostname
        or any((parts.username, parts.password, parts.query, parts.fragment))
        or re.search(r"[\s\x00-\x1f\\]", value)
    ):
        message = f"{what}: expected an address such as https://jobs.example.org/holdfast, got {shown(value)}"
        raise InvalidValue(message)
    return value


def priority(value: int, what: str = "priority") -> int:
    """Check a priority: 0 goes first, 10 last."""
    if isinstance(value, bool) or not isinstance(value, int) or not HIGHEST_PRIORITY <= value <= LOWEST_PRIORITY:
        message = f"{what}: expected a whole number from 0 (first) to 10 (last), got {shown(value)}"
        raise InvalidValue(message)
    return value


def count(value: int, what: str, most: int = 1_000_000) -> int:
    """Check a whole number of at least one."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        message = f"{what}: expected a whole number from 1 to {most}, got {shown(value)}"
        raise InvalidValue(message)
    return value


def number(value: int | str, what: str) -> int:
    """Check the number of a row, which JSON has as text."""
    if isinstance(value, str):
        if not _DIGITS.fullmatch(value):
            message = f"{what}: expected a whole number, got {shown(value)}"
            raise InvalidValue(message)
        value = int(value)
    return count(value, what, 2**63 - 1)


def tags(value: Mapping[str, str]) -> dict[str, str]:
    """Check tags: a flat mapping of at most 32 short texts."""
    if not isinstance(value, Mapping) or len(value) > TAGS:
        message = f"tags: expected a mapping of at most {TAGS} texts, got {shown(value)}"
        raise InvalidValue(message)
    checked = {name(tag, "tag name"): text(content, f"tag {tag}", KEY_BYTES) for tag, content in value.items()}
    if len(checked) < len(value):
        message = f"tags: names are compared without case, and {shown(value)} holds one twice"
        raise InvalidValue(message)
    return checked


def schema(value: str) -> str:
    """Check the name of a PostgreSQL schema: whatever can be spelled safely inside quotes and literals."""
    size = _utf8_size(value)
    if size is None or not 1 <= size <= SCHEMA_BYTES or not value.isprintable() or set(value) & set("'\\$%"):
        message = f"schema: expected 1 to {SCHEMA_BYTES} bytes without ', \\, $, % and control characters"
        message += f", got {shown(value)}"
        raise InvalidValue(message)
    return value


def _utf8_size(value: str) -> int | None:
    if not isinstance(value, str):
        return None
    try:
        return len(value.encode())
    except UnicodeEncodeError:
        return None


Name = Annotated[str, Format(name, {"type": "string", "pattern": "^[A-Za-z0-9_.:-]{1,64}$"})]
Text = Annotated[str, text_format(lambda value, what: text(value, what, KEY_BYTES), minLength=1)]
ServerAddress = Annotated[str, text_format(address, "^https?://[^/]")]
SchemaName = Annotated[str, text_format(lambda value, _: schema(value))]
Priority = Annotated[int, Meta(ge=HIGHEST_PRIORITY, le=LOWEST_PRIORITY)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
"""Types of settings; the configuration file is checked with them."""
