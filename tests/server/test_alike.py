"""One resource, four ways to read it: the local client, the HTTP API, `--json` and the remote client give the same."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import chdir
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import httpx2
import msgspec
import pytest
from click.testing import CliRunner

from holdfast import Holdfast, JobFilter
from holdfast.cli import command
from holdfast.remote.client import RemoteClient
from holdfast.remote.link import Link
from holdfast.resources.bulk import BulkOperationList
from holdfast.resources.dead_letter import DeadLetter
from holdfast.resources.escalation import EscalationPage
from holdfast.resources.redaction import redact
from holdfast.resources.webhook import EndpointList
from holdfast.server.settings import ServerSettings
from tests.server.furnished import PLAIN, furnish, furnished_app
from tests.support.web import made_token


class Reading(NamedTuple):
    """How one resource is read, and what of it is told elsewhere too."""

    words: str
    path: str
    read: Callable[[Any], Awaitable[Any]]


async def endpoints(client: Any) -> EndpointList:
    return EndpointList(endpoints=await client.webhooks.list())


async def operations(client: Any) -> BulkOperationList:
    return BulkOperationList(operations=await client.bulk.list(limit=20))


async def opened(client: Any) -> EscalationPage:
    page: EscalationPage = await client.escalations.list(is_open=True, policy="ops")
    return page


READINGS = (
    Reading("webhooks list", "webhooks", endpoints),
    Reading("escalations list", "escalations", lambda client: client.escalations.list()),
    Reading("escalations list --limit 1", "escalations?limit=1", lambda client: client.escalations.list(limit=1)),
    Reading("dead-letters list", "dead-letters?limit=50", lambda client: client.dead_letters.list(limit=50)),
    Reading("dead-letters list --limit 1", "dead-letters?limit=1", lambda client: client.dead_letters.list(limit=1)),
    Reading("bulk list", "bulk?limit=20", operations),
    Reading("bulk show 1", "bulk/1", lambda client: client.bulk.get(1)),
    Reading("escalations show 1", "escalations/1", lambda client: client.escalations.get(1)),
    Reading("escalations list --open --policy ops", "escalations?open=true&policy=ops", opened),
)


async def letters(client: Any) -> list[DeadLetter]:
    return [letter async for letter in client.dead_letters.export(kind="sink")]


class Place:
    """A store with something of everything, and the words that name what is in it."""

    def __init__(self, folder: Path) -> None:
        self.app = furnished_app(lambda **options: Holdfast(f"sqlite:///{folder}/jobs.db", **options))
        self.words: dict[str, str] = {}
        asyncio.run(self._furnish())

    async def _furnish(self) -> None:
        async with self.app:
            await furnish(self.app)
            job = (await self.app.jobs.list()).jobs[0]
            chosen = JobFilter(ids=(job.number,), queues=("high",))
            await self.app.bulk.start("retry", chosen, rate="5/s", actor="ada", reason=PLAIN)
            await self.app.bulk.start("reschedule", JobFilter(tags=(("a", "b"),)), delay="1h")

    async def export(self) -> tuple[Any, Any]:
        """Export by the local client and by the remote one, which reads what the API writes."""
        async with self.app:
            transport = httpx2.ASGITransport(app=self.app.asgi(ServerSettings()))
            link = Link("http://127.0.0.1", await made_token(self.app), transport=transport)
            try:
                return await letters(self.app), await letters(RemoteClient(link))
            finally:
                await link.close()

    async def read(self, reading: Reading) -> tuple[Any, Any, Any]:
        """Read by the local client, by the API, and by the remote client."""
        async with self.app:
            secret = await made_token(self.app)
            transport = httpx2.ASGITransport(app=self.app.asgi(ServerSettings()))
            link = Link("http://127.0.0.1", secret, transport=transport)
            path, _, query = reading.path.format(**self.words).partition("?")
            try:
                return (
                    await reading.read(self.app),
                    await link.ask(dict, "GET", *path.split("/"), body=None, **dict(parse_qsl(query))),
                    await reading.read(RemoteClient(link)),
                )
            finally:
                await link.close()

    def print(self, reading: Reading) -> Any:
        """Read by the command."""
        words = reading.words.format(**self.words).split()
        result = CliRunner().invoke(command(self.app, name="holdfast"), [*words, "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("alike"))


@pytest.mark.parametrize("reading", READINGS, ids=lambda reading: reading.words)
def test_all_read_the_same(place: Place, reading: Reading, tmp_path: Path) -> None:
    with chdir(tmp_path):  # where no configuration file lies
        local, answer, remote = asyncio.run(place.read(reading))
        printed = place.print(reading)
    expected = msgspec.json.decode(msgspec.json.encode(redact(local)))
    # Compared as text, which has the order of the keys too.
    assert json.dumps(answer) == json.dumps(expected)
    assert json.dumps(printed) == json.dumps(expected)
    assert remote == redact(local)


def test_all_export_the_same(place: Place, tmp_path: Path) -> None:
    with chdir(tmp_path):
        local, remote = asyncio.run(place.export())
        result = CliRunner().invoke(
            command(place.app, name="holdfast"), ["dead-letters", "export", "-", "--kind", "sink"]
        )
    assert local == remote
    assert len(local) == 1
    written = [msgspec.json.decode(msgspec.json.encode(letter)) for letter in local]
    assert json.dumps([json.loads(line) for line in result.stdout.splitlines()]) == json.dumps(written)
