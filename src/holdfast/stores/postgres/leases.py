"""Who is alive, on PostgreSQL."""

from collections.abc import Mapping, Sequence

import asyncpg
import msgspec

from holdfast.stores.postgres.role import Role
from holdfast.stores.postgres.work import require_distinct, transition_columns
from holdfast.stores.values import Held, Renewal, Rescued, WorkerProcess, WorkerRow
from holdfast.transitions import Transition


class PostgresLeases(Role):
    """The verbs of `LeaseStore`."""

    async def register_worker(self, info: WorkerProcess, lease_ms: int) -> int:
        return int(
            await self.fetch_value(
                "register_worker",
                info.instance,
                info.host,
                info.pid,
                info.boot_id,
                info.pid_namespace,
                info.process_start,
                info.version,
                msgspec.json.encode(info.queues).decode(),
                info.concurrency,
                lease_ms,
            )
        )

    async def renew_workers(
        self, workers: Sequence[int], lease_ms: int, memory: Mapping[int, int | None] | None = None
    ) -> Renewal:
        sizes = [(memory or {}).get(worker) for worker in workers]
        renewed = await self.fetch("renew_workers", workers, lease_ms, sizes)
        held = [Held(*row) for row in await self.fetch("held_claims", workers)]
        return Renewal(frozenset(row[0] for row in renewed), held, any(row["is_draining"] for row in renewed))

    async def retire_worker(self, worker: int) -> int:
        return int(await self.fetch_value("retire_worker", worker))

    async def release_worker(self, worker: int, ends: Sequence[Transition]) -> Rescued:
        require_distinct(ends)
        (row,) = await self.fetch("release_worker", worker, *transition_columns(ends))
        return Rescued(row["workers"], tuple(row["requeued"]), tuple(row["failed"]), tuple(row["cancelled"]))

    async def list_workers(self) -> list[WorkerRow]:
        return [_worker(row) for row in await self.fetch("list_workers")]

    async def drain_instance(self, instance: str, actor: str | None) -> None:
        await self.fetch("drain_instance", instance, actor)


def _worker(row: asyncpg.Record) -> WorkerRow:
    fields = dict(row)
    info = {name: fields.pop(name) for name in WorkerProcess.__struct_fields__}
    info["queues"] = msgspec.json.decode(info["queues"])
    return msgspec.convert(fields | {"info": info}, WorkerRow)
