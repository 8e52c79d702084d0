"""From a call to a stored job."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar

from holdfast import public_id
from holdfast.client import transactional
from holdfast.client.batch import Batcher
from holdfast.client.hints import announce_inserted
from holdfast.client.ids import IdBlocks
from holdfast.client.making import new_job
from holdfast.client.repeat import until_answered
from holdfast.client.transactional import UNDRAWN_ID, CallerStore
from holdfast.config import Settings
from holdfast.delivery.delivery import Delivery
from holdfast.errors import InvalidValue, KeyConflict, RateLimited, shown
from holdfast.handle import HandleJobs, JobHandle
from holdfast.stores.store import JobStore
from holdfast.stores.values import Inserted, Insertion, Refusal
from holdfast.tasks.call import Call
from holdfast.telemetry.tracing import producing

R = TypeVar("R")

LARGEST_INSERT = 20_000
_MOST_CONFLICTS_NAMED = 5


class InsertStore(JobStore, CallerStore, Protocol):
    """What enqueuing needs of a store."""


class Enqueuing:
    """Stores jobs: one by one in natural batches, or many in one round trip."""

    def __init__(self, store: InsertStore, settings: Settings, jobs: HandleJobs, delivery: Delivery) -> None:
        self._store = store
        self._settings = settings
        self._jobs = jobs
        self._delivery = delivery
        self._ids = IdBlocks(store)
        self._batcher = Batcher(store, delivery)
        self._traces = settings.telemetry.traces

    async def one(self, call: Call[R]) -> JobHandle[R]:
        """Store one job; when this returns, it is on disk or in the caller's transaction."""
        with producing((call,), is_wanted=self._traces) as span:
            stored = await self._one(call)
            if span is not None:
                span.stored((stored.number,))
            return stored

    async def _one(self, call: Call[R]) -> JobHandle[R]:
        connection = call.options.connection
        if connection is not None:
            job = new_job(call, UNDRAWN_ID, self._settings)
            (inserted,) = await transactional.insert_on(self._store, connection, [job])
            return self.handle(call, inserted)
        deadline_s = self._settings.deadline_s
        due = asyncio.get_running_loop().time() + deadline_s
        job_id = self._ids.take_now()
        if job_id is None:
            job_id = await until_answered(lambda _: self._ids.take(), deadline_s, f"enqueue {call.kind}", changes=False)
        return self.handle(call, await self._batcher.insert(new_job(call, job_id, self._settings), due))

    async def many(self, calls: Iterable[Call[R]], connection: Any = None) -> list[JobHandle[R]]:
        """Store many jobs; each 20,000 of them are one commit."""
        all_calls = list(calls)  # first all, so that a wrong argument in the last one stores none
        _require_no_own_connection(all_calls)
        with producing(all_calls, is_wanted=self._traces) as span:
            stored = await self._many(all_calls, connection)
            if span is not None:
                span.stored([handle.number for handle in stored])
            return stored

    async def _many(self, all_calls: Sequence[Call[R]], connection: Any) -> list[JobHandle[R]]:
        inserted: list[Inserted] = []
        for start in range(0, len(all_calls), LARGEST_INSERT):
            some_calls = all_calls[start : start + LARGEST_INSERT]
            if connection is None:
                inserted += await self._insert(some_calls)
            else:
                jobs = [new_job(call, UNDRAWN_ID, self._settings) for call in some_calls]
                inserted += await transactional.insert_on(self._store, connection, jobs)
        return self.handles(all_calls, inserted)

    def one_on(self, call: Call[R]) -> JobHandle[R]:
        """Store one job on the caller's synchronous connection, on the caller's thread."""
        with producing((call,), is_wanted=self._traces) as span:
            job = new_job(call, UNDRAWN_ID, self._settings)
            (inserted,) = self._store.insert_on_sync(call.options.connection, [job])
            if span is not None:
                span.stored((inserted.id,))
            return self.handle(call, inserted)

    def many_on(self, calls: Iterable[Call[R]], connection: Any) -> list[JobHandle[R]]:
        """Store many jobs on the caller's synchronous connection, on the caller's thread."""
        all_calls = list(calls)
        _require_no_own_connection(all_calls)
        inserted: list[Inserted] = []
        with producing(all_calls, is_wanted=self._traces) as span:
            for start in range(0, len(all_calls), LARGEST_INSERT):
                jobs = [new_job(call, UNDRAWN_ID, self._settings) for call in all_calls[start : start + LARGEST_INSERT]]
                inserted += self._store.insert_on_sync(connection, jobs)
            if span is not None:
                span.stored([row.id for row in inserted])
        return self.handles(all_calls, inserted)

    def awaits(self, connection: Any) -> bool:
        """Tell whether the caller's connection is an asynchronous one."""
        return self._store.is_async(connection)

    async def close(self) -> None:
        """Let the jobs that were accepted go out."""
        await self._batcher.close()

    def handle(self, call: Call[R], inserted: Inserted) -> JobHandle[R]:
        """Turn the store's answer into a handle, or raise the conflict it reports."""
        if inserted.refusal is not None:
            raise _limited(call, inserted.refusal)
        if inserted.outcome is Insertion.CONFLICT:
            raise KeyConflict(_conflict(call, inserted))
        created = inserted.outcome is Insertion.CREATED
        return JobHandle(self._jobs, inserted.id, created=created, result_type=call.result_type)

    def handles(self, calls: Sequence[Call[R]], inserted: Sequence[Inserted]) -> list[JobHandle[R]]:
        """Turn the store's answers into handles, one to one."""
        pairs = list(zip(calls, inserted, strict=True))
        conflicts = [
            f"[{index}] {_conflict(call, answer)}"
            for index, (call, answer) in enumerate(pairs)
            if answer.outcome is Insertion.CONFLICT
        ]
        if conflicts:
            named = "; ".join(conflicts[:_MOST_CONFLICTS_NAMED])
            message = f"{len(conflicts)} of {len(pairs)} calls were refused, all others accepted: {named}"
            raise KeyConflict(message)
        return [self.handle(call, answer) for call, answer in pairs]

    async def _insert(self, calls: Sequence[Call[Any]]) -> list[Inserted]:
        what = f"enqueue {len(calls)} jobs"
        deadline_s = self._settings.deadline_s
        ids = await until_answered(lambda _: self._ids.take_many(len(calls)), deadline_s, what, changes=False)
        jobs = [new_job(call, job_id, self._settings) for call, job_id in zip(calls, ids, strict=True)]
        answers = await until_answered(
            lambda again: self._store.insert_jobs(jobs, again=again, whole=True), deadline_s, what
        )
        _require_admitted(calls, answers)
        announce_inserted(self._delivery, jobs, answers)
        return answers


def _require_admitted(calls: Sequence[Call[Any]], answers: Sequence[Inserted]) -> None:
    """Refuse all calls of one insert when one of them was refused: nothing of it was stored."""
    for call, answer in zip(calls, answers, strict=True):
        if answer.refusal is not None:
            raise _limited(call, answer.refusal)


def _limited(call: Call[Any], refusal: Refusal) -> RateLimited:
    of_key = f" for {shown(refusal.key)}" if refusal.key else ""
    message = f"{call.kind} was refused by the rate limit {refusal.limit!r}{of_key} and was not stored;"
    if refusal.retry_ms is None:
        message += " so many never fit at once: enqueue fewer in one call"
        return RateLimited(message, refusal.limit, refusal.key, None)
    retry_s = refusal.retry_ms / 1_000
    return RateLimited(f"{message} try again in {retry_s:g} s", refusal.limit, refusal.key, retry_s)


def _conflict(call: Call[Any], inserted: Inserted) -> str:
    by = "" if inserted.id is None else f" by job {public_id.encode(inserted.id)}"
    message = f"key {call.options.key!r} was used{by} for another kind or other arguments than this {call.kind};"
    return f"{message} one key stands for one request: take another key, or send the same request again"


def _require_no_own_connection(calls: Sequence[Call[Any]]) -> None:
    if any(call.options.connection is not None for call in calls):
        message = "enqueue_many: expected calls without using(connection=...); pass enqueue_many(calls, connection=...)"
        raise InvalidValue(message)
