"""Whose requests a scoped namespace answers."""

from holdfast.errors import InvalidValue, QueueNotFound, shown
from holdfast.server.principal import Principal
from holdfast.server.problems import Problem


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
