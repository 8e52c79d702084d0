"""`ctx.items(...)`: many things worked through side by side, each of which ends completed, skipped or failed."""

import asyncio
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, NamedTuple, Self

from holdfast import failure
from holdfast.errors import AllItemsFailed, ConfigError, InvalidValue
from holdfast.journal import Entry
from holdfast.names import count, text
from holdfast.outcomes import BudgetExceeded, Cancel, Skip, Snooze, Throttle, outcome_of
from holdfast.phasing import Phasing, is_async

MOST_ITEMS = 10_000
MOST_AT_ONCE = 1_000
ERROR_CHARACTERS = 500
KEY_BYTES = 256
_NAME_BYTES = 64


class ItemCounts(NamedTuple):
    """How the items of a set have ended, those of earlier attempts included."""

    completed: int
    skipped: int
    failed: int


class Items:
    """One set of items; `async with ctx.items(...) as items: await items.each(function)`."""

    def __init__(self, phasing: Phasing, name: str, keys: Iterable[str], *, concurrency: int, word: str) -> None:
        self.name = text(name, "items", _NAME_BYTES)
        self.keys = _checked_keys(name, keys)
        self._word = text(word, "word", _NAME_BYTES)
        if self._word in ("reason", "error"):
            message = f"word: expected what one item is called, got {word!r}, which is the name of the other field"
            raise InvalidValue(message)
        self._concurrency = count(concurrency, "concurrency", MOST_AT_ONCE)
        self._phasing = phasing
        self._left: list[str] | None = None  # those that have not ended; None before the block and after it
        self._completed = self._skipped = self._failed = 0

    @property
    def counts(self) -> ItemCounts:
        """How the items have ended so far."""
        return ItemCounts(self._completed, self._skipped, self._failed)

    async def __aenter__(self) -> Self:
        self._left = await self._phasing.open_items(self.name, self.keys, self._word)
        self._completed = self._phasing.ended_before(self.name, self.keys, "completed")
        self._skipped = self._phasing.ended_before(self.name, self.keys, "skipped")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left = None
        self._phasing.failed_items[self.name] = self._failed
        if error is not None:
            return
        await self._phasing.voice.keep(Entry())  # what was said of the items, before anything else happens
        if self._failed and not self._completed:
            message = f"items {self.name}: none of {len(self.keys)} was completed, {self._failed} failed"
            raise AllItemsFailed(message)

    async def each(self, function: Callable[[str], Any]) -> ItemCounts:
        """Call a function with the key of each item that has not ended, several at once; one that fails stops no other.

        `raise Skip(reason)` skips an item, any other exception fails it. `Cancel`, `Snooze` and `BudgetExceeded` end
        the whole attempt.
        """
        if self._left is None:
            message = f"items {self.name}: expected `each` inside `async with ctx.items(...) as items:`"
            raise ConfigError(message)
        waiting, self._left = iter(self._left), []
        workers = min(self._concurrency, len(self.keys))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(self._work(waiting, function))
        except BaseExceptionGroup as errors:
            raise outcome_of(errors) or errors.exceptions[0] from None
        return self.counts

    async def _work(self, waiting: Any, function: Callable[[str], Any]) -> None:
        for key in waiting:
            state, note = await self._ended(key, function)
            if state == "completed":
                self._completed += 1
            elif state == "skipped":
                self._skipped += 1
            else:
                self._failed += 1
            self._phasing.voice.note(Entry(item=(self.name, key, state, note)))

    async def _ended(self, key: str, function: Callable[[str], Any]) -> tuple[str, str | None]:
        try:
            await self._call(key, function)
        except Exception as error:
            outcome = outcome_of(error)
            if isinstance(outcome, Cancel | Snooze | Throttle | BudgetExceeded):
                raise
            if isinstance(outcome, Skip):
                return "skipped", failure.clean(outcome.reason, ERROR_CHARACTERS)
            why = failure.from_exception(outcome or error)
            return "failed", failure.clean(f"{why.error_class}: {why.message}", ERROR_CHARACTERS)
        return "completed", None

    async def _call(self, key: str, function: Callable[[str], Any]) -> None:
        if is_async(function):
            await function(key)
            return
        value = await self._phasing.voice.in_thread(lambda: function(key))
        if asyncio.iscoroutine(value):
            await value


def _checked_keys(name: str, keys: Iterable[str]) -> list[str]:
    listed = list(keys)
    if len(listed) > MOST_ITEMS:
        message = f"items {name}: expected at most {MOST_ITEMS} items, got {len(listed)}; split them over several jobs"
        raise InvalidValue(message)
    for key in listed:
        text(key, f"items {name}: key", KEY_BYTES)
    if len(set(listed)) != len(listed):
        twice = next(key for key in listed if listed.count(key) > 1)
        message = f"items {name}: expected each key once, got {twice!r} more than once"
        raise InvalidValue(message)
    return listed
