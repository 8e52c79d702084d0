"""How many blocks of the database a call touches, which no other program on the machine can change."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any
from unittest.mock import patch

import asyncpg
import msgspec

from benchmarks.scale.asking import enter
from benchmarks.scale.place import Place, connected
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.store import PostgresStore
from holdfast.transitions import completed

Call = Callable[[], Awaitable[object]]

_TIMES = 15


@dataclass(frozen=True)
class Touched:
    """What one call did on the server, by the median of several; the fastest is nearest to its bare cost."""

    blocks: float
    fastest_ms: float


class _Statement(Exception):
    """Carries what the store was about to send."""


async def explain_verbs(place: Place, few: int, many: int) -> dict[str, Touched]:
    """Explain a claim of a few, and a finish of many with a claim of as many; nothing is changed for good."""
    async with _opened(place) as store:
        asker = await enter(store)
        held = await store.claim_jobs(asker.claim(many))
        asker.took(held)
        ends = [completed(job.id, job.claim) for job in held]
        calls: dict[str, Call] = {
            f"claim {few}": lambda: store.claim_jobs(asker.claim(few)),
            f"finish {many} and claim {many}": lambda: store.finish_jobs(ends, claim=asker.claim(many)),
        }
        async with connected(place) as connection:
            found = {name: await _explain(connection, await _seen(store, call)) for name, call in calls.items()}
        await store.finish_jobs(ends)
    return found


async def explain_walk(place: Place, jobs: int) -> Touched:
    """Explain a claim that no bound spares the rows that are gone."""
    async with _opened(place) as store, connected(place) as connection:
        asker = await enter(store)
        return await _explain(connection, await _seen(store, lambda: store.claim_jobs(asker.claim(jobs))))


@asynccontextmanager
async def _opened(place: Place) -> AsyncIterator[PostgresStore]:
    async with place.opened() as store:
        if not isinstance(store, PostgresStore):
            raise TypeError
        yield store


async def _seen(store: PostgresStore, call: Call) -> tuple[str, tuple[Any, ...]]:
    """Let the store write its statement, and keep it from being sent."""

    async def refuse(sql: str, *args: object) -> list[asyncpg.Record]:
        raise _Statement(sql, args)

    with patch.object(store.pool, "fetch", refuse):
        try:
            await call()
        except _Statement as statement:
            sql, args = statement.args
            return sql, args
    raise AssertionError  # every verb sends something


async def _explain(connection: Connection, statement: tuple[str, tuple[Any, ...]]) -> Touched:
    sql, args = statement
    blocks, took = [], []
    for _ in range(_TIMES):
        transaction = connection.transaction()
        await transaction.start()
        try:
            found = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {sql}", *args)
        finally:
            await transaction.rollback()
        (answer,) = msgspec.json.decode(found)
        blocks.append(answer["Plan"]["Shared Hit Blocks"] + answer["Plan"]["Shared Read Blocks"])
        took.append(answer["Execution Time"])
    return Touched(median(blocks), min(took))
