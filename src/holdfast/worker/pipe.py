"""Messages between processes: one line of JSON each, over a socket pair. Data is never code here either."""

import asyncio
import socket

import msgspec

from holdfast.failure import Failure
from holdfast.job import JobRow
from holdfast.journal import Entry
from holdfast.policies.allowance import Allowance
from holdfast.policies.money import Amount
from holdfast.transitions import Transition
from holdfast.worker.run import Why
from holdfast.worker.whereabouts import Whereabouts

_LARGEST = 512 * 1024 * 1024  # a payload and a result are bounded where they are made


class Boot(msgspec.Struct, tag="boot"):
    """To a fresh process: where to find the code; `store` is the URL and the schema that its app must have."""

    path: list[str]
    arguments: list[str]
    place: Whereabouts
    logs: tuple[str, str] | None = None
    store: tuple[str, str] | None = None


class Order(msgspec.Struct, tag="order"):
    """To a process: run this job.

    `stored` is what earlier claims have left, `parent` the span around the run, `mark` where to mark that it begins.
    """

    job: JobRow
    stored: JobRow | None = None
    parent: dict[str, str] = {}
    allowance: Allowance | None = None
    mark: tuple[str, int] | None = None


class Stop(msgspec.Struct, tag="stop"):
    """To a process: stop the job that runs."""

    why: Why


class Unable(msgspec.Struct, tag="unable"):
    """From a fresh process: the code could not be found or started, so no job can be run."""

    failure: Failure


class Begun(msgspec.Struct, tag="begun"):
    """From a process: the order has arrived, and its handler begins."""


class Noted(msgspec.Struct, tag="noted"):
    """From a process: something that the handler said; with a number it waits until that is stored."""

    entry: Entry
    number: int | None = None


class Spent(msgspec.Struct, tag="spent"):
    """From a process: what the handler has spent; it waits until that is stored."""

    amount: Amount
    note: str | None
    number: int


class Kept(msgspec.Struct, tag="kept"):
    """To a process: what was noted or spent under this number is stored, or (a reason) will never be."""

    number: int
    refused: str | None = None
    allowance: Allowance | None = None


class Committed(msgspec.Struct, tag="committed"):
    """From a process: the handler completed the job in its own transaction."""


class Ended(msgspec.Struct, tag="ended"):
    """From a process: how the job ends."""

    transition: Transition


Message = Boot | Order | Stop | Unable | Begun | Noted | Spent | Kept | Committed | Ended

_decoder = msgspec.json.Decoder(Message)


class Pipe:
    """One end of a socket pair, on an event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.is_broken = False
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, end: socket.socket) -> "Pipe":
        """Take over one end."""
        end.settimeout(0)
        return cls(*await asyncio.open_connection(sock=end, limit=_LARGEST))

    def send(self, message: Message) -> None:
        """Send a message; one to a process that is gone is lost with it."""
        if not self.is_broken and not self._writer.is_closing():
            self._writer.write(msgspec.json.encode(message) + b"\n")

    async def drain(self) -> None:
        """Wait until what was sent has left."""
        await self._writer.drain()

    async def receive(self) -> Message | None:
        """Wait for the next message; None when the other end is gone."""
        try:
            line = await self._reader.readline()
        except (ConnectionError, ValueError):
            line = b""
        if not line.endswith(b"\n"):
            self.is_broken = True
            return None
        message: Message = _decoder.decode(line)
        return message

    def close(self) -> None:
        """Let go of this end."""
        self._writer.close()
