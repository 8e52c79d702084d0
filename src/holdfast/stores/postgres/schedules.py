"""What is enqueued when, on PostgreSQL."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from holdfast.stores.cluster import Fire, FireRow, ScheduleRow
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.jobs import insert_values
from holdfast.stores.postgres.role import Role

_OVERLAP = "overlap"


class PostgresSchedules(Role):
    """The verbs of `ScheduleStore`."""

    async def define_schedules(self, plans: Mapping[str, str], kinds: Sequence[str]) -> None:
        for name, plan in sorted(plans.items()):
            await self.fetch("define_schedule", name, plan)
        await self.fetch("withdraw_schedules", list(kinds), list(plans))

    async def store_schedule(self, name: str, plan: str, *, actor: str | None) -> bool:
        return bool(await self.fetch("store_schedule", name, plan, actor))

    async def change_schedule(self, name: str, override: str, *, moves: bool, actor: str | None) -> bool:
        return bool(await self.fetch("change_schedule", name, override, moves, actor))

    async def drop_schedule(self, name: str) -> bool:
        return bool(await self.fetch("drop_schedule", name))

    async def read_schedules(self) -> tuple[datetime, list[ScheduleRow]]:
        found = await self.fetch("read_schedules")
        return found[0]["now"], [ScheduleRow(*tuple(row)[1:]) for row in found if row["name"] is not None]

    async def fire_schedule(
        self, name: str, version: int, fires: Sequence[Fire], *, overlap: str, next_fire: datetime | None
    ) -> list[FireRow]:
        async def work(connection: Connection) -> list[FireRow]:
            # In one transaction, so that a fire without its job is never seen; whoever else fires waits for the row.
            async with connection.transaction():
                if not await connection.fetch(self.queries["lock_schedule"], name, version):
                    return []
                recorded = [await self._fire(connection, name, fire, overlap) for fire in fires]
                last = max((fire.nominal for fire in fires if fire.outcome != "by_hand"), default=None)
                if last is not None or next_fire is not None:
                    await connection.execute(self.queries["advance_schedule"], name, last, next_fire)
            return [row for row in recorded if row is not None]

        return await self.pool.call(work)

    async def _fire(self, connection: Connection, name: str, fire: Fire, overlap: str) -> FireRow | None:
        job, outcome, note = fire.job, fire.outcome, fire.note
        live = await self._live(connection, name) if job is not None and outcome == "enqueued" else []
        if live and overlap == "skip":
            job, outcome, note = None, _OVERLAP, "an earlier job is not finished"
        found = await connection.fetch(
            self.queries["record_fire"], name, fire.nominal, outcome, None if job is None else job.id, note
        )
        if not found:
            return None
        if job is not None:
            if live and overlap == "cancel":
                await connection.fetch(self.queries["cancel_jobs"], live, _reason(name))
            # No rate limit refuses what the store itself enqueues, and nothing pushes its time.
            await connection.fetch(self.queries["insert_jobs"], *insert_values([job], "free"))
            await connection.execute(self.queries["name_schedule"], job.id, name, fire.nominal)
        if fire.is_missed:
            await connection.execute(self.queries["raise_missed"], name, fire.nominal, note)
        return FireRow(*found[0])

    async def _live(self, connection: Connection, name: str) -> list[Any]:
        return [row[0] for row in await connection.fetch(self.queries["jobs_of_schedule"], name)]

    async def list_fires(self, name: str, limit: int) -> list[FireRow]:
        return [FireRow(*row) for row in await self.fetch("list_fires", name, limit)]

    async def prune_fires(self, limit: int) -> int:
        return int(await self.fetch_value("prune_fires", limit))


def _reason(name: str) -> str:
    return f'{{"cancelled_by": "schedule {name}", "cancel_reason": "the next one is due"}}'
