"""Whose requests a scoped namespace answers."""

import secrets

import msgspec

from holdfast.errors import InvalidValue, QueueNotFound, shown
from holdfast.server.principal import Principal
from holdfast.server.problems import Problem
from holdfast.stores.values import JobFilter

NOWHERE = secrets.token_hex(32)  # the name of no queue: no caller can know it


class Scope:
    """The queues of one caller, and the name under which their changes are recorded."""

    def __init__(self, principal: Principal) -> None:
        self._principal = principal

    def acting(self, actor: str | None) -> str:
        """The name that a change is recorded under; a caller cannot act as another."""
        if actor is not None:
            message = f"actor: a server records whose token it was, expected none, got {shown(actor)}"
            raise InvalidValue(message)
        return self._principal.name

    @property
    def sees_all(self) -> bool:
        """Whether the caller may see all queues."""
        return self._principal.queues is None

    @property
    def queues(self) -> frozenset[str] | None:
        """The queues that the caller may see; None for all."""
        return self._principal.queues

    def sees(self, queue: str) -> bool:
        """Whether the caller may see a queue."""
        return self._principal.sees(queue)

    def require_all(self) -> None:
        """Refuse a caller for some queues what concerns all of them."""
        if not self.sees_all:
            raise Problem(
                403, f"this concerns all queues, and {self._principal.name} may see some of them only", "scope"
            )

    def require(self, queue: str) -> str:
        """Refuse a queue that the caller may not see, as one that does not exist."""
        if not self.sees(queue):  # guard: scope-queue
            message = f"there is no queue {queue}"
            raise QueueNotFound(message)
        return queue

    def narrowed(self, which: JobFilter) -> JobFilter:
        """Let a list show what they may see."""
        return msgspec.structs.replace(which, queues=self.among(which.queues))

    def among(self, asked: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Narrow the queues of a filter, which are all where none is named, to those that they may see."""
        mine = self.queues  # guard: scope-filters, without: mine = None
        if mine is None:
            return asked
        wanted = tuple(queue for queue in asked if queue in mine) if asked else tuple(sorted(mine))
        return wanted or (NOWHERE,)
