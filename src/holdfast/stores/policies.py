"""What is published of kinds, queues, limits and budgets, and what each worker was started with."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

import msgspec


class KindRow(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for the jobs of a kind; `definition` is JSON for whoever looks.

    `debounce_path` are the steps of a key expression, `estimate` counts millionths of the budget's unit. `former` names
    the queues that the kind once had.
    """

    name: str
    queue: str
    definition: str
    debounce_ms: int | None = None
    debounce_path: tuple[str, ...] = ()
    budget: str | None = None
    estimate: int | None = None
    former: tuple[str, ...] = ()


class PolicyRow(msgspec.Struct, frozen=True):
    """One definition as programs or configuration say it: "limits.tenant", and JSON."""

    path: str
    definition: str
    published_at: datetime | None = None


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A kind that leaves a queue for another; jobs with the priority `was` get the priority `becomes`."""

    kind: str
    source: str
    queue: str
    was: int
    becomes: int


class PolicyStore(Protocol):
    """What is published; the effective rows of limits and budgets are `LimitStore`'s and `BudgetStore`'s."""

    async def list_policies(self) -> list[PolicyRow]:
        """Read what apps have published, by path; the row without a path is the mark of `mark_policies`."""

    async def define_policies(self, definitions: Sequence[PolicyRow], gone: Sequence[str]) -> None:
        """Publish definitions, and forget those of the paths that are gone; unchanged ones cost no write.

        Unknown: ask again.
        """

    async def mark_policies(self, mark: str) -> None:
        """Remember what the rows in force were worked out from. Unknown: ask again."""

    async def list_kinds(self) -> list[KindRow]:
        """Read what is published of kinds, by name."""

    async def define_kinds(self, kinds: Sequence[KindRow]) -> None:
        """Publish what holds for kinds; unchanged ones cost no write. Unknown: ask again.

        One that has another queue now remembers the one it had.
        """

    async def move_kind(self, move: Move, *, after: int, limit: int) -> tuple[int, int | None]:
        """Let waiting jobs of a kind change their queue, by id, beyond the given one; running ones stay.

        The answer is how many there were, and the last id; None when there was none. They keep their places. Unknown:
        ask again from the same id; what has moved stays moved.
        """

    async def define_queue_policies(self, definitions: Mapping[str, str], screened: Sequence[str]) -> None:
        """Set what holds for queues (JSON by name), and in which of them an enqueue has to look. Unknown: ask again.

        Every other queue has no definition from then on, and is not looked at.
        """

    async def list_queue_policies(self) -> dict[str, str]:
        """Read what holds for queues: JSON by name."""

    async def note_policies(self, worker: int, policies: str) -> None:
        """Note what a worker was started with: fingerprints by path, as JSON. Unknown: ask again."""

    async def worker_policies(self) -> dict[int, str]:
        """Read what the living workers were started with."""
