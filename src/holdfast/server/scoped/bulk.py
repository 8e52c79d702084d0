"""Bulk operations, as far as one caller may see them."""

from collections.abc import Awaitable, Callable
from datetime import datetime

from holdfast import names
from holdfast.client.bulk import MOST_OPERATIONS, BulkOperations, List, changeable, missing_operation
from holdfast.duration import Duration
from holdfast.resources.bulk import BulkOperation
from holdfast.resources.queue import JobCount
from holdfast.server.principal import Principal
from holdfast.server.scoped.scope import Scope
from holdfast.stores.bulk import COUNT_CAP
from holdfast.stores.searching import SearchStore
from holdfast.stores.values import JobFilter

COUNTING_MS = 1_000

Narrow = Callable[[JobFilter], Awaitable[JobFilter]]


class ScopedBulkOperations(Scope):
    """The bulk operations on jobs of one caller's queues; a caller cannot change jobs of other queues."""

    def __init__(self, bulk: BulkOperations, store: SearchStore, narrow: Narrow, principal: Principal) -> None:
        super().__init__(principal)
        self._bulk = bulk
        self._store = store
        self._narrow = narrow

    async def preview(self, verb: str, which: JobFilter) -> JobCount:
        """Count the jobs that an operation would change now, for at most a second.

        A caller who may only look must not keep the database busy: a search for words goes through all jobs.
        """
        chosen = changeable(verb, await self._narrow(which))
        counted = await self._store.count_found(chosen, most=COUNT_CAP, budget_ms=COUNTING_MS)
        return JobCount(jobs=min(counted.jobs, COUNT_CAP - 1), capped=counted.capped)

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
        return await self._bulk.start(
            verb,
            await self._narrow(which),
            rate=rate,
            priority=priority,
            run_at=run_at,
            delay=delay,
            actor=self.acting(actor),
            reason=reason,
        )

    async def list(self, limit: int = 100) -> List[BulkOperation]:
        """Read the operations of the last 30 days, newest first."""
        operations = await self._bulk.list(limit if self._principal.queues is None else MOST_OPERATIONS)
        return [operation for operation in operations if self._sees(operation)][:limit]

    async def get(self, number: int | str) -> BulkOperation:
        """Read one operation; one that changes jobs of other queues is not there."""
        operation = await self._bulk.get(number)
        if not self._sees(operation):  # guard: scope-run
            raise missing_operation(names.number(number, "bulk operation"))
        return operation

    async def pause(self, number: int | str) -> BulkOperation:
        """Pause an operation after the batch that it is at."""
        return await self._bulk.pause((await self.get(number)).id)

    async def resume(self, number: int | str) -> BulkOperation:
        """Let a paused operation go on where it was."""
        return await self._bulk.resume((await self.get(number)).id)

    async def cancel(self, number: int | str) -> BulkOperation:
        """End an operation after the batch that it is at."""
        return await self._bulk.cancel((await self.get(number)).id)

    def _sees(self, operation: BulkOperation) -> bool:
        """Whether the caller may see all its jobs."""
        if self._principal.queues is None:
            return True
        queues = operation.which.get("queues", ())
        return bool(queues) and all(self.sees(queue) for queue in queues)
