"""Workers, as far as one caller may see them: those of their queues, without the names and jobs of other queues."""

from collections import Counter
from dataclasses import replace

from holdfast.client.client import LocalClient
from holdfast.client.jobs import LARGEST_PAGE
from holdfast.client.workers import List, worker_numbered
from holdfast.job import JobState
from holdfast.resources.worker import WorkerInfo
from holdfast.server.principal import Principal
from holdfast.server.scoped.scope import Scope
from holdfast.stores.values import JobFilter


class ScopedWorkers(Scope):
    """The workers of one caller."""

    def __init__(self, client: LocalClient, principal: Principal) -> None:
        super().__init__(principal)
        self._client = client
        self._workers = client.workers

    async def list(self, *, dead: bool = False) -> List[WorkerInfo]:
        """Read the processes that run jobs of queues that the caller may see."""
        workers = await self._workers.list(dead=dead)
        if self._principal.queues is None:
            return workers
        running = await self._running(self._principal.queues)
        mine = [worker for worker in workers if not worker.queues or any(map(self.sees, worker.queues))]
        return [
            replace(worker, queues=list(filter(self.sees, worker.queues)), running=running[worker.id])
            for worker in mine
        ]

    async def get(self, worker: int | str) -> WorkerInfo:
        """Read one worker of queues that the caller may see."""
        return worker_numbered(await self.list(dead=True), worker)

    async def drain(self, worker: int | str, *, actor: str | None = None) -> List[WorkerInfo]:
        """Ask the instance of a worker to shut down; its route is open only to callers who may see all queues."""
        return await self._workers.drain(worker, actor=self.acting(actor))

    async def _running(self, queues: frozenset[str]) -> Counter[str | None]:
        """Count the running jobs of the caller's queues by worker."""
        if not queues:
            return Counter()
        running = JobFilter(states=(JobState.RUNNING,), queues=tuple(sorted(queues)))
        return Counter(job.worker for job in (await self._client.jobs.list(running, limit=LARGEST_PAGE)).jobs)
