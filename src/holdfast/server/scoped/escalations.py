"""Escalations, as far as one caller may see them."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime

from holdfast import names
from holdfast.client.escalations import Escalations, missing_escalation
from holdfast.client.jobs import LARGEST_PAGE
from holdfast.duration import Duration
from holdfast.errors import EscalationNotFound, shown
from holdfast.resources.escalation import EscalationDetail, EscalationInfo, EscalationPage, PolicyTest
from holdfast.resources.job import Job
from holdfast.server.principal import Principal
from holdfast.server.scoped.scope import Scope

List = list  # one of the verbs has that name

ReadJobs = Callable[[Sequence[str]], Awaitable[dict[str, Job]]]


class ScopedEscalations(Scope):
    """The escalations of one caller's queues, without the jobs of other queues that failed alike."""

    def __init__(self, escalations: Escalations, read_jobs: ReadJobs, principal: Principal) -> None:
        super().__init__(principal)
        self._escalations = escalations
        self._read_jobs = read_jobs

    async def list(
        self,
        *,
        is_open: bool | None = None,
        policy: str | None = None,
        limit: int = 100,
        before: int | str | None = None,
    ) -> EscalationPage:
        """Read a page of escalations, and leave out those of other queues."""
        page = await self._escalations.list(is_open=is_open, policy=policy, limit=limit, before=before)
        return replace(page, escalations=await self._narrowed(page.escalations))

    async def get(self, number: int | str) -> EscalationDetail:
        """Read one escalation and the notices about it; one of another queue is not there."""
        detail = await self._escalations.get(number)
        mine = await self._narrowed([detail.escalation])
        if not mine:  # guard: scope-escalation, without: if not (mine := mine or [detail.escalation]):
            raise missing_escalation(names.number(number, "escalation"))
        return replace(detail, escalation=mine[0])

    async def ack(self, number: int | str, *, actor: str | None = None, note: str | None = None) -> EscalationInfo:
        """Acknowledge an escalation, which closes it."""
        await self.get(number)
        await self._escalations.ack(number, actor=self.acting(actor), note=note)
        return (await self.get(number)).escalation

    async def snooze(
        self,
        number: int | str,
        *,
        until: datetime | None = None,
        lasts: Duration | None = None,
        actor: str | None = None,
    ) -> EscalationInfo:
        """Send no notice of an open escalation until a time."""
        await self.get(number)
        await self._escalations.snooze(number, until=until, lasts=lasts, actor=self.acting(actor))
        return (await self.get(number)).escalation

    async def test(self, policy: str) -> PolicyTest:
        """Send a test notice through every channel of a policy, which concerns all queues."""
        if self._principal.queues is not None:
            message = f"there is no escalation policy {shown(policy)}"
            raise EscalationNotFound(message)
        return await self._escalations.test(policy)

    async def _narrowed(self, escalations: Sequence[EscalationInfo]) -> List[EscalationInfo]:
        if self._principal.queues is None:
            return list(escalations)
        mine = [escalation for escalation in escalations if self.sees(escalation.queue)]
        ids = list(dict.fromkeys(job for escalation in mine for job in escalation.jobs))
        known: dict[str, Job] = {}
        for start in range(0, len(ids), LARGEST_PAGE):
            known |= await self._read_jobs(ids[start : start + LARGEST_PAGE])
        return [self._without_others(escalation, known) for escalation in mine]

    def _without_others(self, escalation: EscalationInfo, known: dict[str, Job]) -> EscalationInfo:
        others = {job for job in escalation.jobs if job in known and not self.sees(known[job].queue)}
        if not others:
            return escalation
        # A caller who may not see the others does not learn how many there were: the count is that of the jobs left.
        mine = [job for job in escalation.jobs if job not in others]
        ends = [end for job in mine if job in known and (end := known[job].finished_at) is not None]
        first_at = min(ends, default=escalation.last_at)
        return replace(escalation, jobs=mine, count=max(len(mine), 1), first_at=first_at)
