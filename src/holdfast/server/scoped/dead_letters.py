"""Dead letters, as far as one caller may see them."""

from collections.abc import Callable
from typing import Unpack

import msgspec

from holdfast.client.bulk import BulkOperations
from holdfast.client.client import LocalClient
from holdfast.client.dead_letters import (
    LocalDeadLetters,
    failed_groups,
    failed_jobs,
    group_named,
    group_page,
    only_group,
    read_cursor,
)
from holdfast.resources.dead_letter import DeadLetterGroup, DeadLetterGroupPage, FailedJobs
from holdfast.server.principal import Principal
from holdfast.server.scoped.scope import Scope
from holdfast.stores.failures import DeadFilter
from holdfast.stores.values import JobFilter

Among = Callable[[tuple[str, ...]], tuple[str, ...]]


class ScopedDeadLetters(Scope, LocalDeadLetters):
    """The dead letters of one caller's queues; a group is what it is in those queues, in each of its numbers."""

    def __init__(self, client: LocalClient, bulk: BulkOperations, principal: Principal, among: Among) -> None:
        Scope.__init__(self, principal)
        LocalDeadLetters.__init__(self, client.store, client.deadline_s, bulk, client.jobs)
        self._among = among

    async def list(
        self, *, empty: bool = False, limit: int = 100, after: str | None = None, **which: Unpack[FailedJobs]
    ) -> DeadLetterGroupPage:
        """Read one page of groups, the latest first."""
        groups = failed_groups(empty=empty, **which)
        queues = tuple(map(self.require, groups.queues)) or self._among(())
        return group_page(await self._read(msgspec.structs.replace(groups, queues=queues), limit, read_cursor(after)))

    async def get(self, group: str) -> DeadLetterGroup:
        """Read one group by its id."""
        which = DeadFilter(ids=(group_named(group),), queues=self._among(()), empty=True)
        return only_group(await self._read(which, 1, None), group)

    async def filter(self, group: str | None = None, **which: Unpack[FailedJobs]) -> JobFilter:
        """Make the filter of failed jobs of the caller's queues."""
        found = None if group is None else await self.get(group)
        jobs = failed_jobs(found, **which)
        return msgspec.structs.replace(jobs, queues=self._among(jobs.queues))
