"""Dead letters, over HTTP."""

from collections.abc import AsyncIterator
from typing import Unpack

import msgspec

from holdfast.client.dead_letters import failed_jobs
from holdfast.errors import InvalidValue
from holdfast.remote.link import Link, refuse_actor
from holdfast.resources.bulk import BulkOperation
from holdfast.resources.dead_letter import (
    DeadLetter,
    DeadLetterGroup,
    DeadLetterGroupPage,
    DeadLetterRequest,
    FailedJobs,
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
        self, *, empty: bool = False, limit: int = 100, after: str | None = None, **which: Unpack[FailedJobs]
    ) -> DeadLetterGroupPage:
        """Read one page of groups, the latest first."""
        return await self._link.ask(DeadLetterGroupPage, "GET", _PATH, **which, empty=empty, limit=limit, after=after)

    async def get(self, group: str) -> DeadLetterGroup:
        """Read one group by its id."""
        return await self._link.ask(DeadLetterGroup, "GET", _PATH, group)

    async def filter(self, group: str | None = None, **which: Unpack[FailedJobs]) -> JobFilter:
        """Make the filter of failed jobs."""
        found = None if group is None else await self.get(group)
        return failed_jobs(found, **which)

    async def preview(self, group: str | None = None, **which: Unpack[FailedJobs]) -> JobCount:
        """Count the failed jobs that a replay or a purge would change now."""
        return await self._link.ask(JobCount, "GET", _PATH, "preview", group=group, **which)

    async def replay(
        self,
        group: str | None = None,
        *,
        rate: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        **which: Unpack[FailedJobs],
    ) -> BulkOperation:
        """Start failed jobs over, as a bulk operation."""
        refuse_actor(actor)
        return await self._start("replay", group, DeadLetterRequest(rate=rate, reason=reason, **which))

    async def purge(
        self,
        group: str | None = None,
        *,
        rate: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        **which: Unpack[FailedJobs],
    ) -> BulkOperation:
        """Delete failed jobs, as a bulk operation."""
        refuse_actor(actor)
        return await self._start("purge", group, DeadLetterRequest(rate=rate, reason=reason, **which))

    async def export(self, group: str | None = None, **which: Unpack[FailedJobs]) -> AsyncIterator[DeadLetter]:
        """Go through failed jobs, newest first, with their secrets covered."""
        async with self._link.lines(_PATH, "export", expected="application/x-ndjson", group=group, **which) as lines:
            async for line in lines:
                if line:
                    yield msgspec.json.decode(line, type=DeadLetter)

    async def _start(self, verb: str, group: str | None, chosen: DeadLetterRequest) -> BulkOperation:
        if group is None:
            return await self._link.ask(BulkOperation, "POST", _PATH, verb, body=chosen)
        if given := [name for name, value in chosen.conditions().items() if value is not None]:
            message = (
                f"{verb}: expected a group or conditions, because a server was named; got both a group and {given[0]}"
            )
            raise InvalidValue(message)
        body = GroupRequest(rate=chosen.rate, reason=chosen.reason)
        return await self._link.ask(BulkOperation, "POST", _PATH, group, verb, body=body)
