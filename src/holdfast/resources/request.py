"""What the bodies of requests have in common."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from holdfast.about import About

REASON_BYTES = 1_000

Reason = Annotated[str | None, About("Why; it is recorded and shown later.", "the mail provider is down")]
REASON: Mapping[str, Any] = {"max_length": REASON_BYTES // 4}
"""The bounds of a `Reason`, as `field(default=None, metadata=REASON)`: the server refuses what is beyond them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The body of a request; the server refuses fields that it does not know."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}
