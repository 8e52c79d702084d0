"""A store between the worker and the real one that can be away, slow, or lose replies."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from holdfast import Holdfast
from holdfast.errors import OutcomeUnknown, StoreUnavailable


class Faults:
    """Takes the place of verbs of an app's store, and puts faults around them."""

    def __init__(self, app: Holdfast, *verbs: str) -> None:
        self.calls: Counter[str] = Counter()
        self.is_away = False
        self.gate = asyncio.Event()
        self.gate.set()
        self._cut: Counter[str] = Counter()
        self._waiting = 0
        self._store: Any = app.store
        for verb in verbs or ("claim_jobs", "finish_jobs", "give_back_batch", "start_jobs", "save_progress"):
            self._wrap(verb)

    def cut_reply(self, verb: str, times: int = 1) -> None:
        """Let the store do what is asked the next times, and nobody hear of it."""
        self._cut[verb] += times

    @property
    def waiting(self) -> int:
        """How many calls wait at the gate."""
        return self._waiting

    def _wrap(self, verb: str) -> None:
        ask = getattr(self._store, verb)

        async def asked(*args: Any, **kwargs: Any) -> Any:
            self.calls[verb] += 1
            self._waiting += 1
            try:
                await self.gate.wait()
            finally:
                self._waiting -= 1
            if self.is_away:
                message = "the database is away"
                raise StoreUnavailable(message)
            answer = await ask(*args, **kwargs)
            if self._cut[verb] > 0:
                self._cut[verb] -= 1
                message = "the link broke"
                raise OutcomeUnknown(message)
            return answer

        setattr(self._store, verb, asked)


class LeaseFaults:
    """Takes the place of the renewals of the workers of an app that start after it was made."""

    def __init__(self, app: Holdfast) -> None:
        self.is_away = False
        store: Any = app.store
        self._reserve = store.reserve
        store.reserve = self._reserved

    @asynccontextmanager
    async def _reserved(self) -> AsyncIterator[Any]:
        async with self._reserve() as leases:
            renew = leases.renew_workers

            async def renew_unless_away(*args: Any, **kwargs: Any) -> Any:
                if self.is_away:
                    message = "no way to the store"
                    raise StoreUnavailable(message)
                return await renew(*args, **kwargs)

            leases.renew_workers = renew_unless_away
            try:
                yield leases
            finally:
                leases.renew_workers = renew
