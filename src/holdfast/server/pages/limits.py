"""The page of limits and locks: who holds what, and since when."""

from collections import Counter

from fastapi import Form, Request
from starlette.responses import Response

from holdfast import public_id
from holdfast.job import Job
from holdfast.server.pages.rendering import page, turned, url
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted
from holdfast.stores.limits import LimitRow, LimitUsage

routes = Routes("pages", in_schema=False)

_MOST_LIMITS = 100
_MOST_LOCKS = 200
_MOST_HOLDERS = 20
_COUNTED = 10_000


class Shown:
    """A limit as the page shows it."""

    def __init__(self, row: LimitRow, usage: LimitUsage, jobs: dict[int, Job]) -> None:
        self.row = row
        self.usage = usage
        self.words = row.words
        self.keys = Counter(holder.key for holder in usage.holders)
        self.holders = [
            (holder, public_id.encode(holder.job_id), jobs[holder.job_id].kind if holder.job_id in jobs else None)
            for holder in usage.holders[:_MOST_HOLDERS]
        ]

    @property
    def held(self) -> str:
        """How many wait for it."""
        return f"{_COUNTED:,}+" if self.usage.held > _COUNTED else f"{self.usage.held:,}"

    @property
    def buckets(self) -> str:
        """How many of its keys are in use."""
        keys = len({bucket.key for bucket in self.usage.buckets})
        return f"{keys}{'+' if self.usage.has_more_buckets else ''} {'key' if keys == 1 else 'keys'} in use"

    @property
    def used_up(self) -> int:
        """How many of those have nothing left."""
        return len({bucket.key for bucket in self.usage.buckets if bucket.left == 0})

    @property
    def is_full(self) -> bool:
        """Whether nothing more may start under it."""
        return self.usage.available == 0


@routes.get("/limits", Permission.LOOK, whole=True)
async def limits_page(request: Request, sight: Seen) -> Response:
    """Show the limits in force, and the locks that are held."""
    rows = await sight.client.limits()
    usages = {usage.name: usage for usage in await sight.store.limit_usages()}
    known = [(row, usages[row.name]) for row in rows[:_MOST_LIMITS] if row.name in usages]
    wanted = [holder.job_id for _, usage in known for holder in usage.holders[:_MOST_HOLDERS]]
    jobs = await sight.client.get_many(wanted) if wanted else {}
    locks = await sight.locks.list()
    return page(
        request,
        "limits.html",
        at="limits",
        limits=[Shown(row, usage, jobs) for row, usage in known],
        more=max(len(rows) - _MOST_LIMITS, 0),
        locks=locks[:_MOST_LOCKS],
        hidden=max(len(locks) - _MOST_LOCKS, 0),
    )


@routes.post("/locks/release", Permission.RELEASE_LOCKS, whole=True)
async def release_lock_here(
    request: Request, sight: Seen, name: str = Form(max_length=1_000), token: int = Form(ge=0, le=2**63 - 1)
) -> Response:
    """Take a lock from the holder that has this token."""
    noted(request, lock=name, token=token)
    lock = await sight.locks.release(name, token)
    return turned(request, url(request, "limits"), f"the lock {lock.name[:100]} is released")
