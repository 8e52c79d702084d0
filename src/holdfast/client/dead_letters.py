"""What operators do with jobs that have failed: look at groups, replay them, edit one, purge, export.

A group is known by a short id, which is the same as long as kind and error are. Whatever is done to many jobs is a bulk
operation (see `client.bulk`).
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec

from holdfast import names, payload
from holdfast.client.bulk import BulkOperations, LocalBulkOperations
from holdfast.client.hints import announce_inserted
from holdfast.client.jobs import LARGEST_PAGE, JobId, JobVerbs
from holdfast.client.repeat import until_answered
from holdfast.config import Settings
from holdfast.context import running_job
from holdfast.delivery.delivery import Delivery
from holdfast.errors import (
    DeadLetterNotFound,
    InvalidValue,
    KeyConflict,
    RateLimited,
    UniqueConflict,
    WrongState,
    shown,
)
from holdfast.job import Job, JobState, NewJob
from holdfast.resources.bulk import BulkOperation, BulkVerb
from holdfast.stores.bulk import BulkStore
from holdfast.stores.failures import DeadCursor, DeadFilter, DeadLetter, DeadPage, FailureStore, group_id
from holdfast.stores.store import JobStore
from holdfast.stores.values import Insertion, JobFilter
from holdfast.tasks.registry import Registry
from holdfast.telemetry.redaction import COVER, hide

_ID_LENGTH = 12
_OF_THE_END = ("traceback", "ended_by", "cancelled_by", "cancel_reason")


class DeadStore(JobStore, FailureStore, BulkStore, Protocol):
    """What dead letters need of a store."""


class DeadLetterVerbs(JobVerbs):
    """The verbs of dead letters, on one store."""

    def __init__(self, store: DeadStore, settings: Settings, delivery: Delivery, tasks: Registry | None = None) -> None:
        JobVerbs.__init__(self, store, settings.deadline_s, delivery)
        self.bulk: BulkOperations = LocalBulkOperations(store, settings.deadline_s)
        self._dead_store = store
        self._dead_settings = settings
        self._known_tasks = Registry() if tasks is None else tasks

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
        """Read one page of groups of failed jobs, the latest first; with `empty` also those that have no job left.

        `error` is the class of the error, as the groups show it; `since` when the group was last added to.
        """
        names.count(limit, "limit", LARGEST_PAGE)
        which = DeadFilter(
            kinds=_named(kind, "kind"), queues=_named(queue, "queue"), error_class=error, since=since, empty=empty
        )
        return await self._read_groups(which, limit, after)

    async def dead_letter(self, group: str) -> DeadLetter:
        """Read one group by its id."""
        which = DeadFilter(ids=(group_named(group),), empty=True)
        return only_group(await self._read_groups(which, 1, None), group)

    async def dead_jobs(
        self,
        group: str | None = None,
        *,
        kind: str | None = None,
        queue: str | None = None,
        error: str | None = None,
        since: datetime | None = None,
    ) -> JobFilter:
        """Choose failed jobs, for `list` and bulk operations: of a group, or by conditions that must all hold."""
        found = None if group is None else await self.dead_letter(group)
        return failed_jobs(found, kind=kind, queue=queue, error=error, since=since)

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
        """Give failed jobs a new life, as a bulk operation: of a group, or all that fit; one job is `retry`."""
        which = await self.dead_jobs(group, kind=kind, queue=queue, error=error, since=since)
        return await self.bulk.start(BulkVerb.RETRY, which, rate=rate, actor=actor, reason=reason)

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
        """Delete failed jobs, as a bulk operation: of a group, or all that fit; one job is `delete`."""
        which = await self.dead_jobs(group, kind=kind, queue=queue, error=error, since=since)
        return await self.bulk.start(BulkVerb.DELETE, which, rate=rate, actor=actor, reason=reason)

    async def replay_edited(self, job: JobId, changes: Mapping[str, Any], *, actor: str | None = None) -> Job:
        """Enqueue a finished job anew with other arguments, as a new job that names it as its `origin`.

        `changes` are the arguments that differ; an app that knows the task checks them. The old job stays as it is.
        """
        old = await self.get(job)
        arguments = edited(old, changes, self._dead_settings)
        if old.kind in self._known_tasks:
            arguments = self._known_tasks.get(old.kind).arguments.check(arguments)
        return await self.replay_as(old, arguments, actor=actor)

    async def replay_as(self, old: Job, arguments: str, *, actor: str | None = None) -> Job:
        """Enqueue a finished job anew with these arguments, which are JSON and were checked."""
        if not old.is_finished:
            message = f"job {old.public_id}: expected a job that has ended, this one is {old.state}; cancel it first"
            raise WrongState(message)
        deadline_s = self._dead_settings.deadline_s
        (new_id,) = await until_answered(lambda _: self._dead_store.take_ids(1), deadline_s, "replay", changes=False)
        new = _successor(old, new_id, arguments, actor)
        inserted = await until_answered(
            lambda again: self._dead_store.insert_replay(new, old.id, again=again), deadline_s, "replay"
        )
        if inserted.outcome is Insertion.EXISTING:
            message = f"job {old.public_id}: another live job holds its unique key; wait for it or cancel it first"
            raise UniqueConflict(message, inserted.id)
        if inserted.outcome is Insertion.CONFLICT:
            message = f"job {old.public_id}: its key is in use for another request"
            raise KeyConflict(message)
        if inserted.refusal is not None:
            limit, wait_ms = inserted.refusal.limit, inserted.refusal.retry_ms
            message = f"job {old.public_id}: the rate limit {limit!r} lets no more in at present; replay it later"
            raise RateLimited(message, limit, inserted.refusal.key, None if wait_ms is None else wait_ms / 1_000)
        announce_inserted(self.delivery, [new], [inserted])
        return await self.get(new_id)

    async def export_dead_letters(self, which: JobFilter) -> AsyncIterator[dict[str, Any]]:
        """Go through failed jobs as plain values, one JSON object each, with secrets blanked.

        `which` comes from `dead_jobs`.
        """
        async for job in self.iterate(which):
            yield exported(job)

    async def _read_groups(self, which: DeadFilter, limit: int, after: DeadCursor | None) -> DeadPage:
        return await until_answered(
            lambda _: self._dead_store.list_dead_letters(which, limit=limit, after=after),
            self._dead_settings.deadline_s,
            "dead letters",
            changes=False,
        )


def edited(old: Job, changes: Mapping[str, Any], settings: Settings) -> str:
    """Write the arguments of a job with some of them changed."""
    given = old.payload
    if not isinstance(given, dict):
        message = f"job {old.public_id}: expected arguments by name, got {shown(given)}"
        raise InvalidValue(message)
    kept = {name: _keeping(value, given.get(name)) for name, value in changes.items()}
    return payload.encode(given | kept, old.kind, most_bytes=settings.max_payload, most_depth=settings.max_depth)


def _keeping(new: Any, old: Any) -> Any:
    """What was secret stays so, however deep and whoever changes it; where its cover was left, it stays as it was."""
    if isinstance(new, str) and payload.secrets_in({"old": old}):
        return old if new == COVER else {payload.SECRET: new}
    if isinstance(new, dict) and isinstance(old, dict):
        return {key: _keeping(value, old.get(key)) for key, value in new.items()}
    if isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        return [_keeping(*pair) for pair in zip(new, old, strict=True)]
    return new


def _successor(old: Job, new_id: int, arguments: str, actor: str | None) -> NewJob:
    """Make the job that stands for a finished one: treated as that was, its keys included where they stay true."""
    extra = {name: value for name, value in old.extra.items() if name not in _OF_THE_END}
    return NewJob(
        id=new_id,
        kind=old.kind,
        queue=old.queue,
        priority=old.priority,
        payload=arguments,
        unique=old.unique_key,
        max_attempts=old.max_attempts,
        max_crashes=old.max_crashes,
        timeout_ms=old.timeout_ms,
        tags=old.tags or None,
        actor=old.actor if actor is None else names.text(actor, "actor", names.ACTOR_BYTES),
        extra=msgspec.json.encode(extra).decode() if extra else None,
        parent=running_job.get(),
    )


def exported(job: Job) -> dict[str, Any]:
    """Describe a failed job with everything that helps to find out why, and nothing that is secret."""
    secrets = payload.secrets_in(job.payload) if isinstance(job.payload, dict) else []
    return {
        "id": str(job.id),
        "public_id": job.public_id,
        "group": group_id(job.kind, job.error_fingerprint or ""),
        "kind": job.kind,
        "queue": job.queue,
        "priority": job.priority,
        "payload": payload.covered(job.payload),  # guard: exported-payload, without: "payload": job.payload,
        "tags": job.tags,
        "actor": job.actor,
        "life": job.life,
        "attempt": job.attempt,
        "max_attempts": job.max_attempts,
        "crashes": job.crashes,
        "enqueued_at": job.enqueued_at,
        "finished_at": job.finished_at,
        "error_class": job.error_class,
        "error": without_secrets(job.error, secrets),  # guard: exported-error, without: "error": job.error,
        # guard: exported-fingerprint, without: "error_fingerprint": job.error_fingerprint,
        "error_fingerprint": without_secrets(job.error_fingerprint, secrets),
        # guard: exported-traceback, without: "traceback": job.extra.get("traceback"),
        "traceback": without_secrets(job.extra.get("traceback"), secrets),
    }


def without_secrets(text: str | None, secrets: Sequence[str]) -> str | None:
    """Cover what the arguments or the settings say is secret, where an error quotes it."""
    if text is None:
        return None
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, COVER) if secret else text
    return hide(text)


def failed_jobs(
    group: DeadLetter | None, *, kind: str | None, queue: str | None, error: str | None, since: datetime | None
) -> JobFilter:
    """Choose failed jobs of a group, if there is one, for which all conditions hold."""
    chosen = JobFilter(
        states=(JobState.FAILED,),
        kinds=_named(kind, "kind"),
        queues=_named(queue, "queue"),
        error_class=error,
        finished_from=since,
    )
    if group is None:
        return chosen
    if kind is not None and chosen.kinds != (group.kind,):
        message = f"kind: expected {group.kind}, which is that of group {group.id}, or none, got {shown(kind)}"
        raise InvalidValue(message)
    return msgspec.structs.replace(chosen, kinds=(group.kind,), fingerprint=group.fingerprint)


def _named(name: str | None, what: str) -> tuple[str, ...]:
    return () if name is None else (names.name(name, what),)


def group_named(group: str) -> str:
    """Check the id of a group."""
    if not isinstance(group, str) or len(group) != _ID_LENGTH or group.strip("0123456789abcdef"):
        message = (
            f"group: expected twelve digits like 3f9a0c71be42, as `holdfast dlq list` shows them, got {shown(group)}"
        )
        raise InvalidValue(message)
    return group


def only_group(found: DeadPage, group: str) -> DeadLetter:
    """Give the group that was looked for by its id."""
    if not found.groups:
        message = f"dead letters {group}: there is no such group; list them with `holdfast dlq list`"
        raise DeadLetterNotFound(message)
    return found.groups[0]
