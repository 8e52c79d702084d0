"""Somebody on this machine who receives webhooks, and apps that may post there."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError

from holdfast import Holdfast, Job, JobHandle
from holdfast.resources.webhook import Delivery
from holdfast.webhooks.settings import WebhookSettings
from holdfast.webhooks.signature import new_secret
from tests.support import raw
from tests.support.hostile_receiver import read_request, serving
from tests.support.outbox import forget
from tests.support.wait import until
from tests.support.workers import MakeApp

SECRET = new_secret()
HERE = ("127.0.0.1",)
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"

_TOLERANCE = timedelta(minutes=5)
_LINE = re.compile(rb"(?P<name>[^:\r\n]+): (?P<value>[^\r\n]*)\r\n")


def answer(status: int, *headers: str) -> bytes:
    """An answer without a body."""
    return "".join(
        [f"HTTP/1.1 {status} So\r\n", *(f"{line}\r\n" for line in headers), "content-length: 0\r\n\r\n"]
    ).encode()


@dataclass
class Request:
    """One message as it arrived."""

    path: str
    headers: dict[str, str]
    body: bytes
    arrived_at: datetime

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    def verified(self, secret: str = SECRET) -> Any:
        """What it says, if it was signed with the secret shortly before it arrived, and is as it was signed.

        The library's own check asks for a message of the last five minutes; at full size a test takes longer.
        """
        signed_at = datetime.fromtimestamp(int(self.headers["webhook-timestamp"]), UTC)
        signature = Webhook(secret).sign(self.id, signed_at, self.body.decode())
        if signature not in self.headers["webhook-signature"].split():
            raise WebhookVerificationError
        assert abs(self.arrived_at - signed_at) < _TOLERANCE
        return json.loads(self.body)


@dataclass
class Receiver:
    """Keeps what arrives; `answers` are used up first, then everything is answered with the last word."""

    answers: list[bytes] = field(default_factory=list)
    last_word: bytes = OK
    requests: list[Request] = field(default_factory=list)
    open: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0

    def __post_init__(self) -> None:
        self.open.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/in"

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, body = await read_request(reader)
        lines = {found["name"].decode().lower(): found["value"].decode() for found in _LINE.finditer(head)}
        self.requests.append(Request(head.split(b" ")[1].decode(), lines, body, datetime.now(UTC)))
        said = self.answers.pop(0) if self.answers else self.last_word
        await self.open.wait()
        writer.write(said)
        await writer.drain()
        await reader.read()

    async def got(self, count: int) -> None:
        """Wait until so many messages have arrived."""
        await until(lambda: len(self.requests) >= count, f"{count} messages have arrived")


@asynccontextmanager
async def receiving(answers: Iterable[bytes] = (), last_word: bytes = OK) -> AsyncIterator[Receiver]:
    """Receive webhooks while the block runs."""
    receiver = Receiver(list(answers), last_word)
    async with serving(receiver) as receiver.port:
        yield receiver


@asynccontextmanager
async def posting(
    make: MakeApp, *, webhooks: WebhookSettings | None = None, **settings: Any
) -> AsyncIterator[Holdfast]:
    """Give an open app that may post to this machine, and leave nothing in its outbox for the next test."""
    app = make(webhooks=webhooks or WebhookSettings(secret=SECRET, allow=HERE), **settings)
    async with app:
        await forget(app.store)
        try:
            yield app
        finally:
            await forget(app.store)


async def make_due(app: Holdfast) -> None:
    """Let every message that waits be due now."""
    await raw.execute(app.store, "UPDATE holdfast.deliveries SET next_at = at WHERE state = 'pending'")


async def delivery_of(handle: JobHandle[Any]) -> Delivery:
    """The only message about a job."""
    (delivery,) = (await handle.get()).webhooks
    return delivery


async def tried(handle: JobHandle[Any], times: int = 1) -> Job:
    """Wait until so many tries about a job were recorded."""
    found: list[Job] = []

    async def is_recorded() -> bool:
        found[:] = [await handle.get()]
        return sum(len(delivery.log) for delivery in found[0].webhooks) >= times

    await until(is_recorded, f"{times} tries were recorded")
    return found[0]
