"""Locks: who holds which, and taking one away."""

from fastapi import Request

from holdfast.server.api.limit_shapes import LockList, Release, Released, lock_shape
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted

routes = Routes("locks", "/locks")


@routes.get("", Permission.LOOK, whole=True, summary="List locks")
async def list_locks(sight: Seen) -> LockList:
    """Read the locks that are held: by whom, for which job, since when, and how many wait; the oldest 1,000."""
    return LockList(locks=[lock_shape(row) for row in await sight.client.locks()])


@routes.post("/release", Permission.RELEASE_LOCKS, whole=True, summary="Take a lock away")
async def release_lock(asked: Release, sight: Seen, request: Request) -> Released:
    """Take a lock from whoever holds it, so that the next one gets it.

    The body that held it is stopped with its next renewal, within ten seconds; until then both may run, so that only
    what checks the token is safe.
    """
    noted(request, lock=asked.name, token=asked.token)
    return Released(released=await sight.client.break_lock(asked.name, int(asked.token)))
