"""Natural batching: while one insert is in flight the next jobs gather; when idle a job goes out at once. No timers.

Who shares a batch shares nothing else. A value that the database refuses fails alone: the batch is halved until the
culprit stands by itself. A lost reply fails nobody: the jobs are sent again under the same ids until each caller's own
deadline. A caller that is cancelled before its job was sent withdraws it; after that the job goes through.
"""

import asyncio
from collections.abc import Sequence
from itertools import islice

from holdfast import public_id
from holdfast.client.hints import announce_inserted
from holdfast.client.repeat import pauses
from holdfast.delivery.delivery import Delivery
from holdfast.errors import DataRefused, NotOpen, OutcomeUnknown, StoreError, StoreUnavailable
from holdfast.job import NewJob
from holdfast.stores.store import JobStore
from holdfast.stores.values import Inserted

LARGEST_BATCH = 1_000


class _Item:
    """One job on its way, and the caller who waits for it."""

    __slots__ = ("answer", "due", "failure", "job", "maybe_stored")

    def __init__(self, job: NewJob, due: float, answer: asyncio.Future[Inserted]) -> None:
        self.job = job
        self.due = due
        self.answer = answer
        self.maybe_stored = False
        self.failure: StoreError | None = None


class Batcher:
    """Sends the jobs of all callers of one event loop to one store."""

    def __init__(self, store: JobStore, delivery: Delivery) -> None:
        self._store = store
        self._delivery = delivery
        self._gathering: dict[int, _Item] = {}
        self._sender: asyncio.Task[None] | None = None
        self._closed = False

    async def insert(self, job: NewJob, due: float) -> Inserted:
        """Store one job and wait for the answer, at most until `due` by the event loop's clock."""
        if self._closed:
            message = "the app is closing; enqueue before leaving `async with app`"
            raise NotOpen(message)
        loop = asyncio.get_running_loop()
        item = _Item(job, due, loop.create_future())
        self._gathering[job.id] = item
        if self._sender is None:
            self._sender = loop.create_task(self._send_all(), name="holdfast enqueue")
        expiry = loop.call_at(due, _expire, item)
        try:
            # Cancelling this caller cancels the answer, which nobody else waits for: a job that was sent goes through.
            return await item.answer
        finally:
            expiry.cancel()
            self._gathering.pop(job.id, None)

    async def close(self) -> None:
        """Refuse new jobs, and let those that were accepted go out."""
        self._closed = True
        while self._sender is not None:
            await asyncio.wait([self._sender])

    async def _send_all(self) -> None:
        try:
            while self._gathering:
                batch = list(islice(self._gathering.values(), LARGEST_BATCH))
                for item in batch:
                    del self._gathering[item.job.id]
                await self._send(batch)
        finally:
            # No await lies between the last look at the gathering jobs and this line, so none is left behind.
            self._sender = None

    async def _send(self, items: Sequence[_Item]) -> None:
        """Send until answered, each job at most until its caller's deadline."""
        waits = pauses()
        while items:
            if await self._sent(items):
                return
            await anext(waits)
            now = asyncio.get_running_loop().time()
            items = [item for item in items if item.due > now]

    async def _sent(self, items: Sequence[_Item]) -> bool:
        """Send once; False when it has to be tried again."""
        again = any(item.maybe_stored for item in items)  # guard: repeated-send, without: again = False
        for item in items:
            item.maybe_stored = True  # while the call is in flight, nobody can know
        try:
            answers = await self._store.insert_jobs([item.job for item in items], again=again)
        except DataRefused as error:
            _set_maybe_stored(items, maybe_stored=again)
            await self._halve(items, error)
        except OutcomeUnknown as error:
            _set_failure(items, error)
            return False
        except StoreUnavailable as error:
            _set_maybe_stored(items, maybe_stored=again)
            _set_failure(items, error)
            return False
        except Exception as error:  # noqa: BLE001 - whatever it is, each caller must be told
            for item in items:
                _fail(item, error)
        else:
            for item, answer in zip(items, answers, strict=True):
                if not item.answer.done():
                    item.answer.set_result(answer)
            announce_inserted(self._delivery, (item.job for item in items), answers)
        return True

    async def _halve(self, items: Sequence[_Item], error: DataRefused) -> None:
        if len(items) == 1:
            _fail(items[0], error)
            return
        middle = len(items) // 2
        await self._send(items[:middle])
        await self._send(items[middle:])  # guard: refused-send-neighbour


def _fail(item: _Item, error: Exception) -> None:
    if not item.answer.done():
        item.answer.set_exception(error)


def _set_maybe_stored(items: Sequence[_Item], *, maybe_stored: bool) -> None:
    for item in items:
        item.maybe_stored = maybe_stored


def _set_failure(items: Sequence[_Item], error: StoreError) -> None:
    for item in items:
        item.failure = error


def _expire(item: _Item) -> None:
    if not item.answer.done():
        expired = _expired(item)
        expired.__cause__ = item.failure
        item.answer.set_exception(expired)


def _expired(item: _Item) -> StoreError:
    why = "the store did not answer" if item.failure is None else str(item.failure)
    if item.maybe_stored:
        message = f"job {public_id.encode(item.job.id)} ({item.job.kind}) may exist: no answer within the deadline"
        message += f" ({why}); look for it by this id, or enqueue with key=... so that a repetition is harmless"
        return OutcomeUnknown(message)
    message = f"job of kind {item.job.kind} was not stored within the deadline: {why}; nothing was changed, try again"
    return StoreUnavailable(message)
