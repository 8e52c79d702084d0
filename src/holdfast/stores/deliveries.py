"""Webhook messages that wait to be posted, and the endpoints that they are posted to."""

from datetime import datetime
from typing import Protocol

import msgspec


class Message(msgspec.Struct, frozen=True):
    """A webhook message that was taken to be posted, with everything that it says; `tries` counts this one."""

    id: int
    job_id: int
    life: int
    event: str
    url: str
    at: datetime
    task: str
    queue: str
    status: str
    attempt: int
    tags: str | None
    error_class: str | None
    error: str | None
    result: str | None
    result_omitted: bool
    tries: int


class EndpointRow(msgspec.Struct, frozen=True):
    """An endpoint that messages are posted to; the counts are those of the last 10,000 messages."""

    endpoint: str
    disabled_at: datetime | None
    reason: str | None
    pending: int
    delivered: int
    failed: int


class DeliveryStore(Protocol):
    """Webhook messages that wait to be posted."""

    async def claim_deliveries(self, limit: int, lease_ms: int) -> list[Message]:
        """Take messages whose time has come. Unknown: their lease ends by itself."""

    async def end_delivery(self, message: Message, state: str, delay_ms: int, entry: str) -> bool:
        """Record what became of one try, as `delivered`, `failed`, or `pending` for another. Unknown: ask again."""

    async def postpone_delivery(self, message: Message, delay_ms: int) -> None:
        """Give a message back that was not tried after all. Unknown: its lease ends by itself."""

    async def next_delivery_ms(self) -> int | None:
        """Say when the next message is due."""

    async def disable_endpoint(self, endpoint: str, reason: str) -> None:
        """Let nothing be posted to an endpoint any more. Unknown: ask again."""

    async def enable_endpoint(self, endpoint: str) -> bool:
        """Let an endpoint be posted to again; False when it was not disabled. Unknown: ask again."""

    async def list_endpoints(self) -> list[EndpointRow]:
        """Read the endpoints that have messages or are disabled."""

    async def prune_deliveries(self, limit: int) -> int:
        """Forget messages whose jobs have expired."""
