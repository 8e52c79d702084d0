"""Locks: who holds which, and taking one away."""

from fastapi import Request

from holdfast.resources.lock import LockInfo, LockList, ReleaseRequest
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted

routes = Routes("locks", "/locks")


@routes.get("", Permission.LOOK, whole=True, summary="List locks")
async def list_locks(client: Seen) -> LockList:
    """Read the locks that are held: by whom, for which job, since when, and how many wait; the oldest 1,000."""
    return LockList(locks=await client.locks.list())


@routes.post("/release", Permission.RELEASE_LOCKS, whole=True, summary="Take a lock away")
async def release_lock(asked: ReleaseRequest, client: Seen, request: Request) -> LockInfo:
    """Take a lock from its holder, so that the next in line gets it; the answer is the lock as it was held.

    The body that held it is stopped with its next renewal, within ten seconds; until then both may run, so that only
    what checks the token is safe.
    """
    noted(request, lock=asked.name, token=asked.token)
    return await client.locks.release(asked.name, asked.token)
