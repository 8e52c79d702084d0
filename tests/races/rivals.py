"""Two stores on one schema, and a third connection that makes them meet at one row."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.job import JobRow
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import in_schema
from tests.support.connections import expire, until_held_up

A = TypeVar("A")
B = TypeVar("B")


class Rivals:
    """What a race needs: two sides, and somebody who looks."""

    def __init__(self, one: PostgresStore, two: PostgresStore, watcher: Connection, blocker: Connection) -> None:
        self.one = one
        self.two = two
        self.watcher = watcher
        self.blocker = blocker
        self.schema = one.schema

    def sql(self, text: str) -> str:
        """Spell the schema."""
        return in_schema(text, self.schema)

    async def meet(
        self, turn: int, job_id: int, first: Callable[[], Awaitable[A]], second: Callable[[], Awaitable[B]]
    ) -> tuple[A, B]:
        """Run both at once, now one first and now the other.

        Of ten rounds, in two both queue at the row's lock, and in two one follows the other.
        """
        if turn % 10 in {0, 1}:
            return await self._queue_up(turn % 2 == 0, job_id, first, second)
        if turn % 10 == 2:
            return await first(), await second()
        if turn % 10 == 3:
            later = await second()
            return await first(), later
        if turn % 2 == 0:
            one = asyncio.ensure_future(first())
            two = asyncio.ensure_future(second())
        else:
            two = asyncio.ensure_future(second())
            one = asyncio.ensure_future(first())
        return await one, await two

    async def _queue_up(
        self, first_leads: bool, job_id: int, first: Callable[[], Awaitable[A]], second: Callable[[], Awaitable[B]]
    ) -> tuple[A, B]:
        async def run_first() -> A:
            return await first()

        async def run_second() -> B:
            return await second()

        async with self.blocker.transaction():
            await self.blocker.fetch(self.sql("SELECT FROM holdfast.jobs WHERE id = $1 FOR UPDATE"), job_id)
            if first_leads:
                one = asyncio.create_task(run_first())
                await until_held_up(self.watcher, self.schema, one)
                two = asyncio.create_task(run_second())
            else:
                two = asyncio.create_task(run_second())
                await until_held_up(self.watcher, self.schema, two)
                one = asyncio.create_task(run_first())
            await until_held_up(self.watcher, self.schema, one, two)
        return await one, await two

    async def now(self, job_id: int) -> JobRow | None:
        """Read a job; more than one row of it is an error of its own."""
        found = await self.one.get_jobs([job_id])
        assert len(found) <= 1, f"job {job_id} exists {len(found)} times"
        return found[0] if found else None

    async def expire(self, *workers: int | None) -> None:
        """Let leases end now."""
        await expire(self.watcher, self.schema, [worker for worker in workers if worker is not None])
