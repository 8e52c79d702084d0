"""What the bodies of requests have in common."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar

from holdfast.about import About

REASON_BYTES = 1_000

Reason = Annotated[str | None, About("Why; it is recorded and shown later.", "the mail provider is down")]
REASON: Mapping[str, Any] = {"max_length": REASON_BYTES // 4}
"""The bounds of a `Reason`, as `field(default=None, metadata=REASON)`: the server refuses what is beyond them."""

Length = float | str
LENGTH: Mapping[str, Any] = {"union_mode": "left_to_right"}
"""How a `Length` is read: digits are seconds, also as text."""

DEFAULT = "default"
"""Where null has a meaning of its own: leaves the choice to what holds without the request."""


class _WithOffset:
    """Reads a time as UTC; refuses one without an offset, and numbers, which would be seconds since 1970."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        """Say to pydantic how it is read."""
        from pydantic_core import core_schema  # noqa: PLC0415 - only the server, which asks for this, has it

        return core_schema.no_info_wrap_validator_function(_read_instant, handler(source))


def _read_instant(value: Any, read: Callable[[Any], datetime]) -> datetime:
    if not isinstance(value, datetime) and not (isinstance(value, str) and "T" in value.upper()):
        message = "expected a time with an offset, such as 2026-11-16T09:30:00Z"
        raise ValueError(message)
    moment = read(value)
    if moment.utcoffset() is None:
        message = "expected a time with an offset, such as 2026-11-16T09:30:00Z, got one without"
        raise ValueError(message)
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        message = "expected a time between the years 1 and 9999"
        raise ValueError(message) from None


Instant = Annotated[datetime, _WithOffset()]
"""A time with an offset; it is read as UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The body of a request; the server refuses fields that it does not know."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}
