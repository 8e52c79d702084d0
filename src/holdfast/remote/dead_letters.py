"""Dead letters, over HTTP."""

from collections.abc import AsyncIterator
from typing import Unpack

import msgspec

from holdfast.client.dead_letters import failed_jobs
from holdfast.errors import InvalidValue
from holdfast.remote.namespace import RemoteNamespace
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


class RemoteDeadLetters(RemoteNamespace):
    """The dead letters of a server."""

    path = "dead-letters"

    async def list(
        self, *, empty: bool = False, limit: int = 100, after: str | None = None, **which: Unpack[FailedJobs]
    ) -> DeadLetterGroupPage:
        """Read one page of groups, the latest first."""
        return await self._get(DeadLetterGroupPage, **which, empty=empty, limit=limit, after=after)

    async def get(self, group: str) -> DeadLetterGroup:
        """Read one group by its id."""
        return await self._get(DeadLetterGroup, group)

    async def filter(self, group: str | None = None, **which: Unpack[FailedJobs]) -> JobFilter:
        """Make the filter of failed jobs."""
        found = None if group is None else await self.get(group)
        return failed_jobs(found, **which)

    async def preview(self, group: str | None = None, **which: Unpack[FailedJobs]) -> JobCount:
        """Count the failed jobs that a replay or a purge would change now."""
        return await self._get(JobCount, "preview", group=group, **which)

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
        return await self._start("replay", group, DeadLetterRequest(rate=rate, reason=reason, **which), actor)

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
        return await self._start("purge", group, DeadLetterRequest(rate=rate, reason=reason, **which), actor)

    async def export(self, group: str | None = None, **which: Unpack[FailedJobs]) -> AsyncIterator[DeadLetter]:
        """Go through failed jobs, newest first, with their secrets covered."""
        async with self._link.lines(
            self.path, "export", expected="application/x-ndjson", group=group, **which
        ) as lines:
            async for line in lines:
                if line:
                    yield msgspec.json.decode(line, type=DeadLetter)

    async def _start(self, verb: str, group: str | None, chosen: DeadLetterRequest, actor: str | None) -> BulkOperation:
        if group is None:
            return await self._change("POST", BulkOperation, verb, body=chosen, actor=actor)
        if given := [name for name, value in chosen.conditions().items() if value is not None]:
            message = (
                f"{verb}: expected a group or conditions, because a server was named; got both a group and {given[0]}"
            )
            raise InvalidValue(message)
        body = GroupRequest(rate=chosen.rate, reason=chosen.reason)
        return await self._change("POST", BulkOperation, group, verb, body=body, actor=actor)
