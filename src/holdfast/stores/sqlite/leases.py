"""Who is alive, on SQLite."""

import sqlite3
from collections.abc import Mapping, Sequence

import msgspec

from holdfast.stores.sqlite import endings, rows, statements
from holdfast.stores.sqlite.connection import Connection
from holdfast.stores.sqlite.work import give_back, held_by, require_distinct
from holdfast.stores.values import Held, Renewal, Rescued, WorkerProcess, WorkerRow
from holdfast.transitions import Transition, interrupted


class SqliteLeases:
    """The verbs of `LeaseStore`."""

    connection: Connection

    async def register_worker(self, info: WorkerProcess, lease_ms: int) -> int:
        fields = msgspec.structs.asdict(info) | {"queues": statements.array(info.queues)}

        def operation(connection: sqlite3.Connection, now: int) -> int:
            return int(statements.fetch_value(connection, "register_worker", now=now, lease_ms=lease_ms, **fields))

        return await self.connection.write(operation)

    async def renew_workers(
        self, workers: Sequence[int], lease_ms: int, memory: Mapping[int, int | None] | None = None
    ) -> Renewal:
        named, sizes = statements.array(workers), msgspec.json.encode(memory or {}).decode()

        def operation(connection: sqlite3.Connection, now: int) -> Renewal:
            alive = statements.fetch(
                connection, "renew_workers", workers=named, now=now, lease_ms=lease_ms, memory=sizes
            )
            held = statements.fetch(connection, "held_claims", workers=named, now=now)
            is_draining = any(row[1] for row in alive)
            return Renewal(frozenset(row[0] for row in alive), [_held(row) for row in held], is_draining)

        return await self.connection.write(operation)

    async def retire_worker(self, worker: int) -> int:
        def operation(connection: sqlite3.Connection, now: int) -> int:
            statements.change(connection, "retire_worker", worker=worker)
            return give_back(connection, now, worker, None)

        return await self.connection.write(operation)

    async def release_worker(self, worker: int, ends: Sequence[Transition]) -> Rescued:
        require_distinct(ends)
        told = {(end.id, end.claim): end for end in ends}

        def operation(connection: sqlite3.Connection, now: int) -> Rescued:
            workers = statements.change(connection, "release_worker", now=now, worker=worker)
            claims = held_by(connection, worker, None)
            ended = [(held, told.get((held.id, held.claim)) or interrupted(held.id, held.claim)) for held in claims]
            return endings.rescue(connection, now, workers, ended)

        return await self.connection.write(operation)

    async def list_workers(self) -> list[WorkerRow]:
        read = self.connection.read
        found = await read(lambda connection, now: statements.fetch(connection, "list_workers", now=now))
        return [_worker(row) for row in found]

    async def drain_instance(self, instance: str, actor: str | None) -> None:
        def operation(connection: sqlite3.Connection, now: int) -> None:
            statements.change(connection, "drain_instance", now=now, instance=instance, actor=actor)

        await self.connection.write(operation)


def _held(row: statements.Row) -> Held:
    worker, job_id, claim, batch, age_ms, is_cancelling = row
    return Held(worker, job_id, claim, batch, age_ms, bool(is_cancelling))


def _worker(row: statements.Row) -> WorkerRow:
    fields = dict(zip(WorkerProcess.__struct_fields__, row[1:], strict=False))
    fields["queues"] = tuple(msgspec.json.decode(fields["queues"]))
    registered_at, renewed_at, lease_until, dead_at, running, *others = row[1 + len(fields) :]
    drain_at, drain_by, memory_bytes, is_lease_over = others
    return WorkerRow(
        id=row[0],
        info=WorkerProcess(**fields),
        registered_at=rows.moment(registered_at),
        renewed_at=rows.moment(renewed_at),
        lease_until=rows.moment(lease_until),
        dead_at=rows.optional_moment(dead_at),
        running=running,
        drain_at=rows.optional_moment(drain_at),
        drain_by=drain_by,
        memory_bytes=memory_bytes,
        is_lease_over=bool(is_lease_over),
    )
