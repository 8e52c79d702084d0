"""Answers that are kept for a few seconds, so that many who look cost hardly more than one."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from holdfast.stores.store import Store

T = TypeVar("T")

_MOST = 200


class _Kept:
    def __init__(self) -> None:
        self.answers: dict[object, tuple[float, Any]] = {}
        self.asking: dict[object, asyncio.Lock] = {}


_of: WeakKeyDictionary[Store, _Kept] = WeakKeyDictionary()


async def recent(store: Store, key: object, lasts_s: float, ask: Callable[[], Awaitable[T]]) -> T:
    """Answer with what was found a moment ago, or find it; those who ask meanwhile wait for the same answer."""
    kept = _of.setdefault(store, _Kept())
    async with kept.asking.setdefault(key, asyncio.Lock()):
        until, answer = kept.answers.get(key, (0.0, None))
        if until > time.monotonic():
            found: T = answer
            return found
        fresh = await ask()
        if len(kept.answers) >= _MOST:
            kept.answers.clear()
            kept.asking.clear()
        kept.answers[key] = (time.monotonic() + lasts_s, fresh)
        return fresh
