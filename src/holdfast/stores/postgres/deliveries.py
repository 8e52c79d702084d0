"""Webhook messages that wait to be posted, on PostgreSQL."""

from holdfast.stores.deliveries import EndpointRow, Message
from holdfast.stores.postgres.role import Role


class PostgresDeliveries(Role):
    """The verbs of `DeliveryStore`."""

    async def claim_deliveries(self, limit: int, lease_ms: int) -> list[Message]:
        return [Message(*row) for row in await self.fetch("claim_deliveries", limit, lease_ms)]

    async def end_delivery(self, message: Message, state: str, delay_ms: int, entry: str) -> bool:
        found = await self.fetch_value("end_delivery", message.id, message.tries, state, delay_ms, f"[{entry}]")
        return bool(found)

    async def postpone_delivery(self, message: Message, delay_ms: int) -> None:
        await self.fetch("postpone_delivery", message.id, message.tries, delay_ms)

    async def next_delivery_ms(self) -> int | None:
        found = await self.fetch("next_delivery")
        return int(found[0][0]) if found else None

    async def disable_endpoint(self, endpoint: str, reason: str) -> None:
        await self.fetch("disable_endpoint", endpoint, reason)

    async def enable_endpoint(self, endpoint: str) -> bool:
        return bool(await self.fetch("enable_endpoint", endpoint))

    async def list_endpoints(self) -> list[EndpointRow]:
        return [EndpointRow(*row) for row in await self.fetch("list_endpoints")]

    async def prune_deliveries(self, limit: int) -> int:
        return len(await self.fetch("prune_deliveries", limit))
