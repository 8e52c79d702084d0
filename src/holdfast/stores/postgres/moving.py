"""Jobs that move to another store or come from one, on PostgreSQL."""

import functools
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from asyncpg import InterfaceError, Record

from holdfast.stores.moving import (
    BATCH,
    CLOSED_TABLES,
    ESCALATIONS,
    HISTORY,
    KEYS,
    PARTS,
    Key,
    Kind,
    Move,
    MoveProgress,
    Release,
    Row,
    Table,
    Tags,
    closed_for_another,
    require_marked,
    require_run,
)
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.role import Role
from holdfast.stores.sql import in_schema, quoted

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_KINDS = {"timestamp with time zone": Kind.TIME, "jsonb": Kind.JSON, "boolean": Kind.FLAG}
_ARRAYS: dict[str, Any] = {"bigint[]": list[int], "text[]": list[str]}  # JSON elsewhere, and on its way
# A queue that is there keeps what its apps have published, and takes over a pause.
_PAUSES = ", ".join(
    f"{column} = COALESCE(t.{column}, excluded.{column})" for column in ("paused_at", "paused_by", "paused_reason")
)
_CLASHES = {"queues": f"ON CONFLICT (name) DO UPDATE SET {_PAUSES}", "rollups": ""}
_PAYLOAD = """(
    SELECT request.payload
    FROM (
        SELECT j.payload FROM holdfast.jobs AS j WHERE j.id = t.job_id
        UNION ALL
        SELECT h.payload FROM holdfast.history AS h WHERE h.id = t.job_id
    ) AS request
    WHERE jsonb_hash_extended(request.payload, 0) = t.payload_hash
    LIMIT 1
)"""


class PostgresMoves(Role):
    """The verbs of `MoveStore`."""

    async def read_move(self) -> Move | None:
        found = await self.fetch("read_move")
        return msgspec.json.decode(found[0][0], type=Move) if found else None

    async def mark_move(self, move: Move) -> bool:
        mark = msgspec.json.encode(msgspec.to_builtins(move) | {"words": move.words}).decode()
        return require_marked(await self.fetch_value("close_store", move.stage.value, mark, list(CLOSED_TABLES)))

    async def unmark_move(self) -> None:
        await self.fetch("reopen_store")

    async def read_tags(self) -> Tags:
        found = await self.fetch("read_tags")
        (own,) = (row["tag"] for row in found if row["own"])
        return Tags(own, frozenset(row["tag"] for row in found if not row["own"]))

    async def change_tag(self, tag: int) -> None:
        await self.fetch("change_tag", str(tag))

    async def last_numbers(self) -> dict[str, int]:
        return {table: number for table, number in await self.fetch("last_numbers")}  # noqa: C416 - a record is no pair

    async def take_numbers(self, numbers: Mapping[str, int], progress: MoveProgress) -> MoveProgress:
        async def run(connection: Connection) -> MoveProgress:
            async with _transaction(connection):
                shifts = {name: await self._make_room(connection, name, last) for name, last in sorted(numbers.items())}
                kept = msgspec.structs.replace(progress, shifts=shifts)
                await self._keep(connection, kept)
                return kept

        return await self.pool.call(run)

    async def read_page(self, table: Table, after: Key | None) -> tuple[list[Row], list[Any] | None]:
        columns = await self.columns_of(table)
        key = [quoted(column) for column in table.key] or ["ctid"]
        marks = [f"${number}" for number in range(1, len(key) + 1)] if table.key else ["$1::text::tid"]
        begins = "" if after is None else f" AND ({', '.join(key)}) > ({', '.join(marks)})"
        beside = f", {_PAYLOAD} AS payload" if table == KEYS else ""
        found = await self.fetch_sql(
            f"SELECT {_listed(columns)}, ctid::text AS place{beside} FROM holdfast.{table.name} AS t"  # noqa: S608 - names of our own
            f" WHERE {table.where}{begins} ORDER BY {', '.join(key)} LIMIT {BATCH}",
            *(() if after is None else _key_values(table, columns, after)),
        )
        page = [_read(columns, record) for record in found]
        if table == KEYS:
            page = [{**row, "payload": record["payload"]} for row, record in zip(page, found, strict=True)]
        if not page:
            return [], None
        return page, [page[-1][column] for column in table.key] if table.key else [found[-1]["place"]]

    async def same_rows(self, table: Table, rows: Sequence[Row]) -> list[Row]:
        columns = await self.columns_of(table)
        return await self.pool.call(lambda connection: self._same(connection, table, columns, rows))

    async def put_rows(
        self, table: Table, rows: Sequence[Row], progress: MoveProgress, *, is_rehearsal: bool = False
    ) -> list[Row]:
        columns = await self.columns_of(table)
        if table.name == HISTORY.name:
            await self.fetch("make_weeks", sorted({_written(row["delete_at"], Kind.TIME) for row in rows}))
        if table == KEYS:
            rows = await self._fingerprinted(rows)

        async def run(connection: Connection) -> list[Row]:
            async with _transaction(connection, is_kept=not is_rehearsal):
                await self._insert(connection, table, columns, rows)
                found = await self._same(connection, table, columns, rows)
                if table.name == ESCALATIONS.name and len(found) < len(rows):
                    there = {row["id"] for row in found}
                    left = [closed_for_another(row) for row in rows if row["id"] not in there]
                    await self._insert(connection, table, columns, left)
                    found = await self._same(connection, table, columns, rows)
                if not is_rehearsal:
                    await self._keep(connection, progress)
                return found

        return await self.pool.call(run)

    async def release_jobs(self, releases: Sequence[Release], progress: MoveProgress) -> None:
        async def run(connection: Connection) -> None:
            async with _transaction(connection):
                drawn = await connection.fetch(self.queries["draw_positions"], len(releases))
                positions = [
                    row[0] if release.state == "queued" else None for release, row in zip(releases, drawn, strict=True)
                ]
                ids, states, batches = (list(column) for column in zip(*releases, strict=True))
                await connection.execute(self.queries["release_jobs"], progress.batch, ids, states, batches, positions)
                await self._keep(connection, progress)

        await self.pool.call(run)

    async def take_progress(self, progress: MoveProgress) -> MoveProgress:
        note = msgspec.json.encode(progress).decode()
        return msgspec.json.decode(await self.fetch_value("take_note", f"move:{progress.id}", note), type=MoveProgress)

    async def move_progress(self) -> list[MoveProgress]:
        return [msgspec.json.decode(row[0], type=MoveProgress) for row in await self.fetch("move_progress")]

    async def end_progress(self, move_id: str) -> None:
        await self.fetch("forget_note", f"move:{move_id}")

    async def drop_copies(self, progress: MoveProgress) -> int:
        dropped = 0
        while ids := [row[0] for row in await self.fetch("staged_jobs", progress.batch, BATCH)]:
            dropped += len(ids)
            await self.pool.call(functools.partial(self._drop_some, "jobs", ids))
        after = -1
        while ids := [row[0] for row in await self.fetch("staged_history", progress.batch, after, BATCH)]:
            dropped += len(ids)
            after = ids[-1]
            await self.pool.call(functools.partial(self._drop_some, "history", ids))
        await self.end_progress(progress.id)
        return dropped

    # ---- parts -----------------------------------------------------------------------------------------------------

    async def columns_of(self, table: Table) -> dict[str, str]:
        """Read the columns of a table and their types, in order."""
        found = await self.fetch("table_columns", f"{quoted(self.schema)}.{quoted(table.name)}", list(table.key))
        return {name: kind for name, kind in found}  # noqa: C416 - a record is no pair for dict()

    async def _insert(
        self, connection: Connection, table: Table, columns: Mapping[str, str], rows: Sequence[Row]
    ) -> None:
        sent = {name: kind for name, kind in columns.items() if all(name in row for row in rows)}
        marks = ", ".join(f"${number}" for number in range(1, len(sent) + 1))
        insert = f"INSERT INTO holdfast.{table.name} AS t ({_listed(sent)}) OVERRIDING SYSTEM VALUE "
        insert += f"VALUES ({marks}) {_CLASHES.get(table.name, 'ON CONFLICT DO NOTHING')}"
        values = [[_stored(row[name], kind) for name, kind in sent.items()] for row in rows]
        await connection.executemany(in_schema(insert, self.schema), values)

    async def _make_room(self, connection: Connection, table: str, last: int) -> int:
        """Draw the numbers that rows are to have; whoever has drawn one before is waited for, and seen."""
        if last == 0:
            return 0
        await connection.execute(in_schema(f"LOCK TABLE holdfast.{table} IN SHARE ROW EXCLUSIVE MODE", self.schema))
        asked = in_schema(f"SELECT EXISTS (SELECT FROM holdfast.{table} WHERE id <= $1)", self.schema)  # noqa: S608 - names of our own
        numbers = f"SELECT nextval('holdfast.{table}_id_seq'::regclass) AS number FROM generate_series(1, $1::bigint)"  # noqa: S608 - likewise
        draw = in_schema(f"SELECT max(number) FROM ({numbers}) AS drawn", self.schema)  # noqa: S608 - likewise
        drawn = await connection.fetchval(draw, 1)
        shift = drawn if await connection.fetchval(asked, last) else 0
        await connection.fetchval(draw, max(shift + last - drawn, 0))
        return int(shift)

    async def _same(
        self, connection: Connection, table: Table, columns: Mapping[str, str], rows: Sequence[Row]
    ) -> list[Row]:
        if not table.key:
            return []
        arrays = ", ".join(f"${number}::{columns[name]}[]" for number, name in enumerate(table.key, 1))
        key = ", ".join(f"t.{quoted(name)}" for name in table.key)
        asked = f"({key}) IN (SELECT * FROM unnest({arrays}))"  # noqa: S608 - names of our own
        sql = f"SELECT {_listed(columns)} FROM holdfast.{table.name} AS t WHERE {asked}"  # noqa: S608 - likewise
        keys = [[_written(row[name], _KINDS.get(columns[name])) for row in rows] for name in table.key]
        return [_read(columns, record) for record in await connection.fetch(in_schema(sql, self.schema), *keys)]

    async def _fingerprinted(self, rows: Sequence[Row]) -> list[Row]:
        hashes = await self.fetch("payload_hashes", [row.get("payload") for row in rows])
        return [
            row if found is None else {**row, "payload_hash": found} for row, (found,) in zip(rows, hashes, strict=True)
        ]

    async def _keep(self, connection: Connection, progress: MoveProgress) -> None:
        key = f"move:{progress.id}"
        require_run(await connection.fetchval(self.queries["read_note"], key), progress)
        await connection.execute(self.queries["keep_note"], key, msgspec.json.encode(progress).decode())

    async def _drop_some(self, table: str, ids: Sequence[int], connection: Connection) -> None:
        async with _transaction(connection):
            for part in PARTS if table == "jobs" else ():
                sql = f"DELETE FROM holdfast.{part.name} WHERE job_id = ANY ($1::bigint[])"  # noqa: S608 - names of our own
                await connection.execute(in_schema(sql, self.schema), ids)
            sql = f"DELETE FROM holdfast.{table} WHERE id = ANY ($1::bigint[])"  # noqa: S608 - likewise
            await connection.execute(in_schema(sql, self.schema), ids)


@asynccontextmanager
async def _transaction(connection: Connection, *, is_kept: bool = True) -> AsyncIterator[None]:
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield
    except Exception:  # and not when the deadline has passed: the pool then ends the session, which rolls back too
        with suppress(OSError, InterfaceError):  # the link is gone, and the transaction with it
            await transaction.rollback()
        raise
    await (transaction.commit() if is_kept else transaction.rollback())


def _listed(columns: Mapping[str, str]) -> str:
    return ", ".join(quoted(name) for name in columns)


def _read(columns: Mapping[str, str], record: Record) -> Row:
    return {name: _canonical(record[name], kind) for name, kind in columns.items()}


def _canonical(value: Any, column_type: str) -> Any:
    if value is None:
        return None
    if column_type in _ARRAYS:
        return msgspec.json.encode(value).decode()
    return (value - _EPOCH) // _MICROSECOND if _KINDS.get(column_type) is Kind.TIME else value


def _stored(value: Any, column_type: str) -> Any:
    if column_type in _ARRAYS and value is not None:
        return msgspec.json.decode(value, type=_ARRAYS[column_type])
    return _written(value, _KINDS.get(column_type))


def _written(value: Any, kind: Kind | None) -> Any:
    return _EPOCH + value * _MICROSECOND if kind is Kind.TIME and value is not None else value


def _key_values(table: Table, columns: Mapping[str, str], after: Key) -> list[Any]:
    if not table.key:
        return list(after)
    return [_written(value, _KINDS.get(columns[name])) for name, value in zip(table.key, after, strict=True)]
