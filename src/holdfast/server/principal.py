"""Who asks: a name, a role, and the queues they may see."""

from dataclasses import dataclass
from typing import Literal

from holdfast.server.roles import Role

Via = Literal["token", "session", "proxy", "hook", "loopback"]


@dataclass(frozen=True)
class Principal:
    """Whoever has been let in; `queues` is None for all, and `token_id` the token or session they came with."""

    name: str
    role: Role
    queues: frozenset[str] | None = None
    via: Via = "hook"
    token_id: int | None = None

    def sees(self, queue: str) -> bool:
        """Whether they may know of what is in a queue."""
        return self.queues is None or queue in self.queues

    def may(self, role: Role) -> bool:
        """Whether they may do what needs a role."""
        return self.role >= role
