"""Bulk operations, over HTTP."""

from datetime import datetime

from holdfast.client.bulk import List
from holdfast.duration import Duration, milliseconds
from holdfast.remote import filters
from holdfast.remote.namespace import RemoteNamespace
from holdfast.resources.bulk import BulkOperation, BulkOperationList, BulkPreviewRequest, BulkRequest, BulkVerb
from holdfast.resources.queue import JobCount
from holdfast.stores.values import JobFilter


class RemoteBulkOperations(RemoteNamespace):
    """The bulk operations of a server."""

    path = "bulk"

    async def preview(self, verb: str, which: JobFilter) -> JobCount:
        """Count the jobs that an operation would change now."""
        body = BulkPreviewRequest(verb=BulkVerb(verb), q=filters.written(which))
        return await self._change("POST", JobCount, "preview", body=body)

    async def start(
        self,
        verb: str,
        which: JobFilter,
        *,
        rate: str | None = None,
        priority: int | None = None,
        run_at: datetime | None = None,
        delay: Duration | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> BulkOperation:
        """Retry, delete, cancel, reprioritise or reschedule all jobs that fit."""
        body = BulkRequest(
            verb=BulkVerb(verb),
            q=filters.written(which),
            priority=priority,
            run_at=run_at,
            delay=None if delay is None else milliseconds(delay, "delay") / 1_000,
            rate=rate,
            reason=reason,
        )
        return await self._change("POST", BulkOperation, body=body, actor=actor)

    async def list(self, limit: int = 100) -> List[BulkOperation]:
        """Read the operations of the last 30 days, newest first."""
        return (await self._get(BulkOperationList, limit=limit)).operations

    async def get(self, number: int | str) -> BulkOperation:
        """Read one operation."""
        return await self._get(BulkOperation, number)

    async def pause(self, number: int | str) -> BulkOperation:
        """Pause an operation."""
        return await self._change("POST", BulkOperation, number, "pause")

    async def resume(self, number: int | str) -> BulkOperation:
        """Let a paused operation go on."""
        return await self._change("POST", BulkOperation, number, "resume")

    async def cancel(self, number: int | str) -> BulkOperation:
        """End an operation."""
        return await self._change("POST", BulkOperation, number, "cancel")
