"""Makes a changed copy of a finished job."""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from holdfast import names, payload
from holdfast.client.hints import announce_inserted
from holdfast.client.jobs import JobId, JobVerbs
from holdfast.client.repeat import until_answered
from holdfast.config import Settings
from holdfast.context import running_job
from holdfast.delivery.delivery import Delivery
from holdfast.errors import InvalidValue, KeyConflict, RateLimited, UniqueConflict, WrongState, shown
from holdfast.job import Job, NewJob
from holdfast.stores.failures import FailureStore
from holdfast.stores.store import JobStore
from holdfast.stores.values import Insertion
from holdfast.tasks.registry import Registry
from holdfast.telemetry.redaction import COVER

_OF_THE_END = ("traceback", "ended_by", "cancelled_by", "cancel_reason")


class CopiedStore(JobStore, FailureStore, Protocol):
    """What copies need of a store."""


class CloneVerbs(JobVerbs):
    """The verbs that copy jobs, on one store."""

    def __init__(
        self, store: CopiedStore, settings: Settings, delivery: Delivery, tasks: Registry | None = None
    ) -> None:
        JobVerbs.__init__(self, store, settings.deadline_s, delivery)
        self._dead_store = store
        self._dead_settings = settings
        self._known_tasks = Registry() if tasks is None else tasks

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
