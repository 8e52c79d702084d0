"""Following what is published of queues and what happened to them, as far as one process needs it."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from holdfast.errors import HoldfastError
from holdfast.job import JobRow
from holdfast.stores.sla import QueuePolicy
from holdfast.worker.ageing import DEFAULT_RULE, Ageing, Rule
from holdfast.worker.tally import LONG_WAIT_S, Tally

_logger = logging.getLogger("holdfast")

_LOOK_S, _SOONEST_S = 5.0, 0.5
_LONG_WAIT = timedelta(seconds=LONG_WAIT_S)


class RuledStore(Protocol):
    """What following needs of a store."""

    async def queue_policies(self) -> list[QueuePolicy]:
        """Read what is published of queues."""


class Rules:
    """Tells the tally when queues were resumed, ageing when lanes are aged, `polled` how often to look at them."""

    def __init__(
        self, store: RuledStore, ageing: Ageing, tally: Tally, polled: Callable[[Mapping[str, int]], None]
    ) -> None:
        self._store = store
        self._ageing = ageing
        self._tally = tally
        self._polled = polled
        self._looks = asyncio.Event()

    def claimed(self, jobs: Iterable[JobRow]) -> None:
        """Look soon when jobs have waited for long: their queue may have been paused, which does not count."""
        if any(job.claimed_at is not None and job.claimed_at - job.run_at > _LONG_WAIT for job in jobs):
            self._looks.set()

    async def serve(self) -> None:
        """Look every five seconds, or when there is a reason."""
        while True:
            try:
                self._follow(await self._store.queue_policies())
            except HoldfastError as error:
                _logger.debug("what is published of queues is looked at later: %s", error)
            await asyncio.sleep(_SOONEST_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S - _SOONEST_S):
                    await self._looks.wait()
            self._looks.clear()

    def _follow(self, policies: Sequence[QueuePolicy]) -> None:
        self._polled({policy.queue: policy.poll_ms for policy in policies if policy.poll_ms is not None})
        for policy in policies:
            if policy.resumed_at is not None:
                self._tally.resumed[policy.queue] = policy.resumed_at
            if policy.is_published:
                after, share = policy.age_after_ms, policy.age_share
                self._ageing.rules[policy.queue] = Rule(
                    DEFAULT_RULE.after_ms if after is None else after, DEFAULT_RULE.share if share is None else share
                )
