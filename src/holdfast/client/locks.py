"""Locks: which are held, and taking one from a holder that hangs."""

from collections.abc import Iterable
from typing import Protocol

from holdfast import public_id
from holdfast.client.lock_keeper import LOCK_HINT
from holdfast.client.repeat import until_answered
from holdfast.delivery.delivery import Delivery
from holdfast.errors import LockNotFound
from holdfast.resources.lock import LockInfo
from holdfast.stores.cluster import LockRow, LockStore

List = list  # one of the verbs has that name

_MOST = 1_000


class Locks(Protocol):
    """What can be asked of locks, and done to them."""

    async def list(self) -> List[LockInfo]:
        """Read the locks that are held, the oldest 1,000: by whom, for which job, since when, and how many wait."""

    async def release(self, name: str, token: int) -> LockInfo:
        """Take a lock from a holder that hangs; LockNotFound when it is not held under this token.

        The next in line gets it at once. The body that held it is stopped with its next renewal, within ten seconds;
        until then both may run, and only the token tells them apart.
        """


class LocalLocks:
    """The locks of one store."""

    def __init__(self, store: LockStore, deadline_s: float, delivery: Delivery) -> None:
        self._store = store
        self._deadline_s = deadline_s
        self._delivery = delivery

    async def list(self) -> List[LockInfo]:
        """Read the locks that are held, the oldest 1,000."""
        rows = await until_answered(lambda _: self._store.list_locks(_MOST), self._deadline_s, "locks", changes=False)
        return [lock_info(row) for row in rows]

    async def release(self, name: str, token: int) -> LockInfo:
        """Take a lock from a holder that hangs; LockNotFound when it is not held under this token."""
        lock = held_lock(await self.list(), name, token)

        async def released(again: bool) -> bool:  # noqa: FBT001 - as `until_answered` calls it
            return await self._store.break_lock(name, token) or again

        if not await until_answered(released, self._deadline_s, f"release {name}"):
            raise _not_held(name, token)
        self._delivery.hint([LOCK_HINT])
        return lock


def lock_info(row: LockRow) -> LockInfo:
    """Put together what is known of one lock."""
    return LockInfo(
        name=row.name,
        token=row.token,
        owner=row.owner,
        worker=None if row.worker is None else str(row.worker),
        job=None if row.job_id is None else public_id.encode(row.job_id),
        claim=row.claim,
        since=row.since,
        until=row.until,
        waiters=row.waiters,
    )


def held_lock(locks: Iterable[LockInfo], name: str, token: int | None = None) -> LockInfo:
    """Choose a lock by its name, and by its token where that is known."""
    for lock in locks:
        if lock.name == name and token in (None, lock.token):
            return lock
    raise _not_held(name, token)


def _not_held(name: str, token: int | None) -> LockNotFound:
    under = "" if token is None else f" under token {token}"
    return LockNotFound(f"release {name}: no process holds this lock{under}; `holdfast locks list` shows what is held")
