"""Insert or return the existing job, while the transaction that holds the key is still open."""

import asyncio
from typing import Any, Literal, NamedTuple

import msgspec
import pytest

from holdfast.stores.postgres.connection import Connection
from holdfast.stores.values import Inserted, Insertion
from tests.races.rivals import Rivals
from tests.support.connections import new_job, until_held_up
from tests.support.sizes import size

FIELDS: dict[str, dict[str, Any]] = {
    "unique": {"unique": "page 1"},
    "unique_for": {"unique": "page 1", "unique_for_ms": 60_000},
    "key": {"key": "order 1"},
    "key and unique": {"key": "order 1", "unique": "page 1"},
}
Level = Literal["read_committed", "repeatable_read", "serializable"]
LEVELS: tuple[Level, ...] = ("read_committed", "repeatable_read", "serializable")


class Enqueued(NamedTuple):
    ordinal: int
    id: int | None
    existing: bool
    conflict: bool


async def enqueue(rivals: Rivals, connection: Connection, *jobs: dict[str, Any]) -> list[Enqueued]:
    """Call enqueue_v1 on a connection."""
    encoded = msgspec.json.encode([{"kind": "work"} | job for job in jobs]).decode()
    found = await connection.fetch(rivals.sql("SELECT * FROM holdfast.enqueue_v1($1)"), encoded)
    return [Enqueued(*row) for row in found]


async def usable(rivals: Rivals, connection: Connection) -> None:
    """Write something else in the caller's transaction."""
    await connection.execute(rivals.sql("INSERT INTO holdfast.meta VALUES ('business', 'row')"))


async def business_rows(rivals: Rivals) -> int:
    rows = await rivals.watcher.fetch(rivals.sql("DELETE FROM holdfast.meta WHERE key = 'business' RETURNING key"))
    return len(rows)


async def live_jobs(rivals: Rivals) -> list[int]:
    return [row[0] for row in await rivals.watcher.fetch(rivals.sql("SELECT id FROM holdfast.jobs ORDER BY id"))]


async def clear(rivals: Rivals) -> None:
    await rivals.watcher.execute(rivals.sql("TRUNCATE holdfast.jobs, holdfast.idempotency, holdfast.history"))


@pytest.mark.parametrize("commits", [True, False], ids=["commits", "rolls back"])
async def test_our_insert_waits_and_then_knows(rivals: Rivals, commits: bool) -> None:
    for turn in range(size(8, 400)):
        fields = list(FIELDS.values())[turn % len(FIELDS)]
        (own,) = await rivals.two.take_ids(1)
        other = rivals.blocker.transaction()
        await other.start()
        (theirs,) = await enqueue(rivals, rivals.blocker, fields)
        ours: asyncio.Task[list[Inserted]] = asyncio.create_task(rivals.two.insert_jobs([new_job(own, **fields)]))
        await until_held_up(rivals.watcher, rivals.schema, ours)
        assert not ours.done()
        await (other.commit() if commits else other.rollback())
        (inserted,) = await ours
        expected = Inserted(Insertion.EXISTING, theirs.id) if commits else Inserted(Insertion.CREATED, own)
        assert inserted == expected
        assert await live_jobs(rivals) == [expected.id]
        await clear(rivals)


@pytest.mark.parametrize("commits", [True, False], ids=["commits", "rolls back"])
@pytest.mark.parametrize("level", LEVELS)
async def test_a_clash_never_ends_the_callers_transaction(
    rivals: Rivals, caller: Connection, level: Level, commits: bool
) -> None:
    for turn in range(size(8, 400)):
        fields = list(FIELDS.values())[turn % len(FIELDS)]
        async with caller.transaction(isolation=level):
            await caller.fetch(rivals.sql("SELECT FROM holdfast.jobs"))  # their snapshot is taken here
            other = rivals.blocker.transaction()
            await other.start()
            (theirs,) = await enqueue(rivals, rivals.blocker, fields)
            ours = asyncio.create_task(enqueue(rivals, caller, fields))
            await until_held_up(rivals.watcher, rivals.schema, ours)
            assert not ours.done()
            await (other.commit() if commits else other.rollback())
            (answer,) = await ours
            await usable(rivals, caller)
        assert await business_rows(rivals) == 1
        assert answer.existing is commits
        assert not answer.conflict
        if commits:
            assert answer.id in ({theirs.id} if level == "read_committed" else {theirs.id, None})
            assert await live_jobs(rivals) == [theirs.id]
        else:
            assert await live_jobs(rivals) == [answer.id]
        await clear(rivals)


@pytest.mark.parametrize("level", LEVELS[1:])
async def test_a_job_younger_than_the_callers_snapshot_is_met_without_waiting(
    rivals: Rivals, caller: Connection, level: Level
) -> None:
    for fields in FIELDS.values():
        async with caller.transaction(isolation=level):
            await caller.fetch(rivals.sql("SELECT FROM holdfast.jobs"))
            (theirs,) = await enqueue(rivals, rivals.blocker, fields)
            # Among jobs that do not clash: those are stored.
            answers = await enqueue(rivals, caller, {}, fields, {"unique": "page 2"})
            assert [answer.existing for answer in answers] == [False, True, False]
            assert answers[1].id in {theirs.id, None}
            await usable(rivals, caller)
        assert await business_rows(rivals) == 1
        assert set(await live_jobs(rivals)) == {theirs.id, answers[0].id, answers[2].id}
        await clear(rivals)


@pytest.mark.parametrize("level", LEVELS)
async def test_an_expired_key_taken_over_by_another_is_a_clash_and_no_error(
    rivals: Rivals, caller: Connection, level: Level
) -> None:
    (old,) = await enqueue(rivals, rivals.watcher, {"key": "order 1"})
    await rivals.watcher.execute(rivals.sql("UPDATE holdfast.idempotency SET expires_at = now() - interval '1 s'"))
    async with caller.transaction(isolation=level):
        await caller.fetch(rivals.sql("SELECT FROM holdfast.jobs"))
        async with rivals.blocker.transaction():
            (theirs,) = await enqueue(rivals, rivals.blocker, {"key": "order 1"})
            assert not theirs.existing
            ours = asyncio.create_task(enqueue(rivals, caller, {"key": "order 1"}))
            await until_held_up(rivals.watcher, rivals.schema, ours)
        (answer,) = await ours
        await usable(rivals, caller)
    assert await business_rows(rivals) == 1
    assert answer.existing
    assert answer.id in {theirs.id, None}
    assert set(await live_jobs(rivals)) == {old.id, theirs.id}


@pytest.mark.parametrize("level", LEVELS)
async def test_an_expired_key_pruned_meanwhile_is_no_error(rivals: Rivals, caller: Connection, level: Level) -> None:
    (old,) = await enqueue(rivals, rivals.watcher, {"key": "order 1"})
    await rivals.watcher.execute(rivals.sql("UPDATE holdfast.idempotency SET expires_at = now() - interval '1 s'"))
    async with caller.transaction(isolation=level):
        await caller.fetch(rivals.sql("SELECT FROM holdfast.jobs"))
        assert await rivals.one.prune_keys(100) == 1
        (answer,) = await enqueue(rivals, caller, {"key": "order 1"})
        await usable(rivals, caller)
    assert await business_rows(rivals) == 1
    assert not answer.existing
    assert set(await live_jobs(rivals)) == {old.id, answer.id}


@pytest.mark.parametrize("ending", ["pruned", "taken over"])
@pytest.mark.parametrize("level", LEVELS)
async def test_an_expired_key_that_somebody_has_locked_is_no_error(
    rivals: Rivals, caller: Connection, level: Level, ending: str
) -> None:
    """Whoever prunes or takes over a key locks its row first: the insert does not wait for that, later steps do."""
    await enqueue(rivals, rivals.watcher, {"key": "order 1"})
    await rivals.watcher.execute(rivals.sql("UPDATE holdfast.idempotency SET expires_at = now() - interval '1 s'"))
    async with caller.transaction(isolation=level):
        await caller.fetch(rivals.sql("SELECT FROM holdfast.jobs"))
        async with rivals.blocker.transaction():
            await rivals.blocker.fetch(rivals.sql("SELECT FROM holdfast.idempotency FOR UPDATE"))
            ours = asyncio.create_task(enqueue(rivals, caller, {"key": "order 1"}))
            await until_held_up(rivals.watcher, rivals.schema, ours)
            if ending == "pruned":
                await rivals.blocker.execute(rivals.sql("DELETE FROM holdfast.idempotency"))
            else:
                (theirs,) = await enqueue(rivals, rivals.blocker, {"key": "order 1"})
                assert not theirs.existing
        (answer,) = await ours
        await usable(rivals, caller)
    assert await business_rows(rivals) == 1
    assert answer.existing is (ending == "taken over")
    assert len(await live_jobs(rivals)) == 2


@pytest.mark.parametrize("level", LEVELS)
async def test_one_key_for_two_requests_is_a_conflict(rivals: Rivals, caller: Connection, level: Level) -> None:
    (theirs,) = await enqueue(rivals, rivals.blocker, {"key": "order 1", "args": {"n": 1}})
    async with caller.transaction(isolation=level):
        (answer,) = await enqueue(rivals, caller, {"key": "order 1", "args": {"n": 2}})
        await usable(rivals, caller)
    assert answer == Enqueued(1, theirs.id, existing=True, conflict=True)
    assert await live_jobs(rivals) == [theirs.id]
