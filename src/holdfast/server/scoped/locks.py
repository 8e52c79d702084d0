"""Locks, as far as one caller may see them: those of jobs in their queues."""

from holdfast.client.client import LocalClient
from holdfast.client.locks import List, held_lock
from holdfast.resources.lock import LockInfo
from holdfast.server.principal import Principal
from holdfast.server.scoped.scope import Scope


class ScopedLocks(Scope):
    """The locks of one caller."""

    def __init__(self, client: LocalClient, principal: Principal) -> None:
        super().__init__(principal)
        self._client = client

    async def list(self) -> List[LockInfo]:
        """Read the locks that are held; a caller for some queues sees those of jobs in these queues."""
        locks = await self._client.locks.list()
        if self.sees_all:
            return locks
        jobs = await self._client.jobs.get_many([lock.job for lock in locks if lock.job is not None])
        visible = {job.id for job in jobs.values() if self.sees(job.queue)}
        return [lock for lock in locks if lock.job in visible]  # guard: scope-locks, without: return locks

    async def release(self, name: str, token: int) -> LockInfo:
        """Take a lock from a holder that hangs."""
        lock = held_lock(await self.list(), name, token)
        return await self._client.locks.release(lock.name, lock.token)
