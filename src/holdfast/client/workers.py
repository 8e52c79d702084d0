"""Workers: the processes that run jobs, and asking them to shut down."""

from typing import Protocol

from holdfast.client.jobs import checked_actor
from holdfast.client.repeat import until_answered
from holdfast.errors import InvalidValue, WorkerNotFound, shown
from holdfast.resources.worker import WorkerInfo, WorkerState
from holdfast.stores.store import LeaseStore
from holdfast.stores.values import WorkerRow

List = list  # one of the verbs has that name

_LEAST = 4  # letters of an instance's name, so that a slip does not name one by chance


class Workers(Protocol):
    """What can be asked of workers, and done to them."""

    async def list(self, *, dead: bool = False) -> List[WorkerInfo]:
        """Read the processes that run jobs; with `dead` also those that died a short while ago."""

    async def get(self, worker: int | str) -> WorkerInfo:
        """Read one worker by its number; WorkerNotFound when there is none."""

    async def drain(self, worker: int | str, *, actor: str | None = None) -> List[WorkerInfo]:
        """Ask the instance of a worker to shut down, as one SIGTERM would: it claims no more jobs and finishes its own.

        `worker` is the number of one of its processes, or the name of the instance or the beginning of it. It learns of
        this within seconds, and all its processes exit; what started it may start another. Returns its processes.
        """


class LocalWorkers:
    """The workers of one store."""

    def __init__(self, store: LeaseStore, deadline_s: float) -> None:
        self._store = store
        self._deadline_s = deadline_s

    async def list(self, *, dead: bool = False) -> List[WorkerInfo]:
        """Read the processes that run jobs; with `dead` also those that died a short while ago."""
        store = self._store
        rows = await until_answered(lambda _: store.list_workers(), self._deadline_s, "workers", changes=False)
        return [worker_info(row) for row in rows if dead or row.dead_at is None]

    async def get(self, worker: int | str) -> WorkerInfo:
        """Read one worker by its number; WorkerNotFound when there is none."""
        return worker_numbered(await self.list(dead=True), worker)

    async def drain(self, worker: int | str, *, actor: str | None = None) -> List[WorkerInfo]:
        """Ask the instance of a worker to shut down: it claims no more jobs and finishes its own."""
        who = checked_actor(actor)
        instance = _instance_of(worker, await self.list())
        await until_answered(lambda _: self._store.drain_instance(instance, who), self._deadline_s, f"drain {instance}")
        return [info for info in await self.list() if info.instance == instance]


def worker_info(row: WorkerRow) -> WorkerInfo:
    """Put together what is known of one worker."""
    process = row.info
    return WorkerInfo(
        id=str(row.id),
        host=process.host,
        pid=process.pid,
        instance=process.instance,
        version=process.version,
        queues=list(process.queues),
        slots=process.concurrency,
        running=row.running,
        state=_state(row),
        registered_at=row.registered_at,
        seen_at=row.renewed_at,
        lease_until=row.lease_until,
        dead_at=row.dead_at,
        drain_at=row.drain_at,
        drain_by=row.drain_by,
        memory_bytes=row.memory_bytes,
    )


def worker_numbered(workers: List[WorkerInfo], number: int | str) -> WorkerInfo:
    """Choose a worker by its number."""
    for worker in workers:
        if worker.id == str(number):
            return worker
    message = f"there is no worker {number}; those that died a while ago are forgotten"
    raise WorkerNotFound(message)


def _state(row: WorkerRow) -> WorkerState:
    if row.dead_at is not None:
        return "dead"
    if row.is_lease_over:
        return "lease ended"
    return "alive" if row.drain_at is None else "shutting down"


def _instance_of(worker: int | str, workers: List[WorkerInfo]) -> str:
    """Find the instance that is meant."""
    by_id = {info.id: info.instance for info in workers}
    name = str(worker)
    if name in by_id:
        return by_id[name]
    fitting = {info.instance for info in workers if info.instance.startswith(name)}
    if isinstance(worker, str) and len(name) >= _LEAST and len(fitting) == 1:
        return fitting.pop()
    if isinstance(worker, str) and len(fitting) > 1:
        message = f"worker: expected the number of a worker or more of an instance's name, got {shown(worker)};"
        message += f" it may be {', '.join(sorted(fitting))}"
        raise InvalidValue(message)
    message = f"there is no living worker {shown(worker)}; `holdfast workers list` names those that are"
    raise WorkerNotFound(message)
