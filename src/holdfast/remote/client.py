"""The client of a server: each verb is a request, and the answers are the same values."""

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime

from holdfast import public_id
from holdfast.client.jobs import JobId
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
from holdfast.remote.queues import RemoteQueues
from holdfast.remote.schedules import RemoteSchedules
from holdfast.remote.services import RemoteServices
from holdfast.remote.settings import RemoteSettings
from holdfast.remote.stream import RemoteEvents
from holdfast.remote.tokens import RemoteTokens
from holdfast.remote.webhooks import RemoteWebhooks
from holdfast.remote.workers import RemoteWorkers
from holdfast.resources.event import Event


class RemoteClient:
    """The client of one server."""

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
        self.settings = RemoteSettings(link)
        self.tokens = RemoteTokens(link)
        self.audit = RemoteAudit(link)
        self.workers = RemoteWorkers(link)
        self.escalations = RemoteEscalations(link)
        self.bulk = RemoteBulkOperations(link)
        self.schedules = RemoteSchedules(link)
        self.dead_letters = RemoteDeadLetters(link)

    async def now(self) -> datetime:
        """Read what time the server had when it answered last."""
        return self.link.asked_at or datetime.now(UTC)

    def events(
        self,
        *,
        types: Iterable[str] = (),
        kinds: Iterable[str] = (),
        queues: Iterable[str] = (),
        jobs: Iterable[JobId] = (),
    ) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        """Hear of what happens from the moment the block is entered."""
        wanted = frozenset(_shown(job) for job in jobs)
        return RemoteEvents(self.link, tuple(types), frozenset(map(str.lower, kinds)), tuple(queues), wanted)


def _shown(job: JobId) -> str:
    return public_id.encode(job) if isinstance(job, int) else job
