"""Real receivers on this machine: an HTTP server in the place of PagerDuty and Slack, and a mail server."""

import asyncio
import email
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.message import Message
from typing import Any

from aiosmtpd.smtp import SMTP, Envelope


class Receiver:
    """Keeps what is posted to it; `answers` are its next statuses, then 202."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: list[str] = []
        self.port = 0

    @property
    def bodies(self) -> list[Any]:
        """What was accepted, as JSON."""
        return [json.loads(body) for _, _, body in self.requests]

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["Receiver"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *rest = head.strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
        body = await reader.readexactly(int(headers["content-length"]))
        answer = self.answers.pop(0) if self.answers else "202 Accepted"
        if answer.startswith("2"):
            self.requests.append((first.split()[1], headers, body))
        writer.write(f"HTTP/1.1 {answer}\r\ncontent-length: 2\r\n\r\nno".encode())
        await writer.drain()
        writer.close()


class Mailbox:
    """Keeps the mails it accepts; `answers` are its next answers to their text, then 250."""

    def __init__(self) -> None:
        self.mails: list[Message] = []
        self.answers: list[str] = []
        self.port = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["Mailbox"]:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: SMTP(self, hostname="test", loop=loop), "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield self

    async def handle_DATA(self, server: SMTP, session: Any, envelope: Envelope) -> str:  # noqa: N802 - as aiosmtpd calls it
        answer = self.answers.pop(0) if self.answers else "250 OK"
        if answer.startswith("2"):
            content = envelope.content
            self.mails.append(email.message_from_bytes(content if isinstance(content, bytes) else b""))
        return answer


def text_of(mail: Message) -> str:
    """The text of a mail."""
    payload = mail.get_payload(decode=True)
    assert isinstance(payload, bytes)
    return payload.decode()
