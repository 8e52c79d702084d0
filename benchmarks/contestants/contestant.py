"""What a contestant can do, and the command line by which the harness asks for it.

`python -m benchmarks.contestants.NAME VERB --url URL ...` runs in the contestant's own environment, and prints one line
of JSON. This file and the ledger use the standard library only.
"""

import argparse
import asyncio
import json
import os
import random
import resource
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import metadata
from typing import ClassVar, NamedTuple

from benchmarks.contestants.ledger import Ledger, count

LEDGER = "BENCH_LEDGER"  # the file in which the worker's handlers record what ran
URL = "BENCH_URL"  # the store, for modules that a peer's own worker command imports
COROUTINES = 64
_LOOK_S = 0.002


class Contestant(ABC):
    """One way to run jobs. A job carries its number, and its handler does nothing but record that it ran."""

    name: ClassVar[str]
    store: ClassVar[str]  # "postgres", "sqlite" or "redis"
    packages: ClassVar[Sequence[str]] = ()  # distributions whose versions are reported
    settings: ClassVar[Mapping[str, object]] = {}  # what of its configuration counts for the figures

    def __init__(self, url: str) -> None:
        self.url = url

    @abstractmethod
    async def prepare(self) -> None:
        """Make what the library needs in the store, and leave it empty: no job of an earlier run."""

    @abstractmethod
    async def open(self) -> None:
        """Connect for enqueueing."""

    @abstractmethod
    async def close(self) -> None:
        """Disconnect."""

    @abstractmethod
    async def enqueue(self, number: int) -> None:
        """Enqueue one job, durable by the library's own rules when this returns."""

    async def enqueue_bulk(self, numbers: Sequence[int]) -> None:
        """Enqueue many at once, the fastest way that the library documents; without one, one by one."""
        for number in numbers:
            await self.enqueue(number)

    has_bulk: ClassVar[bool] = True  # whether the library has a way for many at once

    @abstractmethod
    def worker_commands(self, processes: int) -> list[list[str]]:
        """The commands that run jobs in so many processes until SIGTERM, the ledger's path in the environment."""

    @abstractmethod
    async def open_jobs(self) -> int:
        """Count the jobs that the store shows as not ended: waiting, claimed, running or not acknowledged."""


async def _enqueue_one_by_one(contestant: Contestant, jobs: int) -> None:
    for number in range(jobs):
        await contestant.enqueue(number)


async def _enqueue_at_once(contestant: Contestant, jobs: int) -> None:
    numbers = iter(range(jobs))

    async def some() -> None:
        for number in numbers:
            await contestant.enqueue(number)

    async with asyncio.TaskGroup() as group:
        for _ in range(COROUTINES):
            group.create_task(some())


async def _enqueue_bulk(contestant: Contestant, jobs: int) -> None:
    await contestant.enqueue_bulk(range(jobs))


_WAYS: Mapping[str, Callable[[Contestant, int], Awaitable[None]]] = {
    "one": _enqueue_one_by_one,
    "many": _enqueue_at_once,
    "bulk": _enqueue_bulk,
}


async def _timed_enqueue(contestant: Contestant, way: str, jobs: int) -> dict[str, float]:
    await contestant.open()
    try:
        cpu, began = _cpu_s(), time.monotonic()
        await _WAYS[way](contestant, jobs)
        return {"seconds": time.monotonic() - began, "cpu_s": _cpu_s() - cpu}
    finally:
        await contestant.close()


class _Feed(NamedTuple):
    """How jobs are enqueued while a worker waits for them."""

    first: int
    jobs: int
    rate: float
    called: Ledger  # a record just before each call says when
    returned: Ledger  # and one just after it
    ran: str | None  # the handlers' ledger, where each job waits until the one before it has begun

    async def by(self, contestant: Contestant) -> None:
        """Enqueue all, at a steady rate or each by itself."""
        began = time.monotonic()
        for place in range(self.jobs):
            if self.ran is None:
                await asyncio.sleep(max(0.0, began + place / self.rate - time.monotonic()))
            else:
                await self._pause(self.ran, place)
            self.called.record(self.first + place)
            await contestant.enqueue(self.first + place)
            self.returned.record(self.first + place)

    async def _pause(self, ran: str, place: int) -> None:
        # Of random length, or it would keep step with whoever looks for jobs by a clock of its own.
        await asyncio.sleep(random.uniform(0.5, 1.5) / self.rate)
        while count(ran) < self.first + place:  # noqa: ASYNC110 - another process writes it, and can wake nobody here
            await asyncio.sleep(_LOOK_S)


async def _feed(contestant: Contestant, feed: _Feed) -> dict[str, float]:
    await contestant.open()
    try:
        began = time.monotonic()
        await feed.by(contestant)
        return {"seconds": time.monotonic() - began}
    finally:
        await contestant.close()


async def _watch(contestant: Contestant) -> None:
    """Answer every line of standard input with the number of open jobs."""
    await contestant.open()
    try:
        while await asyncio.to_thread(sys.stdin.readline):
            print(await contestant.open_jobs(), flush=True)
    finally:
        await contestant.close()


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _about(contestant: Contestant) -> dict[str, object]:
    return {
        "name": contestant.name,
        "store": contestant.store,
        "versions": {package: metadata.version(package) for package in contestant.packages},
        "settings": dict(contestant.settings),
        "has_bulk": contestant.has_bulk,
        "python": sys.version.split()[0],
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["about", "prepare", "enqueue", "feed", "watch", "commands"])
    parser.add_argument("--url", default=os.environ.get(URL, ""))
    parser.add_argument("--way", choices=list(_WAYS), default="one")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--called", default=os.devnull)
    parser.add_argument("--returned", default=os.devnull)
    parser.add_argument("--ran", default=None)
    parser.add_argument("--processes", type=int, default=1)
    return parser.parse_args()


def main(make: Callable[[str], Contestant]) -> None:
    """Do what the command line asks for, and print the answer."""
    arguments = _arguments()
    contestant = make(arguments.url)
    answer: object = None
    match arguments.verb:
        case "about":
            answer = _about(contestant)
        case "prepare":
            asyncio.run(contestant.prepare())
        case "enqueue":
            answer = asyncio.run(_timed_enqueue(contestant, arguments.way, arguments.jobs))
        case "feed":
            ledgers = Ledger(arguments.called), Ledger(arguments.returned)
            feed = _Feed(arguments.first, arguments.jobs, arguments.rate, *ledgers, arguments.ran)
            answer = asyncio.run(_feed(contestant, feed))
        case "watch":
            asyncio.run(_watch(contestant))
        case "commands":
            answer = contestant.worker_commands(arguments.processes)
    print(json.dumps(answer), flush=True)
