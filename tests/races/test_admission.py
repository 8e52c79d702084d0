"""Rate limits and debounce, when two connections ask at the same moment."""

import asyncio
from collections.abc import Iterable

import pytest

from holdfast.job import JobState
from holdfast.stores.limits import LimitRow
from holdfast.stores.policies import KindRow
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.values import Inserted, Insertion
from tests.races.rivals import Rivals
from tests.races.test_existing import LEVELS, Level, enqueue, live_jobs, usable
from tests.support.connections import new_job, until_held_up
from tests.support.sizes import size

HOUR_US = 3_600_000_000
DOC = {"payload": {"doc": "a"}}


async def rated(rivals: Rivals, burst: int, *path: str) -> None:
    """Let so many jobs of a key in, and no more for an hour."""
    limit = LimitRow(name="calls", kinds=("work",), path=path, rate_us=HOUR_US, rate_burst=burst)
    await rivals.one.define_limits([limit], ())
    await rivals.one.define_queue_policies({}, ["default"])


async def debounced(rivals: Rivals) -> None:
    """Let the jobs of a document be merged."""
    kind = KindRow(name="work", queue="default", definition="{}", debounce_ms=60_000, debounce_path=("payload", "doc"))
    await rivals.one.define_kinds([kind])
    await rivals.one.define_queue_policies({}, ["default"])


async def test_no_more_come_in_than_the_rate_allows(rivals: Rivals) -> None:
    burst, asked = size(20, 400), size(40, 800)
    await rated(rivals, burst)
    ids = await rivals.one.take_ids(asked)
    stores = (rivals.one, rivals.two)
    answers = await asyncio.gather(
        *(stores[turn % 2].insert_jobs([new_job(job_id)]) for turn, job_id in enumerate(ids))
    )
    created = [answer.id for (answer,) in answers if answer.outcome is Insertion.CREATED]
    assert len(created) == burst
    assert await live_jobs(rivals) == sorted(job_id for job_id in created if job_id is not None)


async def ask(store: PostgresStore, keys: Iterable[str]) -> None:
    """Enqueue a job for each of these keys."""
    ids = await store.take_ids(len(keys := list(keys)))
    jobs = [new_job(job_id, payload=f'{{"doc": "{key}"}}') for job_id, key in zip(ids, keys, strict=True)]
    assert {answer.outcome for answer in await store.insert_jobs(jobs)} <= {Insertion.CREATED}


@pytest.mark.guards("admission-order")
async def test_calls_with_the_same_keys_in_another_order_never_wait_in_a_ring(rivals: Rivals) -> None:
    """One call asks for more keys than the other: the database would visit the same keys in another order."""
    await rated(rivals, 10_000, "payload", "doc")
    for turn in range(size(10, 100)):
        keys = [f"{turn}-{number}" for number in range(160)]
        async with rivals.blocker.transaction():  # both stand in the middle of their keys when it ends
            await rivals.blocker.execute(rivals.sql(_HELD_KEY), keys[turn % 20])
            calls = [
                asyncio.create_task(ask(rivals.one, keys[:20])),
                asyncio.create_task(ask(rivals.two, reversed(keys))),
            ]
            await until_held_up(rivals.watcher, rivals.schema, *calls)
        await asyncio.gather(*calls)


@pytest.mark.guards("known-key-order")
async def test_a_call_that_waits_for_a_known_key_holds_none_behind_it(rivals: Rivals) -> None:
    """Two calls that took known keys in an order of their own would wait in a ring now and then."""
    await rated(rivals, 10_000, "payload", "doc")
    keys = [f"{number:03}" for number in range(160)]
    for key in reversed(keys):  # they lie in another order than the one in which calls may take them
        await rivals.blocker.execute(rivals.sql(_HELD_KEY), key)
    async with rivals.blocker.transaction():
        await rivals.blocker.execute(rivals.sql("SELECT FROM holdfast.limit_keys WHERE key = $1 FOR UPDATE"), keys[80])
        call = asyncio.create_task(ask(rivals.two, keys[::2]))
        await until_held_up(rivals.watcher, rivals.schema, call)
        free = await rivals.watcher.fetch(
            rivals.sql("SELECT key FROM holdfast.limit_keys ORDER BY key FOR UPDATE SKIP LOCKED")
        )
    await call
    assert [key for (key,) in free] == keys[1:80:2] + keys[81:]


_HELD_KEY = "INSERT INTO holdfast.limit_keys (limit_name, key, seen_at) VALUES ('calls', $1, now())"


@pytest.mark.parametrize("commits", [True, False], ids=["commits", "rolls back"])
async def test_the_bucket_waits_for_the_transaction_that_takes_from_it(rivals: Rivals, commits: bool) -> None:
    await rated(rivals, 1)
    (own,) = await rivals.two.take_ids(1)
    other = rivals.blocker.transaction()
    await other.start()
    await enqueue(rivals, rivals.blocker, {})
    ours = asyncio.create_task(rivals.two.insert_jobs([new_job(own)]))
    await until_held_up(rivals.watcher, rivals.schema, ours)
    await (other.commit() if commits else other.rollback())
    (inserted,) = await ours
    assert inserted.outcome is (Insertion.LIMITED if commits else Insertion.CREATED)
    assert len(await live_jobs(rivals)) == 1


async def test_what_is_sent_again_while_the_first_send_is_under_way_costs_nothing(rivals: Rivals) -> None:
    await rated(rivals, 1)
    (job_id,) = await rivals.one.take_ids(1)
    async with rivals.blocker.transaction():
        # The first send has stored the job and not yet answered.
        await rivals.blocker.execute(rivals.sql("SELECT holdfast.insert_jobs(" + _ARGUMENTS + ", false)"), job_id)
        again = asyncio.create_task(rivals.two.insert_jobs([new_job(job_id)], again=True))
        await until_held_up(rivals.watcher, rivals.schema, again)
    assert await again == [Inserted(Insertion.CREATED, job_id)]
    assert await live_jobs(rivals) == [job_id]


_ARGUMENTS = """ARRAY[$1::bigint], ARRAY['work'], ARRAY['default'], ARRAY[5::smallint], ARRAY['{}'::jsonb],
    '{}', '{}', '{}', '{}', '{}', ARRAY[5], ARRAY[3], ARRAY[3600000::bigint], '{}', '{}'"""


@pytest.mark.parametrize("commits", [True, False], ids=["commits", "rolls back"])
async def test_two_first_calls_of_a_key_become_one_job(rivals: Rivals, commits: bool) -> None:
    await debounced(rivals)
    (own,) = await rivals.two.take_ids(1)
    other = rivals.blocker.transaction()
    await other.start()
    (theirs,) = await enqueue(rivals, rivals.blocker, DOC)
    job = new_job(own, payload='{"doc": "a", "version": 2}')
    ours = asyncio.create_task(rivals.two.insert_jobs([job]))
    await until_held_up(rivals.watcher, rivals.schema, ours)
    await (other.commit() if commits else other.rollback())
    expected = Inserted(Insertion.EXISTING, theirs.id) if commits else Inserted(Insertion.CREATED, own)
    assert await ours == [expected]
    assert await live_jobs(rivals) == [expected.id]
    found = await rivals.now(expected.id or 0)
    assert found is not None
    assert found.payload["version"] == 2


async def test_a_job_that_is_made_ready_meanwhile_is_left_alone(rivals: Rivals) -> None:
    await debounced(rivals)
    first, own = await rivals.one.take_ids(2)
    await rivals.one.insert_jobs([new_job(first, payload='{"doc": "a"}')])
    async with rivals.blocker.transaction():
        ready = "UPDATE holdfast.jobs SET state = 'queued', position = 1 WHERE id = $1"
        await rivals.blocker.execute(rivals.sql(ready), first)
        ours = asyncio.create_task(rivals.two.insert_jobs([new_job(own, payload='{"doc": "a", "version": 2}')]))
        await until_held_up(rivals.watcher, rivals.schema, ours)
    assert await ours == [Inserted(Insertion.CREATED, own)]
    found = await rivals.now(first)
    assert found is not None
    assert (found.state, found.payload) == (JobState.QUEUED, {"doc": "a"})


@pytest.mark.parametrize("level", LEVELS)
async def test_merging_never_ends_the_callers_transaction(rivals: Rivals, caller: Connection, level: Level) -> None:
    await debounced(rivals)
    first, second = await rivals.one.take_ids(2)
    await rivals.one.insert_jobs([new_job(first, payload='{"doc": "a"}')])
    async with caller.transaction(isolation=level):
        await caller.fetch(rivals.sql("SELECT FROM holdfast.jobs"))  # their snapshot is taken here
        await rivals.one.insert_jobs([new_job(second, payload='{"doc": "a", "version": 2}')])
        (answer,) = await enqueue(rivals, caller, DOC)
        assert (answer.id, answer.existing) == (first if level == "read_committed" else None, True)
        await usable(rivals, caller)
    assert await live_jobs(rivals) == [first]


@pytest.mark.guards("insert-order")
async def test_merges_of_several_calls_never_wait_in_a_ring(rivals: Rivals) -> None:
    await debounced(rivals)
    names = [f'{{"doc": "{name}"}}' for name in "abcdefgh"]

    async def ask(turn: int) -> None:
        store, order = ((rivals.one, names), (rivals.two, names[::-1]))[turn % 2]
        ids = await store.take_ids(len(order))
        jobs = [new_job(job_id, payload=payload) for job_id, payload in zip(ids, order, strict=True)]
        await store.insert_jobs(jobs)

    await asyncio.gather(*(ask(turn) for turn in range(size(20, 400))))
    assert len(await live_jobs(rivals)) == len(names)
