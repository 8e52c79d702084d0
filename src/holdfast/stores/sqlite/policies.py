"""What is published of kinds, queues, limits and budgets, on SQLite."""

import sqlite3
from collections.abc import Mapping, Sequence

import msgspec

from holdfast.stores.policies import KindRow, Move, PolicyRow
from holdfast.stores.sqlite import rows, statements
from holdfast.stores.sqlite.connection import Connection


class SqlitePolicies:
    """The verbs of `PolicyStore`."""

    connection: Connection

    async def list_policies(self) -> list[PolicyRow]:
        found = await self.connection.read(lambda connection, _: statements.fetch(connection, "list_policies"))
        return [PolicyRow(path, definition, rows.moment(at)) for path, definition, at in found]

    async def define_policies(self, definitions: Sequence[PolicyRow], gone: Sequence[str]) -> None:
        def operation(connection: sqlite3.Connection, now: int) -> None:
            statements.change(connection, "forget_policies", gone=statements.array(gone))
            defined = [{"path": row.path, "definition": row.definition, "now": now} for row in definitions]
            statements.change_many(connection, "define_policies", defined)

        await self.connection.write(operation)

    async def mark_policies(self, mark: str) -> None:
        written = msgspec.json.encode(mark).decode()
        await self.connection.write(
            lambda connection, now: statements.change(connection, "mark_policies", mark=written, now=now)
        )

    async def list_kinds(self) -> list[KindRow]:
        found = await self.connection.read(lambda connection, _: statements.fetch(connection, "list_kinds"))
        return [
            KindRow(
                name=name,
                queue=queue,
                definition=definition,
                debounce_ms=debounce_ms,
                debounce_path=_texts(path),
                budget=budget,
                estimate=estimate,
                former=_texts(former),
            )
            for name, queue, definition, debounce_ms, path, budget, estimate, former in found
        ]

    async def define_kinds(self, kinds: Sequence[KindRow]) -> None:
        def operation(connection: sqlite3.Connection, now: int) -> None:
            defined = [
                msgspec.structs.asdict(kind)
                | {"debounce_path": statements.array(kind.debounce_path), "former": None, "now": now}
                for kind in kinds
            ]
            statements.change_many(connection, "define_kinds", defined)

        await self.connection.write(operation)

    async def move_kind(self, move: Move, *, after: int, limit: int) -> tuple[int, int | None]:
        asked = msgspec.structs.asdict(move)

        def operation(connection: sqlite3.Connection, _now: int) -> tuple[int, int | None]:
            found = statements.fetch(connection, "move_kind", after=after, limit=limit, **asked)
            return len(found), max((row[0] for row in found), default=None)

        return await self.connection.write(operation)

    async def define_queue_policies(self, definitions: Mapping[str, str], screened: Sequence[str]) -> None:
        named = sorted({*definitions, *screened})

        def operation(connection: sqlite3.Connection, _now: int) -> None:
            statements.change(connection, "forget_queue_policies", named=statements.array(named))
            defined = [
                {"name": name, "definition": definitions.get(name), "screened": name in screened} for name in named
            ]
            statements.change_many(connection, "define_queue_policies", defined)

        await self.connection.write(operation)

    async def list_queue_policies(self) -> dict[str, str]:
        found = await self.connection.read(lambda connection, _: statements.fetch(connection, "list_queue_policies"))
        return dict(found)

    async def note_policies(self, worker: int, policies: str) -> None:
        await self.connection.write(
            lambda connection, _: statements.change(connection, "note_policies", worker=worker, policies=policies)
        )

    async def worker_policies(self) -> dict[int, str]:
        found = await self.connection.read(lambda connection, _: statements.fetch(connection, "worker_policies"))
        return dict(found)


def _texts(array: str | None) -> tuple[str, ...]:
    return () if array is None else msgspec.json.decode(array, type=tuple[str, ...])
