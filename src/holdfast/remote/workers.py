"""Workers, over HTTP."""

from holdfast.client.workers import List
from holdfast.remote.link import Link, refuse_actor
from holdfast.resources.worker import WorkerInfo, WorkerList


class RemoteWorkers:
    """The workers of a server."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def list(self, *, dead: bool = False) -> List[WorkerInfo]:
        """Read the processes that run jobs."""
        return (await self._link.ask(WorkerList, "GET", "workers", dead=dead)).workers

    async def get(self, worker: int) -> WorkerInfo:
        """Read one worker."""
        return await self._link.ask(WorkerInfo, "GET", "workers", str(worker))

    async def drain(self, worker: int | str, *, actor: str | None = None) -> List[WorkerInfo]:
        """Ask the instance of a worker to shut down."""
        refuse_actor(actor)
        return (await self._link.ask(WorkerList, "POST", "workers", str(worker), "drain")).workers
