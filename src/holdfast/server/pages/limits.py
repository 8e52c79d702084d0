"""The page of limits and locks: who holds what, and since when."""

from fastapi import Form, Request
from starlette.responses import Response

from holdfast.resources.limit import LimitInfo
from holdfast.server.pages.rendering import page, turned, url
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted

routes = Routes("pages", in_schema=False)

_MOST_LIMITS = 100
_MOST_LOCKS = 200
_MOST_HOLDERS = 20
_COUNTED = 10_000


class Shown:
    """A limit as the page shows it."""

    def __init__(self, limit: LimitInfo, kinds: dict[str, str]) -> None:
        self.limit = limit
        self.holder_keys = len({holder.key for holder in limit.holders})
        self.holders = [(holder, kinds.get(holder.job)) for holder in limit.holders[:_MOST_HOLDERS]]

    @property
    def held(self) -> str:
        """How many wait for it."""
        return f"{_COUNTED:,}+" if self.limit.held > _COUNTED else f"{self.limit.held:,}"

    @property
    def keys(self) -> str:
        """How many of its keys are in use."""
        keys = len({used.key for used in self.limit.keys})
        return f"{keys}{'+' if self.limit.has_more_keys else ''} {'key' if keys == 1 else 'keys'} in use"

    @property
    def used_up(self) -> int:
        """How many of those have nothing left."""
        return len({used.key for used in self.limit.keys if used.available == 0})


@routes.get("/limits", Permission.LOOK, whole=True)
async def limits_page(request: Request, client: Seen) -> Response:
    """Show the limits in force, and the locks that are held."""
    found = await client.limits.list()
    limits = found[:_MOST_LIMITS]
    wanted = [holder.job for limit in limits for holder in limit.holders[:_MOST_HOLDERS]]
    jobs = (await client.jobs.get_many(wanted)).values() if wanted else ()
    kinds = {job.id: job.kind for job in jobs}
    locks = await client.locks.list()
    return page(
        request,
        "limits.html",
        at="limits",
        limits=[Shown(limit, kinds) for limit in limits],
        more=max(len(found) - _MOST_LIMITS, 0),
        locks=locks[:_MOST_LOCKS],
        hidden=max(len(locks) - _MOST_LOCKS, 0),
    )


@routes.post("/locks/release", Permission.RELEASE_LOCKS, whole=True)
async def release_lock_here(
    request: Request, client: Seen, name: str = Form(max_length=1_000), token: int = Form(ge=0, le=2**63 - 1)
) -> Response:
    """Take a lock from the holder that has this token."""
    noted(request, lock=name, token=token)
    lock = await client.locks.release(name, token)
    return turned(request, url(request, "limits"), f"the lock {lock.name[:100]} is released")
