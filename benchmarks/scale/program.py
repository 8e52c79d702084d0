"""Holdfast as the scale runs enqueue with it: `python -m benchmarks.scale.program enqueue|feed ...`."""

import os
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from benchmarks.contestants.contestant import LEDGER, Contestant, main
from benchmarks.contestants.ledger import Ledger
from benchmarks.scale.place import Place, place_of_environment
from holdfast import Call, Context, Holdfast, Pipeline, phase
from holdfast.tasks.task import Task


def make_work(app: Holdfast) -> Task[[int], None]:
    """Register the task of every job here: it records that it ran."""
    ledger = Ledger(os.environ[LEDGER])

    @app.task
    async def work(number: int) -> None:
        ledger.record(number)

    return work


def make_staged(app: Holdfast) -> Callable[[int], Call[Any]]:
    """Register a job of three phases that reports ten times how far it is, and records in the end that it ran."""
    ledger = Ledger(os.environ[LEDGER])

    @app.task
    class Staged(Pipeline):
        number: int

        @phase
        async def first(self, ctx: Context) -> dict[str, int]:
            for step in range(4):
                await ctx.progress(step * 25, "on its way")
            return {"number": self.number}

        @phase
        async def second(self, ctx: Context) -> dict[str, int]:
            for step in range(3):
                await ctx.progress(step * 30, "on its way")
            return {"number": self.number}

        @phase
        async def third(self, ctx: Context) -> dict[str, int]:
            for step in range(3):
                await ctx.progress(step * 30, "on its way")
            ledger.record(ctx.result("first")["number"])
            return {"number": self.number}

    return lambda number: Staged(number=number).call()


class Enqueuer(Contestant):
    """Enqueues by the client of an app, in whatever store the environment names."""

    name: ClassVar[str] = "holdfast"
    store: ClassVar[str] = "postgres"

    def __init__(self, place: Place) -> None:
        super().__init__(place.url)
        self._app = place.app()
        self._work = make_work(self._app)

    async def prepare(self) -> None:
        """Do nothing: whoever starts this has made the store."""

    async def open(self) -> None:
        """Connect for enqueueing."""
        await self._app.__aenter__()

    async def close(self) -> None:
        """Disconnect."""
        await self._app.__aexit__(None, None, None)

    async def enqueue(self, number: int) -> None:
        """Enqueue one job."""
        await self._work.enqueue(number)

    async def enqueue_bulk(self, numbers: Sequence[int]) -> None:
        """Enqueue many at once."""
        await self._app.enqueue_many(self._work.call(number) for number in numbers)

    def worker_commands(self, processes: int) -> list[list[str]]:
        """Leave that to `drain`."""
        raise NotImplementedError

    async def open_jobs(self) -> int:
        """Count what is not finished."""
        return sum(count.jobs for counts in (await self._app.jobs.counts()).values() for count in counts.values())


if __name__ == "__main__":
    main(lambda _url: Enqueuer(place_of_environment()))
