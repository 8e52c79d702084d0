"""The functions of a program that workers call besides its handlers."""

from collections.abc import Callable
from typing import TypeVar

from holdfast import names
from holdfast.context import Around
from holdfast.services.retention_callbacks import Callback

AroundFunction = TypeVar("AroundFunction", bound=Around)
CallbackFunction = TypeVar("CallbackFunction", bound=Callback)


class Hooks:
    """Registers functions that run around each run, and when a finished job becomes stale or is deleted."""

    def __init__(self) -> None:
        self._arounds: list[Around] = []
        self._callbacks: dict[tuple[str, str], list[Callback]] = {}

    def around(self, function: AroundFunction) -> AroundFunction:
        """Put code around each run, the first one outermost: `async def tenant(ctx, call): return await call()`."""
        self._arounds.append(function)
        return function

    def on_stale(self, queue: str) -> Callable[[CallbackFunction], CallbackFunction]:
        """Call a function with each finished job of a queue when it becomes stale; see `Queue(stale_after=...)`."""
        return self._registers(queue, "stale")

    def on_delete(self, queue: str) -> Callable[[CallbackFunction], CallbackFunction]:
        """Call a function with each finished job of a queue just before retention deletes it.

        It runs in a worker, and gets the job as it was. One that raises is called again, at most five times in all.
        """
        return self._registers(queue, "delete")

    def _registers(self, queue: str, what: str) -> Callable[[CallbackFunction], CallbackFunction]:
        name = names.name(queue, "queue")

        def register(function: CallbackFunction) -> CallbackFunction:
            self._callbacks.setdefault((name, what), []).append(function)
            return function

        return register
