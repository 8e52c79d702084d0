"""Workers, over HTTP."""

from holdfast.client.workers import List
from holdfast.remote.namespace import RemoteNamespace
from holdfast.resources.worker import WorkerInfo, WorkerList


class RemoteWorkers(RemoteNamespace):
    """The workers of a server."""

    path = "workers"

    async def list(self, *, dead: bool = False) -> List[WorkerInfo]:
        """Read the processes that run jobs."""
        return (await self._get(WorkerList, dead=dead)).workers

    async def get(self, worker: int | str) -> WorkerInfo:
        """Read one worker."""
        return await self._get(WorkerInfo, worker)

    async def drain(self, worker: int | str, *, actor: str | None = None) -> List[WorkerInfo]:
        """Ask the instance of a worker to shut down."""
        return (await self._change("POST", WorkerList, worker, "drain", actor=actor)).workers
