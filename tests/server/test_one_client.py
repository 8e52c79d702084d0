"""The local client, the one for a caller of a server and the one over HTTP have the verbs of the protocol `Client`."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, NamedTuple

import pytest

from holdfast.app import Holdfast
from holdfast.client.blocking import BlockingClient
from holdfast.client.client import LocalClient
from holdfast.client.protocol import Client
from holdfast.errors import QueueNotFound
from holdfast.remote.client import RemoteClient
from holdfast.remote.link import Link
from holdfast.server.kinds import KindRegistry
from holdfast.server.principal import Principal
from holdfast.server.problems import Problem
from holdfast.server.roles import Role
from holdfast.server.scoped.client import ScopedClient

_NO_VERBS = {"loop", "client"}


class Clients(NamedTuple):
    """The implementations."""

    local: LocalClient
    scoped: ScopedClient
    remote: RemoteClient
    blocking: BlockingClient


def asked_alike(local: LocalClient, scoped: ScopedClient, remote: RemoteClient) -> list[Client]:
    """For mypy: each is a `Client`."""
    return [local, scoped, remote]


@asynccontextmanager
async def clients(app: Holdfast, *queues: str) -> AsyncIterator[Clients]:
    """Each client on one app; the caller of the scoped one may see these queues, or all."""
    async with app:
        served = app.served(app.server_settings())
        who = Principal("ada", Role.VIEWER, frozenset(queues) or None)
        scoped = ScopedClient(app.client, served.describe, who, KindRegistry(served))
        link = Link("http://jobs.example.org", None)
        blocking = BlockingClient(app.client, asyncio.get_running_loop())
        try:
            yield Clients(app.client, scoped, RemoteClient(link), blocking)
        finally:
            await link.close()


def namespaces() -> dict[str, type]:
    """The namespaces of a client, and the protocol of each."""
    members = inspect.getmembers(Client, lambda member: isinstance(member, property))
    return {name: getattr(import_module(f"holdfast.client.{name}"), returned(member)) for name, member in members}


def returned(namespace: property) -> str:
    """The name of the type of a namespace, which the protocol imports for type checkers only."""
    assert namespace.fget is not None
    name: str = inspect.get_annotations(namespace.fget)["return"]
    return name


def verbs(kind: type) -> Iterator[tuple[str, Any]]:
    """The verbs of a protocol, or of an implementation."""
    for name, verb in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_"):
            yield name, verb


def parameters(verb: Any) -> list[tuple[str, Any, Any]]:
    """What a caller passes: the names, how each is passed, and the defaults."""
    return [(one.name, one.kind, one.default) for one in inspect.signature(verb).parameters.values()]


@pytest.mark.parametrize("which", ["local", "scoped", "remote"])
async def test_every_client_has_the_verbs_of_the_protocol(which: str) -> None:
    async with clients(Holdfast("sqlite://")) as made:
        client = getattr(made, which)
        wanted = {"": Client} | namespaces()
        assert len(wanted) > 15
        for name, protocol in wanted.items():
            own = type(getattr(client, name) if name else client)
            for verb, meant in verbs(protocol):
                place = f"{own.__name__}.{verb}"
                assert hasattr(own, verb), place
                assert parameters(getattr(own, verb)) == parameters(meant), place
                is_awaited = inspect.iscoroutinefunction(getattr(own, verb))
                assert is_awaited == inspect.iscoroutinefunction(meant), place


async def test_the_app_and_the_blocking_client_have_every_namespace_and_verb() -> None:
    async with clients(app := Holdfast("sqlite://")) as made:
        assert {name for name in vars(made.blocking) if name not in _NO_VERBS} == set(namespaces())
        for name, protocol in namespaces().items():
            assert getattr(app, name) is getattr(app.client, name)
            blocking = type(getattr(made.blocking, name))
            for verb, meant in verbs(protocol):
                assert hasattr(blocking, verb), f"{blocking.__name__}.{verb}"
                assert parameters(getattr(blocking, verb)) == parameters(meant), f"{blocking.__name__}.{verb}"


async def test_every_change_through_a_scoped_client_bears_the_name_of_its_caller() -> None:
    """A verb that takes an actor refuses one from a caller, whose own name is recorded."""
    async with clients(Holdfast("sqlite://")) as made:
        for path in ("queues.default.workers", "limits.none.concurrency"):
            with pytest.raises(ValueError, match="actor: a server records whose token it was"):
                await made.scoped.settings.set(path, 1, actor="bob")


async def test_the_events_of_a_scoped_client_are_those_of_its_queues() -> None:
    app = Holdfast("sqlite://")

    @app.task(queue="mail", queue_override=True)
    async def send(to: str) -> None: ...

    async with clients(app, "mail") as made:
        for asked in ((), ("mail", "secret")):
            async with made.scoped.events(queues=asked) as events:
                await app.enqueue(send.using(queue="secret").call(to="eve"))
                theirs = await app.enqueue(send.call(to="ada"))
                event = await anext(events)
            assert (event.id, event.queue) == (theirs.id, "mail")


async def test_figures_are_those_of_the_queues_of_the_caller() -> None:
    now = datetime.now(UTC)
    async with clients(Holdfast("sqlite://"), "mail") as made:
        figures = made.scoped.figures
        assert await figures.rollups("mail", now) == []
        with pytest.raises(QueueNotFound, match="no queue secret"):
            await figures.rollups("secret", now)
        with pytest.raises(QueueNotFound, match="no queue secret"):
            await figures.waits(["mail", "secret"], 1_000)
        for refused in (figures.database, figures.tables):
            with pytest.raises(Problem, match="this concerns all queues"):
                await refused()
