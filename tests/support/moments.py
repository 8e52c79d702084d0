"""Waiting for what workers, services and stores do, by the moments that they publish (`holdfast.moments`)."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from holdfast import moments
from tests.support.lines import whole_lines
from tests.support.wait import PATIENCE_S, until


class Moment(NamedTuple):
    """One moment, with what was said of it."""

    name: str
    facts: dict[str, Any]

    def matches(self, name: str, facts: dict[str, Any]) -> bool:
        """Whether it is the moment that is meant; a fact that is a list need only contain the value."""
        return self.name == name and all(_is(self.facts.get(key), value) for key, value in facts.items())


def _is(actual: object, wanted: object) -> bool:
    return actual == wanted or (isinstance(actual, list) and wanted in actual)


class Moments:
    """The moments of this process since the block began, from all of its threads."""

    def __init__(self) -> None:
        self.all: list[Moment] = []
        self._changed = threading.Condition()
        self._waiters: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def __call__(self, name: str, facts: dict[str, Any]) -> None:
        with self._changed:
            self.all.append(Moment(name, facts))
            self._changed.notify_all()
            for loop, event in self._waiters:
                loop.call_soon_threadsafe(event.set)

    def count(self, name: str, **facts: Any) -> int:
        """Count the moments so far."""
        return sum(moment.matches(name, facts) for moment in tuple(self.all))

    async def wait(self, name: str, *, times: int = 1, **facts: Any) -> Moment:
        """Wait until the moment has come so often since the block began, and give the last of them."""
        event = asyncio.Event()
        waiter = (asyncio.get_running_loop(), event)
        with self._changed:
            self._waiters.add(waiter)
        try:
            async with asyncio.timeout(PATIENCE_S):
                while self.count(name, **facts) < times:
                    event.clear()
                    if self.count(name, **facts) < times:
                        await event.wait()
        except TimeoutError:
            names = sorted({moment.name for moment in self.all})
            message = f"waited {PATIENCE_S:g} s in vain for {name} {facts}, {times} times; there were {names}"
            raise AssertionError(message) from None
        finally:
            with self._changed:
                self._waiters.discard(waiter)
        return [moment for moment in self.all if moment.matches(name, facts)][times - 1]

    async def next(self, name: str, *, times: int = 1, **facts: Any) -> Moment:
        """Wait until the moment has come so often from now on."""
        return await self.wait(name, times=self.count(name, **facts) + times, **facts)

    def wait_in_thread(self, name: str, *, times: int = 1, **facts: Any) -> None:
        """Wait likewise where there is no event loop."""
        end = time.monotonic() + PATIENCE_S
        with self._changed:
            while self.count(name, **facts) < times:
                left = end - time.monotonic()
                assert left > 0, f"waited {PATIENCE_S:g} s in vain for {name} {facts}, {times} times"
                self._changed.wait(left)


@contextmanager
def recorded() -> Iterator[Moments]:
    """Record the moments of this process while the block runs."""
    found = Moments()
    moments.watchers.append(found)
    try:
        yield found
    finally:
        moments.watchers.remove(found)


class MomentsFile:
    """The moments of other processes, which have HOLDFAST_MOMENTS in their environment."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def env(self) -> dict[str, str]:
        """What a process needs to add its moments."""
        return {"HOLDFAST_MOMENTS": str(self.path)}

    def read(self, name: str, **facts: Any) -> list[dict[str, Any]]:
        """Give the moments so far: facts, `pid`, `role` and `at`, the time of day."""
        found = [json.loads(line) for line in whole_lines(self.path)]
        return [entry for entry in found if Moment(entry["moment"], entry).matches(name, facts)]

    async def wait(self, name: str, *, times: int = 1, **facts: Any) -> dict[str, Any]:
        """Wait until the moment has come so often, and give the last of them."""
        await until(lambda: len(self.read(name, **facts)) >= times, f"{name} {facts} has come {times} times")
        return self.read(name, **facts)[times - 1]
