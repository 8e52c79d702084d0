"""Dead letters, over HTTP."""

from collections.abc import AsyncIterator
from datetime import datetime

import msgspec

from holdfast.client.dead_letters import failed_jobs
from holdfast.remote.link import Link, refuse_actor
from holdfast.resources.bulk import BulkOperation
from holdfast.resources.dead_letter import (
    DeadLetter,
    DeadLetterGroup,
    DeadLetterGroupPage,
    DeadLetterRequest,
    GroupRequest,
)
from holdfast.resources.queue import JobCount
from holdfast.stores.values import JobFilter

_PATH = "dead-letters"


class RemoteDeadLetters:
    """The dead letters of a server."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def list(
        self,
        *,
        kind: str | None = None,
        queue: str | None = None,
        error: str | None = None,
        since: datetime | None = None,
        empty: bool = False,
        limit: int = 100,
        after: str | None = None,
    ) -> DeadLetterGroupPage:
        """Read one page of groups, the latest first."""
        conditions = {"kind": kind, "queue": queue, "error": error, "since": since}
        return await self._link.ask(
            DeadLetterGroupPage, "GET", _PATH, body=None, **conditions, empty=empty, limit=limit, after=after
        )

    async def get(self, group: str) -> DeadLetterGroup:
        """Read one group by its id."""
        return await self._link.ask(DeadLetterGroup, "GET", _PATH, group)

    async def filter(
        self,
        group: str | None = None,
        *,
        kind: str | None = None,
        queue: str | None = None,
        error: str | None = None,
        since: datetime | None = None,
    ) -> JobFilter:
        """Make the filter of failed jobs."""
        found = None if group is None else await self.get(group)
        return failed_jobs(found, kind=kind, queue=queue, error=error, since=since)

    async def preview(
        self,
        group: str | None = None,
        *,
        kind: str | None = None,
        queue: str | None = None,
        error: str | None = None,
        since: datetime | None = None,
    ) -> JobCount:
        """Count the failed jobs that a replay or a purge would change now."""
        conditions = {"group": group, "kind": kind, "queue": queue, "error": error, "since": since}
        return await self._link.ask(JobCount, "GET", _PATH, "preview", body=None, **conditions)

    async def replay(
        self,
        group: str | None = None,
        *,
        kind: str | None = None,
        queue: str | None = None,
        error: str | None = None,
        since: datetime | None = None,
        rate: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> BulkOperation:
        """Start failed jobs over, as a bulk operation."""
        refuse_actor(actor)
        chosen = DeadLetterRequest(rate=rate, reason=reason, kind=kind, queue=queue, error=error, since=since)
        return await self._start("replay", group, chosen)

    async def purge(
        self,
        group: str | None = None,
        *,
        kind: str | None = None,
        queue: str | None = None,
        error: str | None = None,
        since: datetime | None = None,
        rate: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> BulkOperation:
        """Delete failed jobs, as a bulk operation."""
        refuse_actor(actor)
        chosen = DeadLetterRequest(rate=rate, reason=reason, kind=kind, queue=queue, error=error, since=since)
        return await self._start("purge", group, chosen)

    async def export(
        self,
        group: str | None = None,
        *,
        kind: str | None = None,
        queue: str | None = None,
        error: str | None = None,
        since: datetime | None = None,
    ) -> AsyncIterator[DeadLetter]:
        """Go through failed jobs, newest first, with their secrets covered."""
        conditions = {"group": group, "kind": kind, "queue": queue, "error": error, "since": since}
        async with self._link.lines(_PATH, "export", expected="application/x-ndjson", **conditions) as lines:
            async for line in lines:
                if line:
                    yield msgspec.json.decode(line, type=DeadLetter)

    async def _start(self, verb: str, group: str | None, chosen: DeadLetterRequest) -> BulkOperation:
        if group is None:
            return await self._link.ask(BulkOperation, "POST", _PATH, verb, body=chosen)
        body = GroupRequest(rate=chosen.rate, reason=chosen.reason)
        return await self._link.ask(BulkOperation, "POST", _PATH, group, verb, body=body)
