"""A coroutine that marks when its code runs, so that it is known whose code brought a process down."""

import os
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from holdfast.worker import forks
from holdfast.worker.marks import UNMARKED, Marks


class Stepping(Coroutine[Any, Any, Any]):
    """Wraps the coroutine of one run; `begin` makes the mark just before the first step."""

    __slots__ = ("_begin", "_coroutine", "_generation", "_mark", "_marks")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], marks: Marks, begin: Callable[[], int]) -> None:
        self._coroutine = coroutine
        self._marks = marks
        self._begin: Callable[[], int] | None = begin
        self._mark = UNMARKED
        self._generation = forks.generation

    def send(self, value: Any) -> Any:
        """Let the coroutine run until it waits."""
        if self._begin is not None:
            self._mark, self._begin = self._begin(), None
        self._marks.step(self._mark)
        try:
            return self._coroutine.send(value)
        finally:
            self._left()

    def throw(self, *error: Any) -> Any:
        """Let the coroutine meet an exception where it waits."""
        self._marks.step(self._mark)
        try:
            return self._coroutine.throw(*error)
        finally:
            self._left()

    def close(self) -> None:
        """Give the coroutine up."""
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()

    def _left(self) -> None:
        if forks.generation != self._generation:  # the handler forked: there is no worker in the copy
            os._exit(0)
        self._marks.step(UNMARKED)
