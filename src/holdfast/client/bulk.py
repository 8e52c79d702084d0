"""Bulk operations: one change to many jobs, which the services make batch by batch."""

import secrets
from datetime import datetime
from typing import Any, Protocol

import msgspec

from holdfast import names, public_id
from holdfast.client.jobs import checked_actor, checked_reason, stored_filter
from holdfast.client.repeat import until_answered
from holdfast.duration import Duration, milliseconds
from holdfast.errors import BulkNotFound, InvalidValue, WrongState, shown
from holdfast.job import JobState
from holdfast.policies.rate import read_rate
from holdfast.resources.bulk import BulkOperation, BulkState, BulkVerb
from holdfast.resources.queue import JobCount
from holdfast.stores.bulk import COUNT_CAP, TAKES, BulkOperationRow, BulkStore, Due, NewBulk
from holdfast.stores.values import JobFilter
from holdfast.tasks.options import due_time

List = list  # one of the verbs has that name

MOST_OPERATIONS = 1_000
_SECOND_US = 1_000_000


class BulkOperations(Protocol):
    """What can be asked of bulk operations, and done with them; each is named by its number."""

    async def preview(self, verb: str, which: JobFilter) -> JobCount:
        """Count the jobs that an operation would change now, at most 10,000 of them."""

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
        """Retry, delete, cancel, reprioritise or reschedule all jobs that fit, at most at the given rate ("50/s").

        The operation is stored, and the leader of the services works on it batch by batch: it outlives this process.
        Jobs that fit only after it was started are left alone. `delay` counts from the turn of each job.
        """

    async def list(self, limit: int = 100) -> List[BulkOperation]:
        """Read the operations of the last 30 days, newest first."""

    async def get(self, number: int | str) -> BulkOperation:
        """Read one operation: how far it is, and whether it has finished; BulkNotFound when there is none."""

    async def pause(self, number: int | str) -> BulkOperation:
        """Pause an operation after the batch that it is at."""

    async def resume(self, number: int | str) -> BulkOperation:
        """Let a paused operation go on where it was, and one that waits after an error try again now."""

    async def cancel(self, number: int | str) -> BulkOperation:
        """End an operation after the batch that it is at; what is done stays done."""


class LocalBulkOperations:
    """The bulk operations of one store."""

    def __init__(self, store: BulkStore, deadline_s: float) -> None:
        self._store = store
        self._deadline_s = deadline_s

    async def preview(self, verb: str, which: JobFilter) -> JobCount:
        """Count the jobs that an operation would change now, at most 10,000 of them."""
        return job_count(await self._count(changeable(verb, which)))

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
        chosen_verb = _verb(verb)
        due = _due(chosen_verb, run_at, delay)
        if (priority is None) == (chosen_verb is BulkVerb.REPRIORITISE):
            message = f"priority: expected one for reprioritise and none for other verbs, got {priority!r} for {verb}"
            raise InvalidValue(message)
        if priority is not None:
            names.priority(priority)
        spacing_us = 0 if rate is None else max(1, read_rate(rate, "rate").spacing_us)
        chosen = changeable(chosen_verb, which)
        new = NewBulk(
            key=secrets.token_hex(16),
            verb=chosen_verb,
            which=chosen,
            due=due,
            priority=priority,
            actor=checked_actor(actor),
            reason=checked_reason(reason),
            expected=await self._count(chosen),
            spacing_us=spacing_us,
        )
        what = "start a bulk operation"
        return _operation(await until_answered(lambda _: self._store.start_bulk(new), self._deadline_s, what))

    async def list(self, limit: int = 100) -> List[BulkOperation]:
        """Read the operations of the last 30 days, newest first."""
        names.count(limit, "limit", MOST_OPERATIONS)
        rows = await until_answered(
            lambda _: self._store.list_bulk(limit), self._deadline_s, "bulk operations", changes=False
        )
        return [_operation(row) for row in rows]

    async def get(self, number: int | str) -> BulkOperation:
        """Read one operation: how far it is, and whether it has finished."""
        wanted = names.number(number, "bulk operation")
        rows = await until_answered(
            lambda _: self._store.list_bulk(1, run=wanted), self._deadline_s, "bulk operation", changes=False
        )
        if not rows:
            raise missing_operation(wanted)
        return _operation(rows[0])

    async def pause(self, number: int | str) -> BulkOperation:
        """Pause an operation after the batch that it is at."""
        return await self._change(number, BulkState.PAUSED)

    async def resume(self, number: int | str) -> BulkOperation:
        """Let a paused operation go on where it was, and one that waits after an error try again now."""
        return await self._change(number, BulkState.RUNNING)

    async def cancel(self, number: int | str) -> BulkOperation:
        """End an operation after the batch that it is at; what is done stays done."""
        return await self._change(number, BulkState.CANCELLED)

    async def _change(self, number: int | str, state: BulkState) -> BulkOperation:
        wanted = names.number(number, "bulk operation")
        changed = await until_answered(
            lambda _: self._store.change_bulk(wanted, state), self._deadline_s, "change a bulk operation"
        )
        if changed is not None:
            return _operation(changed)
        ended = await self.get(wanted)
        message = (
            f"bulk operation {wanted}: expected one that has not ended, this one is {ended.state}; start a new one"
        )
        raise WrongState(message)

    async def _count(self, which: JobFilter) -> int:
        return await until_answered(
            lambda _: self._store.preview_jobs(which), self._deadline_s, "preview", changes=False
        )


def missing_operation(number: int) -> BulkNotFound:
    """Say that there is no such operation."""
    message = f"there is no bulk operation {number}, or it ended more than 30 days ago; `bulk list` shows them"
    return BulkNotFound(message)


def job_count(jobs: int) -> JobCount:
    """Describe a count that stops at 10,001."""
    return JobCount(jobs=min(jobs, COUNT_CAP - 1), capped=jobs >= COUNT_CAP)


def changeable(verb: str, which: JobFilter) -> JobFilter:
    """Choose, of the states that are asked for, those that the verb can do something with."""
    stored, takes = stored_filter(which), TAKES[_verb(verb)]
    states = takes & frozenset(stored.states or JobState)
    if not states:
        message = f"states: {verb} takes {', '.join(sorted(takes))}, got {', '.join(stored.states)}"
        raise InvalidValue(message)
    return msgspec.structs.replace(stored, states=tuple(sorted(states)))


def filter_of(operation: BulkOperation) -> JobFilter:
    """Read the filter of an operation again."""
    which = dict(operation.which)
    if "ids" in which:
        which["ids"] = [public_id.decode(job) for job in which["ids"]]
    for name in ("parent", "origin"):
        if name in which:
            which[name] = public_id.decode(which[name])
    return msgspec.convert(which, JobFilter)


def _operation(row: BulkOperationRow) -> BulkOperation:
    given: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(row.which))  # lists, as every client has them
    which = {name: value for name, value in given.items() if value not in (None, [])}
    which |= {name: public_id.encode(which[name]) for name in ("parent", "origin") if name in which}
    if row.which.ids:
        which["ids"] = [public_id.encode(job) for job in row.which.ids]
    return BulkOperation(
        id=str(row.id),
        verb=row.verb,
        state=row.state,
        which=which,
        priority=row.priority,
        run_at=None if row.due is None else row.due.run_at,
        delay_ms=None if row.due is None else row.due.delay_ms,
        actor=row.actor,
        reason=row.reason,
        expected=job_count(row.expected),
        done=row.done,
        refused=row.refused,
        per_second=_SECOND_US / row.spacing_us if row.spacing_us else None,
        started_at=row.started_at,
        finished_at=row.ended_at,
        errors=row.errors,
        error=row.error,
    )


def _verb(verb: str) -> BulkVerb:
    try:
        return BulkVerb(verb)
    except ValueError:
        message = f"verb: expected one of {', '.join(BulkVerb)}, got {shown(verb)}"
        raise InvalidValue(message) from None


def _due(verb: BulkVerb, run_at: datetime | None, delay: Duration | None) -> Due | None:
    """Check when jobs may run."""
    given = sum(value is not None for value in (run_at, delay))
    if given != (1 if verb is BulkVerb.RESCHEDULE else 0):
        expected = "either run_at or delay for reschedule and none for other verbs"
        message = f"{verb}: expected {expected}, got run_at={run_at!r} and delay={delay!r}"
        raise InvalidValue(message)
    if not given:
        return None
    return Due(
        run_at=None if run_at is None else due_time(run_at),
        delay_ms=None if delay is None else milliseconds(delay, "delay"),
    )
