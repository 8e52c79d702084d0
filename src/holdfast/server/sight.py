"""What one person can see: everything of the client, narrowed to the queues they may know of."""

import secrets
from collections.abc import Sequence

import msgspec

from holdfast.client.client import Client
from holdfast.client.jobs import missing
from holdfast.errors import JobNotFound, UniqueConflict
from holdfast.job import Job, JobState
from holdfast.server.kinds import KindRegistry
from holdfast.server.principal import Principal
from holdfast.server.problems import not_found
from holdfast.server.scoped.audit import ScopedAudit
from holdfast.server.scoped.budgets import ScopedBudgets
from holdfast.server.scoped.bulk import ScopedBulkOperations
from holdfast.server.scoped.dead_letters import ScopedDeadLetters
from holdfast.server.scoped.escalations import ScopedEscalations
from holdfast.server.scoped.kinds import ScopedKinds
from holdfast.server.scoped.limits import ScopedLimits
from holdfast.server.scoped.locks import ScopedLocks
from holdfast.server.scoped.queues import ScopedQueues
from holdfast.server.scoped.schedules import ScopedSchedules
from holdfast.server.scoped.tokens import ScopedTokens
from holdfast.server.scoped.workers import ScopedWorkers
from holdfast.server.served import Opened
from holdfast.stores.store import Store
from holdfast.stores.values import Found, JobFilter
from holdfast.why import Why

NOWHERE = secrets.token_hex(32)  # the name of no queue: nobody can know it


class Sight:
    """The client, as far as one person may look."""

    def __init__(self, opened: Opened, principal: Principal, kinds: KindRegistry) -> None:
        self.client: Client = opened.client
        self.store: Store = opened.store
        self.principal = principal
        self.budgets = ScopedBudgets(self.client.budgets, principal)
        self.limits = ScopedLimits(self.client, principal)
        self.locks = ScopedLocks(self.client, principal)
        self.queues = ScopedQueues(self.client.queues, principal)
        self.escalations = ScopedEscalations(self.client.escalations, self.client.get_many, principal)
        self.bulk = ScopedBulkOperations(self.client.bulk, self.store, self.asked, principal)
        self.dead_letters = ScopedDeadLetters(self.client, self.bulk, principal, self.among)
        self.webhooks = self.client.webhooks  # only those who may see all queues get to its routes
        self.kinds = ScopedKinds(kinds, self.store, principal)
        self.services = self.client.services  # of all queues: their routes are closed to callers who see only some
        self.tokens = ScopedTokens(self.store, principal)
        self.audit = ScopedAudit(self.store, principal)
        self.workers = ScopedWorkers(self.client, principal)
        self.schedules = ScopedSchedules(self.client.schedules, principal)

    async def job(self, job: str) -> Job:
        """Read a job; one in a queue that is not theirs is not there."""
        found = await self.client.get(job)
        if not self.principal.sees(found.queue):  # guard: scope-job
            raise JobNotFound(missing(found.id))  # in the words of one that is not there
        return (await self._without_strangers([found]))[0]

    async def search(self, which: JobFilter, *, limit: int, after: str | None = None) -> Found:
        """Find the newest jobs that fit and that they may see."""
        found = await self.client.search(await self.asked(which), limit=limit, after=after)
        return msgspec.structs.replace(found, jobs=await self._without_strangers(found.jobs))

    async def _without_strangers(self, jobs: Sequence[Job]) -> list[Job]:
        """Leave out where jobs came of if that is in queues that are not theirs, or gone: nobody knows where it was."""
        named = {other for job in jobs for other in (job.parent, job.origin) if other is not None}
        if self.principal.queues is None or not named:
            return list(jobs)
        there = await self.client.get_many(sorted(named))
        sees = self.principal.sees
        known = {one.id for one in there.values() if sees(one.queue)}  # guard: scope-origins, without: known = named

        def seen(other: int | None) -> int | None:
            return other if other in known else None

        return [msgspec.structs.replace(job, parent=seen(job.parent), origin=seen(job.origin)) for job in jobs]

    async def retry(self, job: Job, *, from_phase: str | None = None) -> JobState:
        """Give a job a new life; one of other queues that stands in its way is not named."""
        try:
            return await self.client.retry(job.id, from_phase=from_phase)
        except UniqueConflict as conflict:
            if self.principal.queues is None or conflict.job_id is None:
                raise
            other = (await self.client.get_many([conflict.job_id])).get(conflict.job_id)
            if other is not None and self.principal.sees(other.queue):
                raise
            message = f"retry {job.public_id}: another job is live and holds its unique key; wait for that one"
            raise UniqueConflict(message) from None  # guard: scope-unique, without: raise

    async def why(self, job: Job) -> Why:
        """Say why a job stands where it stands; other jobs are named to those who may see all."""
        names_others = self.principal.queues is None  # guard: scope-why, without: names_others = True
        return await self.client.why(job.id, naming=names_others)

    def require_queue(self, queue: str) -> None:
        """Refuse a queue that is not theirs, as one that is not there."""
        if not self.principal.sees(queue):  # guard: scope-queue
            raise not_found("queue", queue)

    def narrowed(self, which: JobFilter) -> JobFilter:
        """Let a list show what they may see."""
        return msgspec.structs.replace(which, queues=self.among(which.queues))

    async def asked(self, which: JobFilter) -> JobFilter:
        """Let a filter of theirs find what they may see, and nothing by naming a job that they may not.

        Of what came of such a job they are not told, so that it did must not be found out by trying ids.
        """
        named = [other for other in (which.parent, which.origin) if other is not None]
        if self.principal.queues is None or not named:
            return self.narrowed(which)
        there = await self.client.get_many(named)
        is_theirs = all(other in there and self.principal.sees(there[other].queue) for other in named)
        if not is_theirs:  # guard: scope-kinship
            return msgspec.structs.replace(which, queues=(NOWHERE,))
        return self.narrowed(which)

    def among(self, asked: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Narrow the queues that were asked for, which are all where none is named, to those that they may see."""
        mine = self.principal.queues  # guard: scope-filters, without: mine = None
        if mine is None:
            return asked
        wanted = tuple(queue for queue in asked if queue in mine) if asked else tuple(sorted(mine))
        return wanted or (NOWHERE,)
