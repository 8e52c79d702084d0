"""Fires schedules: exactly one record for each nominal time, however many processes do it at once."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import ClassVar, Protocol

import msgspec

from holdfast.delivery.delivery import Delivery, Ready
from holdfast.errors import DataRefused, InvalidValue, StoreError
from holdfast.hours import Maintenance
from holdfast.job import NewJob
from holdfast.schedules import MAINTENANCE, Decision, Outcome, Plan, decide, read_plan
from holdfast.services.service import Round
from holdfast.stores.cluster import Fire, FireRow, ScheduleRow, ScheduleStore, SettingStore
from holdfast.stores.store import JobStore

_logger = logging.getLogger("holdfast")

_IN_ONE_COMMIT = 100


class FiredStore(ScheduleStore, SettingStore, JobStore, Protocol):
    """What schedules need of a store."""


class SchedulesService:
    """Fires the schedules that are due, and sleeps until the next one is."""

    name: ClassVar[str] = "schedules"

    def __init__(self, store: FiredStore, delivery: Delivery, *, overdue_s: float = 0.0) -> None:
        self._store = store
        self._delivery = delivery
        self._overdue = timedelta(seconds=overdue_s)  # a backstop leaves what is merely due to the leader
        self._plans: dict[str, tuple[int, Plan | None]] = {}  # by name: the version that was read
        self._broken: dict[str, int] = {}  # by name: the version of which somebody was told
        self._closed: Sequence[Maintenance] | None = None  # as this round has read it

    async def run(self, batch: int) -> Round:
        """Fire what is due, at most so many nominal times of one schedule."""
        now, found = await self._store.read_schedules()
        self._closed = None
        moved, failures, lag, has_more = 0, 0, timedelta(), False
        nexts: list[datetime] = []
        for row in found:
            try:
                recorded, following, is_cut = await self._look_at(row, now, batch)
            except Exception as error:  # one that cannot fire keeps no other from firing
                if isinstance(error, StoreError) and not isinstance(error, DataRefused):
                    raise
                failures += 1
                self._tell(row, error)
                continue
            moved += len(recorded)
            has_more |= is_cut
            lag = max([lag, *(fire.at - fire.nominal for fire in recorded if fire.outcome == Outcome.ENQUEUED)])
            if following is not None:
                nexts.append(following)
        next_s = max((min(nexts) - now).total_seconds(), 0) if nexts else None
        return Round(len(found), moved, failures, round(lag.total_seconds() * 1_000), next_s, has_more)

    async def _look_at(
        self, row: ScheduleRow, now: datetime, batch: int
    ) -> tuple[list[FireRow], datetime | None, bool]:
        """Fire one schedule: what was recorded, when it fires next, and whether more of it is due already."""
        plan = self._plan(row)
        if plan is None or not plan.enabled or row.withdrawn_at is not None:
            return [], None, False
        if row.next_fire is not None and row.next_fire > now - self._overdue:
            return [], row.next_fire, False
        decisions = await self._decide(row, plan, now, await self._maintenance())
        is_cut = len(decisions) > batch
        following = plan.times.next_after(decisions[batch - 1].nominal if is_cut else now)
        return await self._fire(row, plan, decisions[:batch], following), following, is_cut

    def _tell(self, row: ScheduleRow, error: Exception) -> None:
        if self._broken.get(row.name) != row.version:
            self._broken[row.name] = row.version
            _logger.error("schedule %s does not fire: %s: %s", row.name, type(error).__name__, error)

    def _plan(self, row: ScheduleRow) -> Plan | None:
        known = self._plans.get(row.name)
        if known is None or known[0] != row.version:
            try:
                plan = read_plan(row.definition, row.override)
            except (InvalidValue, msgspec.ValidationError) as error:
                _logger.error("schedule %s cannot be read and does not fire: %s", row.name, error)  # noqa: TRY400 - it is about the row
                plan = None
            known = self._plans[row.name] = (row.version, plan)
        return known[1]

    async def _decide(
        self, row: ScheduleRow, plan: Plan, now: datetime, closed: Sequence[Maintenance]
    ) -> list[Decision]:
        after = row.defined_at if row.last_fire is None else row.last_fire
        if now - after > timedelta(milliseconds=plan.grace_ms):  # what was missed may take long to count
            return await asyncio.to_thread(decide, plan, after, now, closed)
        return decide(plan, after, now, closed)

    async def _fire(
        self, row: ScheduleRow, plan: Plan, decisions: Sequence[Decision], following: datetime | None
    ) -> list[FireRow]:
        recorded: list[FireRow] = []
        if not decisions and following == row.next_fire:
            return recorded
        fires = [
            Fire(
                decision.nominal,
                decision.outcome,
                await self._job(plan, plan.times.jittered(decision.nominal, row.name))
                if decision.outcome is Outcome.ENQUEUED
                else None,
                decision.note,
                decision.is_missed,
            )
            for decision in decisions
        ]
        for start in range(0, max(len(fires), 1), _IN_ONE_COMMIT):
            some, has_more = fires[start : start + _IN_ONE_COMMIT], start + _IN_ONE_COMMIT < len(fires)
            # Until the last commit it stays due: whoever comes after a crash goes on at once.
            upcoming = some[-1].nominal if has_more else following
            recorded += await self._store.fire_schedule(
                row.name, row.version, some, overlap=plan.overlap, next_fire=upcoming
            )
        self._announce(plan, recorded)
        return recorded

    async def _job(self, plan: Plan, run_at: datetime | None) -> NewJob:
        (job_id,) = await self._store.take_ids(1)
        return msgspec.structs.replace(plan.job, id=job_id, run_at=run_at, delay_ms=None)

    def _announce(self, plan: Plan, recorded: Sequence[FireRow]) -> None:
        job = plan.job
        self._delivery.announce(
            Ready(fire.job_id, job.queue, job.priority, round(fire.nominal.timestamp() * 1_000))
            for fire in recorded
            if fire.job_id is not None and not plan.times.jitter_ms
        )

    async def _maintenance(self) -> Sequence[Maintenance]:
        """Read when no schedule may fire, once a round."""
        if self._closed is None:
            closed: list[Maintenance] = []
            for override in await self._store.list_overrides(MAINTENANCE):
                try:
                    closed.append(msgspec.json.decode(override.value, type=Maintenance))
                except msgspec.DecodeError as error:
                    _logger.warning("%s cannot be read, schedules fire without it: %s", override.path, error)
            self._closed = closed
        return self._closed
