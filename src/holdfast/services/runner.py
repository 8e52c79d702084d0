"""Runs the services on the leader and records what each run did; other processes stand by."""

import asyncio
import contextlib
import logging
import math
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from holdfast import moments
from holdfast.cadence import Service, overridden
from holdfast.config import Settings
from holdfast.delivery.delivery import EVERY_HINT, SCHEDULES_HINT, Delivery
from holdfast.errors import ConfigError, HoldfastError, OutcomeUnknown, StoreUnavailable
from holdfast.services.announcements import AnnouncementsService, Measured
from holdfast.services.bulk import BulkService
from holdfast.services.dead_letters import DeadLettersService
from holdfast.services.escalations import EscalationsService
from holdfast.services.lane_counts import LaneCountsService
from holdfast.services.leader import Leadership
from holdfast.services.notices import NoticesService
from holdfast.services.promotion import PromotionService
from holdfast.services.rescue import RescueService
from holdfast.services.retention import RetentionService
from holdfast.services.rollups import RollupsService
from holdfast.services.schedules import SchedulesService
from holdfast.services.service import LeaderService, Round
from holdfast.services.sla import SlaService
from holdfast.stores.cluster import Override, ServiceReport
from holdfast.stores.store import Store

_logger = logging.getLogger("holdfast")

STANDBY_S = 0.25  # between two looks whether this process leads by now
_REFRESH_S = 5.0
_REPORT_S = 10.0
_AFTER_ERROR_S = 1.0
_QUIET_S = 10.0
PREFIX = "services."

InTime = Callable[[Coroutine[Any, Any, None]], Awaitable[None]]  # waits for it, or raises TimeoutError


async def _at_leisure(work: Coroutine[Any, Any, None]) -> None:
    await work


class _ServiceRounds:
    """The rounds of one service in this process, and what they did."""

    def __init__(self, service: LeaderService, cadence: Service) -> None:
        self.service = service
        self.cadence = cadence
        self.looks = asyncio.Event()
        self.runs = self.scanned = self.moved = self.failures = self.lag_ms = 0
        self.error: str | None = None
        self.warned_at = -math.inf

    def count(self, done: Round) -> None:
        """Add a round."""
        self.runs += 1
        self.scanned += done.scanned
        self.moved += done.moved
        self.failures += done.failures
        self.lag_ms = max(done.lag_ms, self.lag_ms if self.runs % 100 else 0)  # the worst of late
        self.error = None

    def report(self, holder: str) -> ServiceReport:
        """Sum up what the rounds did."""
        counts = (self.runs, self.scanned, self.moved, self.failures, self.lag_ms)
        return ServiceReport(self.service.name, holder, None, *counts, self.error)


class ServiceRunner:
    """The services of one process."""

    def __init__(self, store: Store, delivery: Delivery, settings: Settings, leadership: Leadership) -> None:
        self.leadership = leadership
        self._store = store
        self._delivery = delivery
        self._settings = settings
        self._is_away = False  # the store, and that was said
        self._warned_at = -math.inf
        services: list[LeaderService] = [
            PromotionService(store, delivery),
            SchedulesService(store, delivery),
            RescueService(store, cancel_grace_s=settings.worker.cancel_grace_s, lease_s=settings.worker.lease_s),
            RetentionService(store),
            RollupsService(store),
            LaneCountsService(store),
            DeadLettersService(store),
            BulkService(store, delivery),
            SlaService(store),
        ]
        if settings.escalations:
            services += [EscalationsService(store, settings), NoticesService(store, settings)]
        if isinstance(delivery, Measured):
            services.append(AnnouncementsService(store, delivery, delivery))
        self._services = [_ServiceRounds(service, settings.services[service.name]) for service in services]

    @asynccontextmanager
    async def open(self, in_time: InTime = _at_leisure) -> AsyncIterator[None]:
        """Serve while the block runs, then let another process lead at once; `in_time` bounds the resignation."""
        serving = asyncio.create_task(self._keep_serving(), name="holdfast services")
        try:
            yield
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            with contextlib.suppress(TimeoutError):
                await in_time(self.leadership.resign())

    async def _keep_serving(self) -> None:
        while True:
            try:
                await self.serve()
            except Exception:
                _logger.exception("the services failed and start again")
            await asyncio.sleep(_AFTER_ERROR_S)

    async def serve(self) -> None:
        """Take part in the election, and serve while this process leads."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.leadership.serve(), name="holdfast leader")
            if self._store.is_remote:  # a file is looked at by its workers, and the services find the rest in time
                group.create_task(self._listen(), name="holdfast services listen")
            group.create_task(self._refresh(), name="holdfast service settings")
            group.create_task(self._report(), name="holdfast service reports")
            for rounds in self._services:
                group.create_task(self._keep(rounds), name=f"holdfast {rounds.service.name}")

    def reports(self) -> Sequence[ServiceReport]:
        """What the services of this process have done."""
        return [rounds.report(self.leadership.holder) for rounds in self._services if rounds.runs or rounds.error]

    async def _listen(self) -> None:
        """Listen to hints while this process leads; other processes need no connection for it."""
        while True:
            if self.leadership.is_leader:
                async with self._delivery.wakeups([EVERY_HINT], self._hinted):
                    while self.leadership.is_leader:  # noqa: ASYNC110 - by the clock, which sets no event
                        await asyncio.sleep(STANDBY_S)
            await asyncio.sleep(STANDBY_S)

    def _hinted(self, name: str) -> None:
        if name.startswith("!") and name != SCHEDULES_HINT:  # no queue: a lock was released, a job cancelled
            return
        wanted = {"schedules"} if name == SCHEDULES_HINT else {"promotion", "announcements"}
        for rounds in self._services:
            if rounds.service.name in wanted:
                rounds.looks.set()

    async def _keep(self, rounds: _ServiceRounds) -> None:
        while True:
            if not (self.leadership.is_leader and rounds.cadence.enabled):
                await asyncio.sleep(STANDBY_S)
                continue
            pause = await self._round(rounds)
            if pause > 0:
                rounds.looks.clear()
                try:
                    async with asyncio.timeout(pause):
                        await rounds.looks.wait()
                except TimeoutError:
                    continue

    async def _round(self, rounds: _ServiceRounds) -> float:
        """Do one round; the answer is how long to wait for the next."""
        try:
            done = await rounds.service.run(rounds.cadence.batch or 1)
        except HoldfastError as error:
            self._failed(rounds, error)
            return min(rounds.cadence.interval_s, _AFTER_ERROR_S)
        except Exception as error:  # noqa: BLE001 - whatever it is, the service goes on with the next round
            self._failed(rounds, error)
            return max(rounds.cadence.interval_s, _AFTER_ERROR_S)
        rounds.count(done)
        self._answered()
        moments.reach("served", service=rounds.service.name, moved=done.moved)
        if done.has_more:
            return 0.0
        interval = rounds.cadence.interval_s * random.uniform(0.95, 1.0)
        return interval if done.next_s is None else max(min(done.next_s, interval), 0.001)

    def _failed(self, rounds: _ServiceRounds, error: Exception) -> None:
        rounds.failures += 1
        rounds.error = f"{type(error).__name__}: {error}"
        now = time.monotonic()
        if isinstance(error, StoreUnavailable | OutcomeUnknown):  # which all of them meet, and one line says it
            if not self._is_away and now - self._warned_at >= _QUIET_S:
                self._is_away, self._warned_at = True, now
                _logger.warning("the services wait for the store: %s", error)
        elif now - rounds.warned_at >= _QUIET_S:
            rounds.warned_at = now
            detail = None if isinstance(error, HoldfastError) else error
            _logger.warning("the service %s failed and tries again: %s", rounds.service.name, error, exc_info=detail)

    def _answered(self) -> None:
        if self._is_away:
            self._is_away = False
            _logger.info("the services run again")

    async def _refresh(self) -> None:
        """Apply what people have set at run time."""
        while True:
            try:
                self._set(await self._store.list_overrides(PREFIX))
            except HoldfastError as error:
                _logger.debug("the settings of services are read later: %s", error)
            await asyncio.sleep(_REFRESH_S * random.uniform(0.8, 1.0))

    def _set(self, overrides: Sequence[Override]) -> None:
        changes: dict[str, dict[str, str]] = {}
        for override in overrides:
            name, _, part = override.path.removeprefix(PREFIX).partition(".")
            changes.setdefault(name, {})[part] = override.value
        for rounds in self._services:
            name = rounds.service.name
            try:
                cadence = overridden(self._settings.services[name], changes.get(name, {}))
            except ConfigError as error:
                _logger.warning("what was set for the service %s is left out: %s", name, error)
                continue
            if cadence != rounds.cadence:
                rounds.cadence = cadence
                rounds.looks.set()

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(_REPORT_S * random.uniform(0.9, 1.0))
            if self.leadership.is_leader:
                try:
                    await self._store.report_services(self.reports())
                except HoldfastError as error:
                    _logger.debug("what services did is recorded later: %s", error)
