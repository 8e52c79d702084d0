"""The verbs of a client that commands use, each a request to a server; the answers are the same values."""

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any, NoReturn

from holdfast import public_id
from holdfast.errors import InvalidValue, UnknownKind
from holdfast.remote.audit import RemoteAudit
from holdfast.remote.budgets import RemoteBudgets
from holdfast.remote.bulk import RemoteBulkOperations
from holdfast.remote.dead_letters import RemoteDeadLetters
from holdfast.remote.escalations import RemoteEscalations
from holdfast.remote.jobs import RemoteJobs
from holdfast.remote.kinds import RemoteKinds
from holdfast.remote.limits import RemoteLimits
from holdfast.remote.link import Link
from holdfast.remote.locks import RemoteLocks
from holdfast.remote.policies import RemotePolicies
from holdfast.remote.queues import RemoteQueues
from holdfast.remote.schedules import RemoteSchedules
from holdfast.remote.services import RemoteServices
from holdfast.remote.stream import RemoteEvents
from holdfast.remote.tokens import RemoteTokens
from holdfast.remote.webhooks import RemoteWebhooks
from holdfast.remote.workers import RemoteWorkers
from holdfast.resources.event import Event

_Id = int | str
List = list  # one of the verbs has that name


class RemoteClient(RemotePolicies):
    """What commands ask of a client, asked of a server.

    A verb that is not here needs the database itself, and says so.
    """

    def __init__(self, link: Link) -> None:
        self.link = link
        self.jobs = RemoteJobs(link)
        self.budgets = RemoteBudgets(link)
        self.limits = RemoteLimits(link)
        self.locks = RemoteLocks(link)
        self.queues = RemoteQueues(link)
        self.webhooks = RemoteWebhooks(link)
        self.kinds = RemoteKinds(link)
        self.services = RemoteServices(link)
        self.tokens = RemoteTokens(link)
        self.audit = RemoteAudit(link)
        self.workers = RemoteWorkers(link)
        self.escalations = RemoteEscalations(link)
        self.bulk = RemoteBulkOperations(link)
        self.schedules = RemoteSchedules(link)
        self.dead_letters = RemoteDeadLetters(link)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        message = f"{name}: this needs the database, and a server was named; run it where the database can be reached,"
        message += " with -A module:app or --store URL"
        raise InvalidValue(message)

    def now(self) -> datetime:
        """What time the server had when it answered last."""
        return self.link.asked_at or datetime.now(UTC)

    # ---- jobs ------------------------------------------------------------------------------------------------------

    async def schema_of(self, kind: str) -> dict[str, Any]:
        """Read the JSON Schema of the arguments of a kind; one that nobody has published takes anything."""
        try:
            return (await self.kinds.get(kind)).args_schema
        except UnknownKind:
            return {}

    def events(
        self,
        *,
        types: Iterable[str] = (),
        kinds: Iterable[str] = (),
        queues: Iterable[str] = (),
        jobs: Iterable[_Id] = (),
    ) -> AbstractAsyncContextManager["AsyncIterator[Event]"]:
        """Hear of what happens from the moment the block is entered."""
        wanted = frozenset(_shown(job) for job in jobs)
        return RemoteEvents(self.link, tuple(types), frozenset(map(str.lower, kinds)), tuple(queues), wanted)


def _shown(job: _Id) -> str:
    return public_id.encode(job) if isinstance(job, int) else job
