"""What people change at run time, on SQLite."""

from collections.abc import Sequence

import msgspec

from holdfast.stores.cluster import Override, ServiceReport
from holdfast.stores.sqlite import rows, statements
from holdfast.stores.sqlite.connection import Connection


class SqliteSettings:
    """The verbs of `SettingStore`."""

    connection: Connection

    async def set_override(self, path: str, value: str, *, actor: str | None, reason: str | None) -> None:
        asked = {"path": path, "value": value, "actor": actor, "reason": reason}
        await self.connection.write(
            lambda connection, now: statements.change(connection, "set_override", now=now, **asked)
        )

    async def reset_override(self, path: str) -> bool:
        return await self.connection.write(
            lambda connection, _: statements.change(connection, "reset_override", path=path) > 0
        )

    async def list_overrides(self, prefix: str) -> list[Override]:
        found = await self.connection.read(
            lambda connection, _: statements.fetch(connection, "list_overrides", prefix=prefix)
        )
        return [Override(path, value, actor, reason, rows.moment(at)) for path, value, actor, reason, at in found]

    async def report_services(self, reports: Sequence[ServiceReport]) -> None:
        told = [msgspec.structs.asdict(report) for report in reports]
        await self.connection.write(
            lambda connection, now: statements.change_many(
                connection, "report_services", [report | {"now": now} for report in told]
            )
        )

    async def list_services(self) -> list[ServiceReport]:
        found = await self.connection.read(lambda connection, _: statements.fetch(connection, "list_services"))
        return [ServiceReport(name, holder, rows.moment(at), *counts) for name, holder, at, *counts in found]
