"""Who leads, on PostgreSQL."""

from holdfast.stores.cluster import LeaderRow
from holdfast.stores.postgres.role import Role


class PostgresLeaders(Role):
    """The verbs of `LeaderStore`."""

    async def lead(self, name: str, holder: str, term: int | None, lease_ms: int) -> int | None:
        found = await self.fetch("lead", name, holder, term, lease_ms)
        return found[0][0] if found else None

    async def resign(self, name: str, holder: str, term: int) -> None:
        await self.fetch("resign", name, holder, term)

    async def list_leaders(self) -> list[LeaderRow]:
        return [LeaderRow(*row) for row in await self.fetch("list_leaders")]
