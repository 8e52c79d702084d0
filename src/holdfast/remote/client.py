"""The verbs of a client that commands use, each a request to a server; the answers are the same values."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any, NoReturn

from holdfast import public_id
from holdfast.client.client import end_of
from holdfast.client.jobs import EVERY_JOB
from holdfast.duration import Duration, milliseconds
from holdfast.errors import (
    InvalidValue,
    JobNotFound,
    UniqueConflict,
    UnknownKind,
    WrongState,
)
from holdfast.events import TERMINAL_EVENTS, Event
from holdfast.job import Job, JobState
from holdfast.remote import filters, shapes
from holdfast.remote.audit import RemoteAudit
from holdfast.remote.budgets import RemoteBudgets
from holdfast.remote.bulk import RemoteBulkOperations
from holdfast.remote.dead_letters import RemoteDeadLetters
from holdfast.remote.escalations import RemoteEscalations
from holdfast.remote.kinds import RemoteKinds
from holdfast.remote.limits import RemoteLimits
from holdfast.remote.link import Link, refuse_actor
from holdfast.remote.locks import RemoteLocks
from holdfast.remote.policies import RemotePolicies
from holdfast.remote.queues import RemoteQueues
from holdfast.remote.schedules import RemoteSchedules
from holdfast.remote.services import RemoteServices
from holdfast.remote.stream import RemoteEvents
from holdfast.remote.tokens import RemoteTokens
from holdfast.remote.webhooks import RemoteWebhooks
from holdfast.remote.workers import RemoteWorkers
from holdfast.stores.values import Answer, Answered, Cursor, Found, JobFilter, Page
from holdfast.why import Reason, Why

_AT_ONCE = 8
_WHOLE = 100  # jobs of one page
_Id = int | str
List = list  # one of the verbs has that name


class RemoteClient(RemotePolicies):
    """What commands ask of a client, asked of a server.

    A verb that is not here needs the database itself, and says so.
    """

    def __init__(self, link: Link) -> None:
        self.link = link
        self._places = asyncio.Semaphore(_AT_ONCE)
        self.budgets = RemoteBudgets(link)
        self.limits = RemoteLimits(link)
        self.locks = RemoteLocks(link)
        self.queues = RemoteQueues(link)
        self.webhooks = RemoteWebhooks(link)
        self.kinds = RemoteKinds(link)
        self.services = RemoteServices(link)
        self.tokens = RemoteTokens(link)
        self.audit = RemoteAudit(link)
        self.workers = RemoteWorkers(link)
        self.escalations = RemoteEscalations(link)
        self.bulk = RemoteBulkOperations(link)
        self.schedules = RemoteSchedules(link)
        self.dead_letters = RemoteDeadLetters(link)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        message = f"{name}: this needs the database, and a server was named; run it where the database can be reached,"
        message += " with -A module:app or --store URL"
        raise InvalidValue(message)

    def now(self) -> datetime:
        """What time the server had when it answered last."""
        return self.link.asked_at or datetime.now(UTC)

    # ---- jobs ------------------------------------------------------------------------------------------------------

    async def enqueue_as(self, kind: str, body: dict[str, Any]) -> tuple[Job, bool]:
        """Store one job; False when it was there already."""
        told, status = await self.link.post_for_status("jobs", body={"kind": kind, **body})
        return shapes.job(told), status == 201  # noqa: PLR2004 - created, as HTTP has it

    async def schema_of(self, kind: str) -> dict[str, Any]:
        """Read the JSON Schema of the arguments of a kind; one that nobody has published takes anything."""
        try:
            return (await self.kinds.get(kind)).args_schema
        except UnknownKind:
            return {}

    async def get(self, job: _Id) -> Job:
        """Read one job, with what it has logged and its items."""
        shown = _shown(job)
        told = await self.link.get("jobs", shown)
        logs = (await self.link.get("jobs", shown, "logs"))["logs"]
        items = (await self.link.get("jobs", shown, "items", limit=1_000))["items"] if told["items"] else []
        return shapes.job(told, logs, items)

    async def get_many(self, jobs: Sequence[_Id]) -> dict[int, Job]:
        """Read several; those that are not there are left out."""

        async def read(job: _Id) -> Job | None:
            async with self._places:
                try:
                    return shapes.job(await self.link.get("jobs", _shown(job)))
                except JobNotFound:
                    return None

        found = await asyncio.gather(*(read(job) for job in jobs))
        return {job.id: job for job in found if job is not None}

    async def list(self, which: JobFilter = EVERY_JOB, *, limit: int = 100, after: Cursor | None = None) -> Page:
        """Read one page, newest first."""
        told = await self._page(which, limit, after)
        return Page([shapes.job(job) for job in told["jobs"]], _cursor(told["next"]))

    async def search(self, which: JobFilter = EVERY_JOB, *, limit: int = 100, after: Cursor | None = None) -> Found:
        """Find jobs, newest first, also by arguments and texts; one that takes long ends early."""
        told = await self._page(which, limit, after)
        jobs, back_to = [shapes.job(job) for job in told["jobs"]], shapes.moment(told["searched_to"])
        return Found(jobs, _cursor(told["next"]), back_to, back_to is None)

    async def _page(self, which: JobFilter, limit: int, after: Cursor | None) -> dict[str, Any]:
        """Read whole jobs; a server gives no more than so many of them at once."""
        asked = {"q": filters.written(which) or None, "whole": True}
        told: dict[str, Any] = {"jobs": [], "next": _cursor_text(after), "searched_to": None}
        while len(told["jobs"]) < limit:
            size = min(limit - len(told["jobs"]), _WHOLE)
            page = await self.link.get("jobs", **asked, limit=size, after=told["next"])
            told = {**page, "jobs": [*told["jobs"], *page["jobs"]]}
            if told["next"] is None or told["searched_to"] is not None:
                break
        return told

    async def why(self, job: _Id) -> Why:
        """Say why a job stands where it stands."""
        told = await self.link.get("jobs", _shown(job), "why")
        return Why(Reason(told["reason"]), told["sentence"], told["details"])

    async def cancel_many(
        self, jobs: Sequence[_Id], *, actor: str | None = None, reason: str | None = None
    ) -> "List[Answered]":
        """Cancel jobs."""
        refuse_actor(actor)
        return [await self._act("cancel", job, {"reason": reason}) for job in jobs]

    async def retry_many(self, jobs: Sequence[_Id], *, from_phase: str | None = None) -> "List[Answered]":
        """Give finished jobs a new life."""
        return [await self._act("retry", job, {"from_phase": from_phase}) for job in jobs]

    async def delete_many(self, jobs: Sequence[_Id]) -> "List[Answered]":
        """Delete finished jobs."""
        return [await self._act("delete", job, {}) for job in jobs]

    async def reschedule_many(
        self, jobs: Sequence[_Id], *, run_at: datetime | None = None, run_in: Duration | None = None
    ) -> "List[Answered]":
        """Set when waiting jobs are due."""
        body = {"run_at": run_at, "delay": run_in if run_in is None else milliseconds(run_in) / 1_000}
        return [await self._act("reschedule", job, body) for job in jobs]

    async def reprioritise_many(self, jobs: Sequence[_Id], priority: int) -> "List[Answered]":
        """Move waiting jobs to another priority."""
        return [await self._act("reprioritise", job, {"priority": priority}) for job in jobs]

    async def replay_edited(self, job: _Id, changes: dict[str, Any], *, actor: str | None = None) -> Job:
        """Enqueue a finished job anew with other arguments."""
        refuse_actor(actor)
        return shapes.job(await self.link.post("jobs", _shown(job), "replay", body={"args": changes}))

    async def _act(self, verb: str, job: _Id, body: dict[str, Any]) -> Answered:
        """Act on one job; a refusal is an answer too, so that the next one has its turn."""
        shown, number = _shown(job), public_id.decode(_shown(job))
        try:
            if verb == "delete":
                await self.link.delete("jobs", shown)
                return Answered(number, Answer.DONE, None)
            state = JobState((await self.link.post("jobs", shown, verb, body=body))["state"])
        except JobNotFound:
            return Answered(number, Answer.NOT_FOUND, None)
        except UniqueConflict:
            return Answered(number, Answer.UNIQUE_CLASH, None)
        except WrongState:
            return Answered(number, Answer.WRONG_STATE, JobState((await self.link.get("jobs", shown))["state"]))
        is_told = verb == "cancel" and state is JobState.RUNNING
        return Answered(number, Answer.REQUESTED if is_told else Answer.DONE, state)

    def events(
        self,
        *,
        kinds: Iterable[str] = (),
        queues: Iterable[str] = (),
        tasks: Iterable[str] = (),
        jobs: Iterable[_Id] = (),
    ) -> AbstractAsyncContextManager["AsyncIterator[Event]"]:
        """Hear of what happens from the moment the block is entered."""
        wanted = frozenset(_shown(job) for job in jobs)
        return RemoteEvents(self.link, tuple(kinds), tuple(queues), frozenset(map(str.lower, tasks)), wanted)

    async def watch(self, job: _Id) -> AsyncIterator[Event]:
        """Follow one job to the end of its life; of one that has ended, there is only its end."""
        shown = _shown(job)
        async with RemoteEvents(self.link, (), (), frozenset(), frozenset({shown})) as events:
            seen = shapes.job(await self.link.get("jobs", shown))
            if seen.is_finished:
                yield end_of(seen)
                return
            async for event in events:
                yield event
                if event.kind in TERMINAL_EVENTS and event.life >= seen.life:
                    return


def _shown(job: _Id) -> str:
    return public_id.encode(job) if isinstance(job, int) else job


def _cursor_text(cursor: Cursor | None) -> str | None:
    return None if cursor is None else f"{cursor.enqueued_at.isoformat()}/{public_id.encode(cursor.id)}"


def _cursor(text: str | None) -> Cursor | None:
    if text is None:
        return None
    at, _, job = text.partition("/")
    return Cursor(shapes.instant(at), public_id.decode(job))
