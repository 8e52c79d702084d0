"""Who leads, on SQLite."""

from holdfast.stores.cluster import LeaderRow
from holdfast.stores.sqlite import rows, statements
from holdfast.stores.sqlite.connection import Connection


class SqliteLeaders:
    """The verbs of `LeaderStore`."""

    connection: Connection

    async def lead(self, name: str, holder: str, term: int | None, lease_ms: int) -> int | None:
        asked = {"name": name, "holder": holder, "term": term, "lease_ms": lease_ms}
        found: int | None = await self.connection.write(
            lambda connection, now: statements.fetch_value(connection, "lead", now=now, **asked)
        )
        return found

    async def resign(self, name: str, holder: str, term: int) -> None:
        asked = {"name": name, "holder": holder, "term": term}
        await self.connection.write(lambda connection, now: statements.change(connection, "resign", now=now, **asked))

    async def list_leaders(self) -> list[LeaderRow]:
        found = await self.connection.read(
            lambda connection, now: statements.fetch(connection, "list_leaders", now=now)
        )
        return [
            LeaderRow(name, holder, term, rows.moment(since), rows.moment(until))
            for name, holder, term, since, until in found
        ]
