"""Clones a finished job: a changed copy, which names it as its origin."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec

from holdfast import names, payload
from holdfast.client.hints import announce_inserted
from holdfast.client.repeat import until_answered
from holdfast.config import Settings
from holdfast.context import running_job
from holdfast.delivery.delivery import Delivery
from holdfast.errors import InvalidValue, KeyConflict, RateLimited, UniqueConflict, WrongState, shown
from holdfast.job import JobRow, NewJob
from holdfast.stores.failures import FailureStore
from holdfast.stores.store import JobStore
from holdfast.stores.values import Inserted, Insertion
from holdfast.telemetry.redaction import COVER

Check = Callable[[str, str], Awaitable[str]]
"""Checks the arguments, which are JSON, of a kind; the answer is what is stored."""

_OF_THE_END = ("traceback", "ended_by", "cancelled_by", "cancel_reason")


class CloneStore(JobStore, FailureStore, Protocol):
    """What a clone needs of a store."""


class Cloner:
    """Makes changed copies of jobs, on one store."""

    def __init__(self, store: CloneStore, settings: Settings, delivery: Delivery) -> None:
        self._store = store
        self._settings = settings
        self._delivery = delivery

    async def clone(self, old: JobRow, changes: Mapping[str, Any], actor: str | None, check: Check) -> int:
        """Enqueue a changed copy of a finished job; the answer is its id."""
        arguments = await check(old.kind, _changed(old, changes, self._settings))
        if not old.is_finished:
            message = f"job {old.public_id}: expected a job that has finished, this one is {old.state}; cancel it first"
            raise WrongState(message)
        deadline_s = self._settings.deadline_s
        (new_id,) = await until_answered(lambda _: self._store.take_ids(1), deadline_s, "clone", changes=False)
        new = _successor(old, new_id, arguments, actor)
        inserted = await until_answered(
            lambda again: self._store.insert_replay(new, old.id, again=again), deadline_s, "clone"
        )
        _require_inserted(old, inserted)
        announce_inserted(self._delivery, [new], [inserted])
        return new_id


def _require_inserted(old: JobRow, inserted: Inserted) -> None:
    if inserted.outcome is Insertion.EXISTING:
        message = f"job {old.public_id}: another live job holds its unique key; wait for it or cancel it first"
        raise UniqueConflict(message, inserted.id)
    if inserted.outcome is Insertion.CONFLICT:
        message = f"job {old.public_id}: its key is in use for another request"
        raise KeyConflict(message)
    if inserted.refusal is not None:
        limit, wait_ms = inserted.refusal.limit, inserted.refusal.retry_ms
        message = f"job {old.public_id}: the rate limit {limit!r} lets no more in at present; clone it later"
        raise RateLimited(message, limit, inserted.refusal.key, None if wait_ms is None else wait_ms / 1_000)


def _changed(old: JobRow, changes: Mapping[str, Any], settings: Settings) -> str:
    """Write the arguments of a job with some of them changed."""
    given = old.payload
    if not isinstance(given, dict):
        message = f"job {old.public_id}: expected arguments by name, got {shown(given)}"
        raise InvalidValue(message)
    kept = {name: _keeping(value, given.get(name)) for name, value in changes.items()}
    return payload.encode(given | kept, old.kind, most_bytes=settings.max_args_bytes, most_depth=settings.max_depth)


def _keeping(new: Any, old: Any) -> Any:
    """What was secret stays so, whoever changes it; where its cover was left, it stays as it was."""
    if isinstance(new, str) and payload.secrets_in({"old": old}):
        return old if new == COVER else {payload.SECRET: new}
    if isinstance(new, dict) and isinstance(old, dict):
        return {key: _keeping(value, old.get(key)) for key, value in new.items()}
    if isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        return [_keeping(*pair) for pair in zip(new, old, strict=True)]
    return new


def _successor(old: JobRow, new_id: int, arguments: str, actor: str | None) -> NewJob:
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
