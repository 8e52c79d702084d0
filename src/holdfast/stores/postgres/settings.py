"""What people change at run time, on PostgreSQL."""

from collections.abc import Sequence

import msgspec

from holdfast.stores.cluster import Override, ServiceReport
from holdfast.stores.postgres.role import Role


class PostgresSettings(Role):
    """The verbs of `SettingStore`."""

    async def set_override(self, path: str, value: str, *, actor: str | None, reason: str | None) -> None:
        await self.fetch("set_override", path, value, actor, reason)

    async def reset_override(self, path: str) -> bool:
        return bool(await self.fetch("reset_override", path))

    async def list_overrides(self, prefix: str) -> list[Override]:
        return [Override(*row) for row in await self.fetch("list_overrides", prefix)]

    async def report_services(self, reports: Sequence[ServiceReport]) -> None:
        await self.fetch("report_services", msgspec.json.encode(reports).decode())

    async def list_services(self) -> list[ServiceReport]:
        return [ServiceReport(*row) for row in await self.fetch("list_services")]
