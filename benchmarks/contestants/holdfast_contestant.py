"""What Holdfast does alike on both stores."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from benchmarks.contestants.contestant import URL, Contestant

if TYPE_CHECKING:
    from holdfast import Holdfast, Task

CONCURRENCY = 200


class HoldfastContestant(Contestant):
    """Holdfast through its public interface: `enqueue`, `enqueue_many` and `holdfast worker`."""

    name = "holdfast"
    packages: ClassVar[Sequence[str]] = ("holdfast", "asyncpg", "msgspec")
    settings: ClassVar[Mapping[str, object]] = {
        "worker": f"holdfast worker --concurrency {CONCURRENCY} --processes N",
        "handler": "async",
        "finished jobs": "moved to history, kept 7 days",
        "everything else": "defaults",
    }

    _app: "Holdfast"
    _note: "Task[[int], None]"

    def __init__(self, url: str) -> None:
        super().__init__(url)
        os.environ[URL] = url  # the app reads it when it is imported

    async def open(self) -> None:
        """Open the app."""
        from benchmarks.contestants.holdfast_app import app, note  # noqa: PLC0415 - only after the URL is known

        self._app, self._note = app, note
        await app.__aenter__()

    async def close(self) -> None:
        """Close the app."""
        await self._app.__aexit__(None, None, None)

    async def enqueue(self, number: int) -> None:
        """Enqueue; on disk when this returns."""
        await self._note.enqueue(number)

    async def enqueue_bulk(self, numbers: Sequence[int]) -> None:
        """Enqueue all by one call."""
        await self._app.enqueue_many([self._note.call(number) for number in numbers])

    def worker_commands(self, processes: int) -> list[list[str]]:
        """One command supervises all processes."""
        app = ["--app", "benchmarks.contestants.holdfast_app:app", "--log-level", "warning"]
        dealt = ["--concurrency", str(CONCURRENCY), "--processes", str(processes)]
        return [["holdfast", "worker", *app, *dealt]]
