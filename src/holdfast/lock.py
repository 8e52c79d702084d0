"""A lock that is held, and how locks are named."""

from datetime import datetime

from holdfast import names
from holdfast.errors import InvalidValue, shown

Part = str | int


class Lock:
    """A lock that a block holds.

    `token` is larger than that of every earlier holder: an outside system that remembers the largest it has seen, and
    refuses smaller ones, is safe from a holder that was thought dead.
    """

    __slots__ = ("is_lost", "name", "since", "token")

    def __init__(self, name: str, token: int, since: datetime) -> None:
        self.name = name
        self.token = token
        self.since = since
        self.is_lost = False
        """Whether others may hold it by now; an async body is cancelled then, one in a thread has to look here."""

    def __repr__(self) -> str:
        return f"<Lock {self.name} with token {self.token}>"


def name_of(parts: tuple[Part, ...]) -> str:
    """Join the parts of a name so that no two lists of parts give the same: `("edition", 42)` is `edition:42`."""
    if not parts or not all(isinstance(part, str | int) and not isinstance(part, bool) for part in parts):
        message = (
            f'lock: expected a name in parts of text or whole numbers, like lock("edition", 42), got {shown(parts)}'
        )
        raise InvalidValue(message)
    return names.key(":".join(str(part).replace("\\", "\\\\").replace(":", "\\:") for part in parts), "lock")
