"""What a process does beside running jobs: it publishes what it defines, posts webhooks, and tells of jobs that go."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from holdfast.client.definitions import read_definitions
from holdfast.delivery.delivery import Delivery
from holdfast.services import webhooks
from holdfast.services.policy_publisher import PolicyPublisher
from holdfast.services.retention_callbacks import RetentionCallbacksService
from holdfast.services.schedule_publisher import SchedulePublisher, read_plans
from holdfast.services.webhooks import WebhooksService
from holdfast.stores.store import Store
from holdfast.worker.loops import keep_going
from holdfast.worker.parts import Parts


class Errands:
    """The loops beside a worker, for as long as it runs."""

    def __init__(
        self, parts: Parts, store: Store, delivery: Delivery, worker: Callable[[], int | None] = lambda: None
    ) -> None:
        plans = read_plans(parts.schedules, parts.tasks, parts.settings)
        kinds = [task.kind for task in parts.tasks]
        definitions = read_definitions(parts.settings, parts.tasks, parts.schedules)
        self._policies = PolicyPublisher(store, delivery, parts.settings, definitions, worker)
        loops: list[Callable[[], Awaitable[None]]] = [
            SchedulePublisher(store, delivery, plans, kinds).serve,
            self._policies.serve,
        ]
        self._webhooks: WebhooksService | None = None
        if webhooks.is_wanted(parts.settings):
            self._webhooks = WebhooksService(store, parts.settings)
            loops.append(self._webhooks.serve)
        if parts.told_queues:
            loops.append(RetentionCallbacksService(store, parts.retention_callbacks, parts.told_queues).serve)
        self._loops = [asyncio.create_task(keep_going(loop), name="holdfast errand") for loop in loops]

    async def published(self, patience_s: float) -> None:
        """Wait until limits are published, so that no job is claimed past them; not for ever if the store is away."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await self._policies.published.wait()

    async def close(self, patience_s: float) -> None:
        """End the loops; webhooks that are under way may use the time that is left."""
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        if self._webhooks is not None:
            await self._webhooks.close(patience_s)
