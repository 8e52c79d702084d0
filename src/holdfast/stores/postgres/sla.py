"""How long jobs wait, and how many workers follow from it, on PostgreSQL."""

from collections.abc import Sequence

import msgspec

from holdfast.stores.alarms import Alarm
from holdfast.stores.postgres.alarms import alarm_columns
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.role import Role
from holdfast.stores.sla import LaneHead, Look, QueuePolicy, QueueWaits, SlaRow, TuningRow, read_policy, told


class PostgresSla(Role):
    """The verbs of `SlaStore` and `TuningStore`."""

    async def lane_heads(self, queues: Sequence[str]) -> list[LaneHead]:
        return [LaneHead(*row) for row in await self.fetch("lane_heads", list(queues))]

    async def queue_policies(self) -> list[QueuePolicy]:
        return [
            read_policy(name, published, is_paused=is_paused, resumed_at=resumed_at)
            for name, published, is_paused, resumed_at in await self.fetch("queue_policies")
        ]

    async def read_waits(self, queues: Sequence[str], within_ms: int) -> list[QueueWaits]:
        return [
            QueueWaits(queue, msgspec.json.decode(wait or "{}", type=dict[int, int]), oldest_ms)
            for queue, wait, oldest_ms in await self.fetch("read_waits", list(queues), within_ms)
        ]

    async def look_at_waits(self, looks: Sequence[Look]) -> list[SlaRow]:
        queues = [look.queue for look in looks]
        await self.fetch(
            "look_at_waits",
            queues,
            [look.sla_ms for look in looks],
            [look.p95_ms for look in looks],
            [look.starts for look in looks],
            [look.oldest_ms for look in looks],
            [look.waiting for look in looks],
            [look.is_late for look in looks],
        )
        await self.fetch("forget_waits", queues)
        return await self.list_waits()

    async def tell_breach(self, row: SlaRow, alarm: Alarm | None = None) -> bool:
        kind, data = told(row)

        async def work(connection: Connection) -> bool:
            async with connection.transaction():
                if not await connection.fetch(self.queries["tell_breach"], row.queue, row.breached_at, row.ended_at):
                    return False
                if alarm is not None:
                    await connection.fetch(self.queries["raise_alarm"], *alarm_columns(alarm))
                # Who watches is asked when nothing is waited for any more.
                await connection.fetch(self.queries["publish_breach"], kind.stored, row.queue, data)
                return True

        return await self.pool.call(work)

    async def list_waits(self) -> list[SlaRow]:
        return [SlaRow(**dict(row)) for row in await self.fetch("list_waits")]

    async def report_tunings(self, instance: str, tunings: Sequence[TuningRow]) -> None:
        queues = [tuning.queue for tuning in tunings]
        await self.fetch(
            "report_tunings",
            instance,
            queues,
            [tuning.workers for tuning in tunings],
            [tuning.lowest for tuning in tunings],
            [tuning.highest for tuning in tunings],
            [tuning.reason for tuning in tunings],
        )
        await self.fetch("forget_tunings", instance, queues)

    async def list_tunings(self) -> list[TuningRow]:
        return [TuningRow(**dict(row)) for row in await self.fetch("list_tunings")]

    async def prune_tunings(self, limit: int) -> int:
        return len(await self.fetch("prune_tunings", limit))
