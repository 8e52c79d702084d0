"""What operators do to many jobs at once: runs that the services work through, batch by batch."""

import secrets
from datetime import datetime

import msgspec

from holdfast import names
from holdfast.client.jobs import checked_actor, checked_reason, stored_filter
from holdfast.client.repeat import until_answered
from holdfast.duration import Duration, milliseconds
from holdfast.errors import BulkNotFound, InvalidValue, WrongState, shown
from holdfast.job import JobState
from holdfast.policies.rate import read_rate
from holdfast.stores.bulk import TAKES, BulkRun, BulkState, BulkStore, BulkVerb, Due, NewBulk
from holdfast.stores.values import JobFilter
from holdfast.tasks.options import due_time

_MOST_RUNS = 1_000
_LARGEST_ID = 2**63 - 1


class BulkVerbs:
    """The verbs of bulk runs, on one store."""

    def __init__(self, store: BulkStore, deadline_s: float) -> None:
        self._bulk_store = store
        self._bulk_deadline_s = deadline_s

    async def preview_bulk(self, verb: str, which: JobFilter) -> int:
        """Count the jobs that a run would change now, at most 10,001 of them."""
        chosen = changeable(_verb(verb), which)
        return await self._preview_run(chosen)

    async def start_bulk(
        self,
        verb: str,
        which: JobFilter,
        *,
        rate: str | None = None,
        priority: int | None = None,
        run_at: datetime | None = None,
        run_in: Duration | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> BulkRun:
        """Retry, delete, cancel, reprioritise or reschedule all jobs that fit, at most at the given rate ("50/s").

        The run is stored, and worked batch by batch by whoever leads the services: it outlives this process, and
        theirs. Jobs that come to fit after it has begun are left alone. `run_in` counts from the turn of each job.
        """
        chosen_verb = _verb(verb)
        due = _due(chosen_verb, run_at, run_in)
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
            expected=await self._preview_run(chosen),
            spacing_us=spacing_us,
        )
        return await until_answered(lambda _: self._bulk_store.start_bulk(new), self._bulk_deadline_s, "start a run")

    async def bulk_runs(self, limit: int = 100) -> list[BulkRun]:
        """Read the runs of the last 30 days, the newest first."""
        names.count(limit, "limit", _MOST_RUNS)
        return await until_answered(
            lambda _: self._bulk_store.list_bulk(limit), self._bulk_deadline_s, "bulk runs", changes=False
        )

    async def bulk_run(self, run: int) -> BulkRun:
        """Read one run: how far it is, and whether it has ended."""
        number = _number(run)
        found = await until_answered(
            lambda _: self._bulk_store.list_bulk(1, run=number), self._bulk_deadline_s, "bulk run", changes=False
        )
        if not found:
            message = f"bulk run {number}: there is no such run; those that ended 30 days ago are forgotten"
            raise BulkNotFound(message)
        return found[0]

    async def pause_bulk(self, run: int) -> BulkRun:
        """Let a run stand still after the batch that it is at."""
        return await self._change_run(run, BulkState.PAUSED)

    async def resume_bulk(self, run: int) -> BulkRun:
        """Let a paused run go on where it was, and one that waits because of an error try again now."""
        return await self._change_run(run, BulkState.RUNNING)

    async def cancel_bulk(self, run: int) -> BulkRun:
        """End a run after the batch that it is at; what is done stays done."""
        return await self._change_run(run, BulkState.CANCELLED)

    async def _change_run(self, run: int, state: BulkState) -> BulkRun:
        number = _number(run)
        changed = await until_answered(
            lambda _: self._bulk_store.change_bulk(number, state), self._bulk_deadline_s, "change a run"
        )
        if changed is not None:
            return changed
        ended = await self.bulk_run(number)
        message = f"bulk run {number}: expected one that has not ended, this one is {ended.state}; start a new one"
        raise WrongState(message)

    async def _preview_run(self, which: JobFilter) -> int:
        return await until_answered(
            lambda _: self._bulk_store.preview_jobs(which), self._bulk_deadline_s, "preview", changes=False
        )


def _verb(verb: str) -> BulkVerb:
    try:
        return BulkVerb(verb)
    except ValueError:
        message = f"verb: expected one of {', '.join(BulkVerb)}, got {shown(verb)}"
        raise InvalidValue(message) from None


def _due(verb: BulkVerb, run_at: datetime | None, run_in: Duration | None) -> Due | None:
    """Check when jobs are to be due."""
    given = sum(value is not None for value in (run_at, run_in))
    if given != (1 if verb is BulkVerb.RESCHEDULE else 0):
        expected = "either run_at or run_in for reschedule and none for other verbs"
        message = f"{verb}: expected {expected}, got run_at={run_at!r} and run_in={run_in!r}"
        raise InvalidValue(message)
    if not given:
        return None
    return Due(
        run_at=None if run_at is None else due_time(run_at),
        delay_ms=None if run_in is None else milliseconds(run_in, "run_in"),
    )


def changeable(verb: BulkVerb, which: JobFilter) -> JobFilter:
    """Choose, of the states that are asked for, those that the verb can do something with."""
    stored = stored_filter(which)
    states = TAKES[verb] & frozenset(stored.states or JobState)
    if not states:
        message = f"states: {verb} takes {', '.join(sorted(TAKES[verb]))}, got {', '.join(stored.states)}"
        raise InvalidValue(message)
    return msgspec.structs.replace(stored, states=tuple(sorted(states)))


def _number(run: int) -> int:
    if isinstance(run, bool) or not isinstance(run, int) or not 0 <= run <= _LARGEST_ID:
        message = f"bulk run: expected its number, got {shown(run)}"
        raise InvalidValue(message)
    return run
