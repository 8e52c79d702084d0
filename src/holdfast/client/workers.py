"""What operators ask of workers: who is there, and that an instance leaves."""

from holdfast.client.jobs import checked_actor
from holdfast.client.repeat import until_answered
from holdfast.errors import InvalidValue, WorkerNotFound, shown
from holdfast.stores.store import LeaseStore
from holdfast.stores.values import WorkerRow

_LEAST = 4  # letters of an instance's name, so that a slip does not name one by chance


class WorkerVerbs:
    """The verbs of workers, on one store."""

    def __init__(self, store: LeaseStore, deadline_s: float) -> None:
        self._worker_store = store
        self._worker_deadline_s = deadline_s

    async def workers(self) -> list[WorkerRow]:
        """Read the processes that run jobs; those that died a short while ago are among them."""
        return await until_answered(
            lambda _: self._worker_store.list_workers(), self._worker_deadline_s, "workers", changes=False
        )

    async def drain_worker(self, worker: int | str, *, actor: str | None = None) -> list[WorkerRow]:
        """Ask the instance of a worker to leave, as one SIGTERM would: it claims nothing more and what runs may end.

        `worker` is the id of one of its processes, or its own name or the beginning of it. It learns of this with its
        next renewal, within seconds, and leaves with all its processes; who started it may start another. The answer
        is its processes.
        """
        who = checked_actor(actor)
        living = [row for row in await self.workers() if row.dead_at is None]
        instance = instance_of(worker, living)
        await until_answered(
            lambda _: self._worker_store.drain_instance(instance, who), self._worker_deadline_s, f"drain {instance}"
        )
        return [row for row in await self.workers() if row.info.instance == instance and row.dead_at is None]


def instance_of(worker: int | str, living: list[WorkerRow]) -> str:
    """Find the instance that is meant."""
    by_id = {str(row.id): row.info.instance for row in living}
    named = str(worker)
    if named in by_id:
        return by_id[named]
    found = {row.info.instance for row in living if row.info.instance.startswith(named)}
    if isinstance(worker, str) and len(named) >= _LEAST and len(found) == 1:
        return found.pop()
    if isinstance(worker, str) and len(found) > 1:
        message = f"worker: expected the id of a worker or more of an instance's name, got {shown(worker)}; it may be"
        message += f" {', '.join(sorted(found))}"
        raise InvalidValue(message)
    message = f"there is no living worker {shown(worker)}; `holdfast workers list` names those that are"
    raise WorkerNotFound(message)
