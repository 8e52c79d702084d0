"""Jobs that move to another store or come from one, on SQLite."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.stores.moving import (
    BATCH,
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
    kind_of,
    require_marked,
    require_run,
)
from holdfast.stores.sql import quoted
from holdfast.stores.sqlite import closing, inserting, statements
from holdfast.stores.sqlite.connection import Connection

_MICROSECONDS = 1_000  # of a millisecond, which is what rows hold
_NUMBERED = (("deliveries", "id"), ("ledger", "id"), ("alarms", "id"))  # numbers of this file's own
# A queue that is there keeps what its apps have published, and takes over a pause.
_PAUSES = ", ".join(
    f"{column} = COALESCE(holdfast_queues.{column}, excluded.{column})"
    for column in ("paused_at", "paused_by", "paused_reason")
)
_CLASHES = {"queues": f"ON CONFLICT (name) DO UPDATE SET {_PAUSES}", "rollups": ""}
_TAGS = """
INSERT OR IGNORE INTO holdfast_tags (name, value, enqueued_at, job_id)
SELECT tag.key, CAST(tag.value AS TEXT), :enqueued_at, :id FROM json_each(:tags) AS tag WHERE tag.value IS NOT NULL
"""


class SqliteMoves:
    """The verbs of `MoveStore`."""

    connection: Connection

    async def read_move(self) -> Move | None:
        found = await self.connection.read(lambda database, _: statements.fetch_value(database, "read_move"))
        return None if found is None else msgspec.json.decode(found, type=Move)

    async def mark_move(self, move: Move) -> bool:
        return require_marked(await self.connection.write(lambda database, _: closing.close(database, move)))

    async def unmark_move(self) -> None:
        await self.connection.write(lambda database, _: closing.reopen(database))

    async def read_tags(self) -> Tags:
        found = await self.connection.read(lambda database, _: statements.fetch(database, "read_tags"))
        (own,) = (tag for tag, is_own in found if is_own)
        return Tags(own, frozenset(tag for tag, is_own in found if not is_own))

    async def change_tag(self, tag: int) -> None:
        await self.connection.write(lambda database, _: statements.change(database, "change_tag", tag=str(tag)))

    async def last_numbers(self) -> dict[str, int]:
        return dict(await self.connection.read(lambda database, _: statements.fetch(database, "last_numbers")))

    async def take_numbers(self, numbers: Mapping[str, int], progress: MoveProgress) -> MoveProgress:
        def operation(database: sqlite3.Connection, _now: int) -> MoveProgress:
            shifts = {table: _make_room(database, table, last) for table, last in sorted(numbers.items())}
            kept = msgspec.structs.replace(progress, shifts=shifts)
            _keep(database, kept)
            return kept

        return await self.connection.write(operation)

    async def read_page(self, table: Table, after: Key | None) -> tuple[list[Row], list[Any] | None]:
        return await self.connection.read(lambda database, _: _page(database, table, after))

    async def same_rows(self, table: Table, rows: Sequence[Row]) -> list[Row]:
        return await self.connection.read(lambda database, _: _same(database, table, rows))

    async def put_rows(
        self, table: Table, rows: Sequence[Row], progress: MoveProgress, *, is_rehearsal: bool = False
    ) -> list[Row]:
        def operation(database: sqlite3.Connection, _now: int) -> list[Row]:
            database.execute("SAVEPOINT put")
            _insert(database, table, rows)
            found = _same(database, table, rows)
            if table.name == ESCALATIONS.name and len(found) < len(rows):
                there = {row["id"] for row in found}
                _insert(database, table, [closed_for_another(row) for row in rows if row["id"] not in there])
                found = _same(database, table, rows)
            if is_rehearsal:
                database.execute("ROLLBACK TO put")
            else:
                _keep(database, progress)
            database.execute("RELEASE put")
            return found

        return await self.connection.write(operation)

    async def release_jobs(self, releases: Sequence[Release], progress: MoveProgress) -> None:
        def operation(database: sqlite3.Connection, _now: int) -> None:
            positions = inserting.draw_positions(database, len(releases))
            parameters = [
                release._asdict()
                | {"batch": progress.batch, "position": position if release.state == "queued" else None}
                for release, position in zip(releases, positions, strict=True)
            ]
            statements.change_many(database, "release_jobs", parameters)
            _keep(database, progress)

        await self.connection.write(operation)

    async def take_progress(self, progress: MoveProgress) -> MoveProgress:
        key, value = f"move:{progress.id}", msgspec.json.encode(progress).decode()
        kept = await self.connection.write(
            lambda database, _: statements.fetch_value(database, "take_note", key=key, value=value)
        )
        return msgspec.json.decode(kept, type=MoveProgress)

    async def move_progress(self) -> list[MoveProgress]:
        found = await self.connection.read(lambda database, _: statements.fetch(database, "move_progress"))
        return [msgspec.json.decode(row[0], type=MoveProgress) for row in found]

    async def end_progress(self, move_id: str) -> None:
        await self.connection.write(
            lambda database, _: statements.change(database, "forget_note", key=f"move:{move_id}")
        )

    async def drop_copies(self, progress: MoveProgress) -> int:
        dropped = 0
        while count := await self.connection.write(lambda database, _: _drop_jobs(database, progress.batch)):
            dropped += count
        while count := await self.connection.write(lambda database, _: _drop_history(database, progress.batch)):
            dropped += count
        await self.end_progress(progress.id)
        return dropped


def columns_of(database: sqlite3.Connection, table: Table) -> list[str]:
    """Read the columns of a table, without those that number rows by themselves."""
    found = database.execute(f"PRAGMA table_info(holdfast_{table.name})").fetchall()
    return [name for _, name, *_ in found if (table.name, name) not in _NUMBERED]


def _page(database: sqlite3.Connection, table: Table, after: Key | None) -> tuple[list[Row], list[Any] | None]:
    columns = columns_of(database, table)
    row_number = "NULL" if table.key else "rowid"
    key = [quoted(column) for column in table.key] or ["rowid"]
    begins = "" if after is None else f" AND ({', '.join(key)}) > ({', '.join('?' for _ in key)})"
    values = [_written(value, name) for name, value in zip(table.key or ("rowid",), after or (), strict=False)]
    found = database.execute(
        f"SELECT {_listed(columns)}, {row_number} FROM holdfast_{table.name}"  # noqa: S608 - names of our own
        f" WHERE {table.where}{begins} ORDER BY {', '.join(key)} LIMIT {BATCH}",
        values,
    ).fetchall()
    page = [_read(columns, row) for row in found]
    if table == KEYS:
        page = [{**row, "payload": _request(database, row)} for row in page]
    if not page:
        return [], None
    return page, [page[-1][column] for column in table.key] if table.key else [found[-1][-1]]


def _make_room(database: sqlite3.Connection, table: str, last: int) -> int:
    """Leave out the numbers that rows are to have."""
    name = f"holdfast_{table}"
    found = database.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", [name]).fetchone()
    drawn = found[0] if found else 0
    is_taken = database.execute(f"SELECT EXISTS (SELECT 1 FROM {name} WHERE id <= ?)", [last]).fetchone()[0]  # noqa: S608 - names of our own
    shift = drawn if is_taken else 0
    database.execute("DELETE FROM sqlite_sequence WHERE name = ?", [name])
    database.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", [name, max(drawn, shift + last)])
    return int(shift)


def _request(database: sqlite3.Connection, row: Row) -> str | None:
    """Find the payload that a key stands for; that of a job it met instead is another one."""
    if row["scope"]:
        return None
    for table in ("jobs", "history"):
        sql = f"SELECT payload FROM holdfast_{table} WHERE id = ?"  # noqa: S608 - names of our own
        for (payload,) in database.execute(sql, [row["job_id"]]).fetchall():
            if inserting.payload_hash(payload) == row["payload_hash"]:
                return str(payload)
    return None


def _same(database: sqlite3.Connection, table: Table, rows: Sequence[Row]) -> list[Row]:
    if not table.key:
        return []
    columns = columns_of(database, table)
    parts = ", ".join(f"json_extract(asked.value, '$[{number}]')" for number in range(len(table.key)))
    key = ", ".join(quoted(name) for name in table.key)
    keys = msgspec.json.encode([[_written(row[name], name) for name in table.key] for row in rows]).decode()
    found = database.execute(
        f"SELECT {_listed(columns)} FROM holdfast_{table.name}"  # noqa: S608 - names of our own
        f" WHERE ({key}) IN (SELECT {parts} FROM json_each(?) AS asked)",
        [keys],
    ).fetchall()
    return [_read(columns, row) for row in found]


def _insert(database: sqlite3.Connection, table: Table, rows: Sequence[Row]) -> None:
    columns = columns_of(database, table)
    written = [{name: _written(row[name], name) for name in columns if name in row} for row in rows]
    if table == KEYS:
        for row, given in zip(written, rows, strict=True):
            if given.get("payload") is not None:
                row["payload_hash"] = inserting.payload_hash(given["payload"])
    if table.name == "deliveries":
        for row in written:
            row["endpoint"] = row["url"].partition("?")[0]
    sent = [name for name in columns if all(name in row for row in written)]
    clash = _CLASHES.get(table.name, "ON CONFLICT DO NOTHING")
    database.executemany(
        f"INSERT INTO holdfast_{table.name} ({_listed(sent)})"  # noqa: S608 - names of our own
        f" VALUES ({', '.join(f':{name}' for name in sent)}) {clash}",
        written,
    )
    if table.name == HISTORY.name:  # where no trigger does it: rows come there from `jobs` only
        database.executemany(_TAGS, [row for row in written if row["tags"] is not None])


def _keep(database: sqlite3.Connection, progress: MoveProgress) -> None:
    require_run(statements.fetch_value(database, "read_note", key=f"move:{progress.id}"), progress)
    note = msgspec.json.encode(progress).decode()
    statements.change(database, "keep_note", key=f"move:{progress.id}", value=note)


def _drop_jobs(database: sqlite3.Connection, batch: int) -> int:
    ids = [row[0] for row in statements.fetch(database, "staged_jobs", batch=batch, limit=BATCH)]
    for part in PARTS:
        _delete(database, part.name, "job_id", ids)
    _delete(database, "tags", "job_id", ids)
    _delete(database, "jobs", "id", ids)
    return len(ids)


def _drop_history(database: sqlite3.Connection, batch: int) -> int:
    ids = [row[0] for row in statements.fetch(database, "staged_history", batch=batch, after=-1, limit=BATCH)]
    _delete(database, "history", "id", ids)
    return len(ids)


def _delete(database: sqlite3.Connection, table: str, column: str, ids: Sequence[int]) -> None:
    sql = f"DELETE FROM holdfast_{table} WHERE {column} IN (SELECT value FROM json_each(?))"  # noqa: S608 - names of our own
    database.execute(sql, [statements.array(ids)])


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(quoted(name) for name in columns)


def _read(columns: Sequence[str], row: Sequence[Any]) -> Row:
    return {name: _canonical(value, kind_of(name)) for name, value in zip(columns, row, strict=False)}


def _canonical(value: Any, kind: Kind) -> Any:
    if value is None or kind in (Kind.PLAIN, Kind.JSON):
        return value
    return value * _MICROSECONDS if kind is Kind.TIME else bool(value)


def _written(value: Any, name: str) -> Any:
    if value is None:
        return None
    kind = kind_of(name)
    if kind is Kind.TIME:
        return value // _MICROSECONDS
    return int(value) if kind is Kind.FLAG else value
