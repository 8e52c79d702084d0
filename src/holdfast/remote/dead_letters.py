"""Dead letters, asked of a server."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import msgspec

from holdfast import public_id
from holdfast.client.dead_letters import failed_jobs
from holdfast.job import Job
from holdfast.remote import shapes
from holdfast.remote.link import Link, refuse_actor
from holdfast.stores.failures import DeadCursor, DeadLetter, DeadPage, group_id
from holdfast.stores.values import JobFilter

_MARK = "~"


class RemoteDeadLetters:
    """The verbs of dead letters."""

    def __init__(self, link: Link) -> None:
        self.link = link

    async def dead_letters(
        self,
        *,
        kind: str | None = None,
        queue: str | None = None,
        error: str | None = None,
        since: datetime | None = None,
        empty: bool = False,
        limit: int = 100,
        after: DeadCursor | None = None,
    ) -> DeadPage:
        """Read one page of groups of failed jobs, the latest first."""
        start = None if after is None else f"{after.last_at.isoformat()}{_MARK}{after.id}"
        told = await self.link.get(
            "dead-letters", kind=kind, queue=queue, error=error, since=since, empty=empty, limit=limit, after=start
        )
        return DeadPage([shapes.dead_letter(group) for group in told["groups"]], _cursor(told["next"]))

    async def dead_letter(self, group: str) -> DeadLetter:
        """Read one group."""
        return shapes.dead_letter(await self.link.get("dead-letters", group))

    async def dead_jobs(
        self,
        group: str | None = None,
        *,
        kind: str | None = None,
        queue: str | None = None,
        error: str | None = None,
        since: datetime | None = None,
    ) -> JobFilter:
        """Choose failed jobs: of a group, or by conditions that must all hold."""
        found = None if group is None else await self.dead_letter(group)
        return failed_jobs(found, kind=kind, queue=queue, error=error, since=since)

    async def export_dead_letters(self, which: JobFilter) -> AsyncIterator[dict[str, Any]]:
        """Go through failed jobs as plain values."""
        asked: dict[str, Any] = {
            "kind": which.kinds[0] if which.kinds else None,
            "queue": which.queues[0] if which.queues else None,
            "error": which.error_class,
            "since": which.finished_from,
        }
        if which.fingerprint is not None:
            asked["group"] = group_id(which.kinds[0], which.fingerprint)
        async with self.link.lines("dead-letters", "export", expected="application/x-ndjson", **asked) as lines:
            async for line in lines:
                if line:
                    yield msgspec.json.decode(line)

    async def replay_edited(self, job: int | str, changes: dict[str, Any], *, actor: str | None = None) -> Job:
        """Enqueue a finished job anew with other arguments."""
        refuse_actor(actor)
        shown = public_id.encode(job) if isinstance(job, int) else job
        return shapes.job(await self.link.post("jobs", shown, "replay", body={"args": changes}))


def _cursor(text: str | None) -> DeadCursor | None:
    if text is None:
        return None
    at, _, group = text.partition(_MARK)
    return DeadCursor(shapes.instant(at), group)
