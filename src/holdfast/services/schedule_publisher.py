"""Publishes the schedules of a program, so that any process can fire them."""

import asyncio
import logging
from collections.abc import Iterable

import msgspec

from holdfast import moments
from holdfast.client.making import new_job
from holdfast.config import Settings
from holdfast.delivery.delivery import SCHEDULES_HINT, Delivery
from holdfast.errors import HoldfastError
from holdfast.schedules import Schedule, plan_of
from holdfast.stores.cluster import ScheduleStore
from holdfast.tasks.options import PLAIN
from holdfast.tasks.registry import Registry

_logger = logging.getLogger("holdfast")

_UNDRAWN = 0
_AGAIN_S = 1.0


def read_plans(schedules: Iterable[Schedule], tasks: Registry, settings: Settings) -> dict[str, str]:
    """Write down what each schedule enqueues; a kind or an argument that is not known is refused."""
    plans: dict[str, str] = {}
    for schedule in schedules:
        call = tasks.get(schedule.kind).make_call(schedule.args, PLAIN)
        plans[schedule.name] = msgspec.json.encode(plan_of(schedule, new_job(call, _UNDRAWN, settings))).decode()
    return plans


class SchedulePublisher:
    """Publishes the schedules of one program, once."""

    def __init__(self, store: ScheduleStore, delivery: Delivery, plans: dict[str, str], kinds: Iterable[str]) -> None:
        self._store = store
        self._delivery = delivery
        self._plans = plans
        self._kinds = list(kinds)

    async def serve(self) -> None:
        """Publish; a store that is away is asked again."""
        while True:
            try:
                await self._store.define_schedules(self._plans, self._kinds)
            except HoldfastError as error:
                _logger.warning("schedules are published later: %s", error)
                await asyncio.sleep(_AGAIN_S)
            else:
                if self._plans:
                    moments.reach("schedules_published")
                    self._delivery.hint([SCHEDULES_HINT])
                break
        await asyncio.Event().wait()  # there is nothing more to do, as long as the program runs
