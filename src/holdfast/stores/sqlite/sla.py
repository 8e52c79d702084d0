"""How long jobs wait, and how many workers follow from it, on SQLite."""

import sqlite3
from collections import Counter
from collections.abc import Sequence

import msgspec

from holdfast.stores.alarms import Alarm
from holdfast.stores.sla import LaneHead, Look, QueuePolicy, QueueWaits, SlaRow, TuningRow, read_policy, told
from holdfast.stores.sqlite import rows, statements
from holdfast.stores.sqlite.connection import Connection


class SqliteSla:
    """The verbs of `SlaStore` and `TuningStore`."""

    connection: Connection

    async def lane_heads(self, queues: Sequence[str]) -> list[LaneHead]:
        asked = statements.array(queues)
        found = await self.connection.read(
            lambda connection, now: statements.fetch(connection, "lane_heads", queues=asked, now=now)
        )
        return [LaneHead(*row) for row in found]

    async def queue_policies(self) -> list[QueuePolicy]:
        found = await self.connection.read(lambda connection, _: statements.fetch(connection, "queue_policies"))
        return [
            read_policy(name, published, is_paused=bool(is_paused), resumed_at=rows.optional_moment(resumed_at))
            for name, published, is_paused, resumed_at in found
        ]

    async def read_waits(self, queues: Sequence[str], within_ms: int) -> list[QueueWaits]:
        asked = statements.array(queues)

        def operation(connection: sqlite3.Connection, now: int) -> list[QueueWaits]:
            oldest: dict[str, int] = dict(statements.fetch(connection, "read_waits", queues=asked, now=now))
            waits: dict[str, Counter[int]] = {queue: Counter() for queue in queues}
            for queue, wait in statements.fetch(connection, "recent_waits", queues=asked, since=now - within_ms):
                waits[queue].update(msgspec.json.decode(wait, type=dict[int, int]))
            return [QueueWaits(queue, dict(waits[queue]), oldest.get(queue)) for queue in queues]

        return await self.connection.read(operation)

    async def look_at_waits(self, looks: Sequence[Look]) -> list[SlaRow]:
        queues = statements.array(look.queue for look in looks)

        def operation(connection: sqlite3.Connection, now: int) -> list[SlaRow]:
            found = [msgspec.structs.asdict(look) | {"now": now} for look in looks]
            statements.change_many(connection, "look_at_waits", found)
            statements.change(connection, "forget_waits", queues=queues)
            return _waits(connection, now)

        return await self.connection.write(operation)

    async def tell_breach(self, row: SlaRow, alarm: Alarm | None = None) -> bool:
        kind, data = told(row)
        broken, ended = (None if at is None else rows.milliseconds(at) for at in (row.breached_at, row.ended_at))

        def operation(connection: sqlite3.Connection, now: int) -> bool:
            which = {"queue": row.queue, "breached_at": broken, "ended_at": ended}
            if not statements.change(connection, "tell_breach", now=now, **which):
                return False
            if alarm is not None:
                statements.change(connection, "raise_alarm", now=now, **msgspec.structs.asdict(alarm))
            statements.change(connection, "publish_breach", now=now, kind=kind.stored, queue=row.queue, data=data)
            return True

        return await self.connection.write(operation)

    async def list_waits(self) -> list[SlaRow]:
        return await self.connection.read(_waits)

    async def report_tunings(self, instance: str, tunings: Sequence[TuningRow]) -> None:
        queues = statements.array(tuning.queue for tuning in tunings)

        def operation(connection: sqlite3.Connection, now: int) -> None:
            said = [msgspec.structs.asdict(tuning) | {"instance": instance, "now": now} for tuning in tunings]
            statements.change_many(connection, "report_tunings", said)
            statements.change(connection, "forget_tunings", instance=instance, queues=queues)

        await self.connection.write(operation)

    async def list_tunings(self) -> list[TuningRow]:
        found = await self.connection.read(
            lambda connection, now: statements.fetch(connection, "list_tunings", now=now)
        )
        names = ("instance", "queue", "workers", "lowest", "highest", "reason")
        return [TuningRow(**dict(zip(names, row[:-1], strict=True)), changed_at=rows.moment(row[-1])) for row in found]

    async def prune_tunings(self, limit: int) -> int:
        return await self.connection.write(
            lambda connection, _: statements.change(connection, "prune_tunings", limit=limit)
        )


def _waits(connection: sqlite3.Connection, _now: int) -> list[SlaRow]:
    return [
        SlaRow(
            queue=queue,
            sla_ms=sla_ms,
            p95_ms=p95_ms,
            starts=starts,
            oldest_ms=oldest_ms,
            waiting=waiting,
            looked_at=rows.moment(looked_at),
            breached_at=rows.optional_moment(breached_at),
            ended_at=rows.optional_moment(ended_at),
            told_at=rows.optional_moment(told_at),
        )
        for (
            queue,
            sla_ms,
            p95_ms,
            starts,
            oldest_ms,
            waiting,
            looked_at,
            breached_at,
            ended_at,
            told_at,
        ) in statements.fetch(connection, "list_waits")
    ]
