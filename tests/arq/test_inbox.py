"""A call of Arq waits as long as its job needs this worker, and never longer."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.delivery.arq_inbox import Inbox
from holdfast.errors import StoreUnavailable
from holdfast.job import JobRow
from holdfast.testing import in_memory
from tests.arq.test_backends import made_app

ROOMY = {"default": 9, "fixed": 9}


async def stored(app: Holdfast, kind: str, *arguments: int, **options: Any) -> int:
    """Store a job, and give its id."""
    handle = await app.enqueue(app.tasks.get(kind).using(**options).call(*arguments))
    assert handle.number is not None
    return handle.number


class Called:
    """Calls of Arq, made by a test."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    async def __call__(self, job_id: int) -> "asyncio.Task[bool]":
        task = asyncio.create_task(self._inbox.deliver(job_id))
        await asyncio.sleep(0)
        return task


async def test_call_waits_until_its_job_is_settled() -> None:
    app = made_app()
    async with in_memory(app):
        inbox = Inbox(app.store.get_jobs, ["default"], lambda: True)
        call = Called(inbox)
        job = await stored(app, "double", 1)
        first, again = await call(job), await call(job)
        assert [ready.id for ready in await inbox.pop(ROOMY, 9)] == [job]
        late = await call(job)
        assert [task.done() for task in (first, again, late)] == [False] * 3
        inbox.settled(job)
        assert [await call for call in (first, again, late)] == [True] * 3
        assert await inbox.pop({}, 0) == []


async def test_what_does_not_wait_here_returns_at_once() -> None:
    app = made_app()
    async with in_memory(app):
        inbox = Inbox(app.store.get_jobs, ["default"], lambda: True)
        call = Called(inbox)
        done = await stored(app, "double", 1)
        await app.run_worker(until="empty")
        elsewhere = await stored(app, "fixed")
        later = await stored(app, "double", 1, delay="1h")
        calls = [await call(job_id) for job_id in (done, elsewhere, later, 4)]
        assert await inbox.pop(ROOMY, 9) == []
        assert await asyncio.gather(*calls) == [True] * 4


async def test_ids_wait_for_room_in_their_order() -> None:
    app = made_app()
    async with in_memory(app):
        inbox = Inbox(app.store.get_jobs, ["default", "fixed"], lambda: True)
        call = Called(inbox)
        plain = [await stored(app, "double", number) for number in range(3)]
        fixed = await stored(app, "fixed")
        calls = [await call(job) for job in (*plain, fixed)]
        assert [ready.id for ready in await inbox.pop({"default": 1, "fixed": 1}, 9)] == [plain[0], fixed]
        popped = await inbox.pop({"default": 9}, 1)
        assert [ready.id for ready in popped] == [plain[1]]
        await inbox.put_back(popped)
        assert {ready.id for ready in await inbox.pop(ROOMY, 9)} == {plain[1], plain[2]}
        inbox.close()
        assert await asyncio.gather(*calls) == [False] * 4


async def test_worker_that_leaves_sees_only_to_what_it_has_begun() -> None:
    app = made_app()
    async with in_memory(app):
        inbox = Inbox(app.store.get_jobs, ["default"], lambda: True)
        call = Called(inbox)
        begun, offered, known, fresh = [await stored(app, "double", number) for number in range(4)]
        calls = [await call(job) for job in (begun, offered, known)]
        popped = await inbox.pop(ROOMY, 2)
        assert [ready.id for ready in popped] == [begun, offered]
        calls.append(await call(fresh))
        inbox.leave()
        assert [await calls[2], await calls[3], await inbox.deliver(known)] == [False] * 3
        await inbox.put_back(popped[1:])
        assert await calls[1] is False
        inbox.settled(begun)
        assert await calls[0] is True


async def test_cancelled_call_takes_its_id_along() -> None:
    app = made_app()
    async with in_memory(app):
        inbox = Inbox(app.store.get_jobs, ["default"], lambda: True)
        call = Called(inbox)
        gone, stays = [await stored(app, "double", number) for number in range(2)]
        first, second = await call(gone), await call(stays)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert [ready.id for ready in await inbox.pop(ROOMY, 9)] == [stays]
        inbox.settled(stays)
        await second


async def test_store_that_is_away_keeps_ids_waiting() -> None:
    app = made_app()
    async with in_memory(app):
        is_away = True

        async def read(ids: Sequence[int]) -> list[JobRow]:
            if is_away:
                message = "away"
                raise StoreUnavailable(message)
            return await app.store.get_jobs(ids)

        inbox = Inbox(read, ["default"], lambda: True)
        job = await stored(app, "double", 1)
        call = await Called(inbox)(job)
        assert await inbox.pop(ROOMY, 9) == []
        is_away = False
        assert [ready.id for ready in await inbox.pop(ROOMY, 9)] == [job]
        inbox.close()
        await call
