"""A job exists exactly when the caller's transaction commits; a clash is an answer, never an end of the transaction."""

import asyncio
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import ConfigError, KeyConflict
from holdfast.job import JobState
from holdfast.tasks.options import UsingOptions
from tests.adapters.conftest import (
    Place,
    Shop,
    make_app,
    on_asynchronous,
    on_postgres,
    on_synchronous,
    opened_shop,
)
from tests.adapters.waiting import until_somebody_waits
from tests.support.libraries import POSTGRES, SyncCaller


async def test_a_job_exists_once_the_transaction_commits(shop: Shop) -> None:
    await shop.caller.begin()
    await shop.order(1)
    handle = await shop.caller.enqueue(1)
    if shop.place.schema is not None:  # on SQLite a reader is not kept waiting either, but sees the same
        assert await shop.jobs() == []
    await shop.caller.commit()

    (job,) = await shop.jobs()
    assert handle.created
    assert (job.number, job.kind, job.args, job.state) == (handle.number, "ship", {"n": 1}, JobState.QUEUED)
    assert await shop.orders() == [1]


async def test_a_job_does_not_exist_after_a_rollback(shop: Shop) -> None:
    await shop.caller.begin()
    await shop.order(1)
    await shop.caller.enqueue(1)
    await shop.caller.enqueue(2, key="k", unique="u")
    await shop.caller.rollback()
    assert await shop.jobs() == []
    assert await shop.orders() == []

    await shop.caller.begin()
    again = await shop.caller.enqueue(2, key="k", unique="u")
    await shop.caller.commit()
    assert again.created  # what was rolled back holds no key
    assert await shop.shipped() == [2]


async def test_one_transaction_holds_many_enqueues(shop: Shop) -> None:
    await shop.caller.begin()
    handles = [await shop.caller.enqueue(n) for n in range(3)]
    handles.append(await shop.caller.enqueue(3, key="key 3"))
    handles.append(await shop.caller.enqueue(4, unique="unique 4"))
    handles.append(await shop.caller.enqueue(5, unique="unique 5", unique_for="1h", key="key 5"))
    calls = [shop.ship.call(6), shop.ship.using(key="key 7").call(7), shop.ship.using(unique="unique 8").call(8)]
    handles += await shop.caller.enqueue_many(calls)
    await shop.order(1)
    await shop.caller.commit()

    assert all(handle.created for handle in handles)
    assert {job.number: job.args["n"] for job in await shop.jobs()} == {h.number: n for n, h in enumerate(handles)}
    assert await shop.orders() == [1]


async def test_every_option_arrives(shop: Shop) -> None:
    await shop.caller.begin()
    await shop.caller.enqueue(
        1,
        delay="1h",
        priority=2,
        max_attempts=7,
        max_crashes=4,
        timeout=None,
        tags={"shop": "größe ☃ : % $1"},
        actor="who: 100 % sure",
        key="a:b %s $1 ?",
        unique="\"'\\ :jobs @jobs",
    )
    await shop.caller.commit()
    (job,) = await shop.jobs()
    assert (job.state, job.priority, job.max_attempts, job.max_crashes) == (JobState.SCHEDULED, 2, 7, 4)
    assert job.timeout_ms is None
    assert (job.tags, job.actor) == ({"shop": "größe ☃ : % $1"}, "who: 100 % sure")
    assert (job.key, job.unique_key) == ("a:b %s $1 ?", "\"'\\ :jobs @jobs")
    assert (job.run_at - job.enqueued_at).total_seconds() == pytest.approx(3_600, abs=1)


CLASHES: list[UsingOptions] = [{"key": "k"}, {"unique": "u"}, {"unique": "v", "unique_for": "1h"}]


async def test_a_clash_inside_the_transaction_answers_with_the_existing_job(shop: Shop) -> None:
    await shop.caller.begin()
    for n, options in enumerate(CLASHES):
        first = await shop.caller.enqueue(n, **options)
        second = await shop.caller.enqueue(n, **options)
        (third,) = await shop.caller.enqueue_many([shop.ship.using(**options).call(n)])
        assert first.created
        assert (second.created, second.number) == (third.created, third.number) == (False, first.number)
        await shop.order(n)  # the transaction goes on
    await shop.caller.enqueue(9)
    await shop.caller.commit()
    assert await shop.shipped() == [0, 1, 2, 9]
    assert await shop.orders() == [0, 1, 2]


async def test_a_clash_with_a_committed_job_answers_with_it(shop: Shop) -> None:
    committed = [await shop.ship.using(**options).enqueue(n) for n, options in enumerate(CLASHES)]
    await shop.caller.begin()
    met = [await shop.caller.enqueue(n, **options) for n, options in enumerate(CLASHES)]
    await shop.order(1)
    await shop.caller.commit()
    assert [(job.created, job.number) for job in met] == [(False, job.number) for job in committed]
    assert await shop.shipped() == [0, 1, 2]
    assert await shop.orders() == [1]


async def test_a_clash_within_one_call_answers_in_order(shop: Shop) -> None:
    await shop.caller.begin()
    calls = [shop.ship.using(key="k").call(1), shop.ship.call(2), shop.ship.using(key="k").call(1)]
    first, second, third = await shop.caller.enqueue_many(calls)
    await shop.caller.commit()
    assert (first.created, second.created, third.created) == (True, True, False)
    assert third.number == first.number
    assert await shop.shipped() == [1, 2]


async def test_a_key_of_another_request_is_refused_and_the_transaction_goes_on(shop: Shop) -> None:
    await shop.caller.begin()
    await shop.caller.enqueue(1, key="k")
    with pytest.raises(KeyConflict, match="another kind or other arguments"):
        await shop.caller.enqueue(2, key="k")
    await shop.order(1)
    await shop.caller.commit()
    assert await shop.shipped() == [1]
    assert await shop.orders() == [1]


async def test_many_jobs_go_in_one_call(shop: Shop) -> None:
    await shop.caller.begin()
    handles = await shop.caller.enqueue_many(shop.ship.call(n) for n in range(1_000))
    await shop.caller.commit()
    assert len({handle.number for handle in handles}) == 1_000
    assert await shop.shipped() == list(range(1_000))


async def test_no_job_in_one_call_is_no_job(shop: Shop) -> None:
    await shop.caller.begin()
    assert await shop.caller.enqueue_many([]) == []
    await shop.order(1)
    await shop.caller.commit()
    assert await shop.orders() == [1]


@on_postgres
async def test_a_clash_waits_for_the_transaction_that_holds_the_key(shop: Shop) -> None:
    async with shop.another_caller() as other:
        for n, options in enumerate(CLASHES):
            for ends_by in ("rollback", "commit"):
                await other.begin()
                theirs = await other.enqueue(n, **options)
                await shop.caller.begin()
                waiting = asyncio.create_task(shop.caller.enqueue(n, **options))
                await until_somebody_waits(shop.place)
                await getattr(other, ends_by)()
                ours = await waiting
                assert ours.created is (ends_by == "rollback")
                assert (ours.number == theirs.number) is (ends_by == "commit")
                await (shop.order(n) if ends_by == "commit" else shop.caller.rollback())
            await shop.caller.commit()
    assert await shop.shipped() == [0, 1, 2]
    assert await shop.orders() == [0, 1, 2]


# ---- threads and event loops -----------------------------------------------------------------------------------------


@on_synchronous
async def test_a_synchronous_connection_stays_on_the_callers_thread(shop: Shop) -> None:
    assert isinstance(shop.caller, SyncCaller)
    caller, seen = shop.caller, set[int]()
    store = shop.app.store
    insert = store.insert_on_sync

    def recorded(connection: Any, jobs: Any) -> Any:
        seen.add(threading.get_ident())
        return insert(connection, jobs)

    store.insert_on_sync = recorded  # type: ignore[method-assign] # to look on
    await caller.begin()
    await caller.enqueue(1)
    await caller.enqueue_many([shop.ship.call(2)])
    await caller.commit()
    assert seen == {await caller.here(threading.get_ident)}
    assert threading.get_ident() not in seen
    assert await shop.shipped() == [1, 2]


@on_synchronous
async def test_a_synchronous_connection_may_be_used_inside_the_event_loop(shop: Shop) -> None:
    """What blocks there is the caller's choice; Django alone forbids it, and says so itself."""
    assert isinstance(shop.caller, SyncCaller)
    caller = type(shop.caller)(shop.app, shop.ship)
    connection = caller.connection = caller.connect(shop.place.address)
    using = shop.ship.using(connection=connection)
    if shop.place.library.startswith("django"):
        from django.core.exceptions import SynchronousOnlyOperation

        with pytest.raises(SynchronousOnlyOperation):
            await using.enqueue(1)
        return
    await using.enqueue(1)
    await shop.app.enqueue(using.call(2))
    await shop.app.enqueue_many([shop.ship.call(3)], connection=connection)
    assert await shop.jobs() == []
    caller.commit_here()
    caller.disconnect()
    assert await shop.shipped() == [1, 2, 3]


@on_asynchronous
async def test_an_asynchronous_connection_is_refused_by_the_blocking_client(shop: Shop) -> None:
    def use() -> None:
        with shop.app.blocking() as queue:
            with pytest.raises(ConfigError, match="belongs to its own event loop"):
                queue.enqueue(shop.ship.using(connection=shop.caller.connection).call(1))
            with pytest.raises(ConfigError, match="belongs to its own event loop"):
                queue.enqueue_many([shop.ship.call(1)], connection=shop.caller.connection)

    await asyncio.to_thread(use)
    assert await shop.jobs() == []


def test_a_program_without_an_event_loop(tmp_path: Path) -> None:
    """The whole way as such a program goes it; sqlite3 itself refuses any other thread than this one."""
    path = tmp_path / "shop.db"
    app, ship = make_app(f"sqlite:///{path}")
    with app.blocking() as queue:
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE orders (n INTEGER)")
        with connection:  # commits at its end
            connection.execute("INSERT INTO orders VALUES (1)")
            handle = queue.enqueue(ship.using(connection=connection).call(1))
            many = queue.enqueue_many([ship.call(2), ship.using(key="k").call(3)], connection=connection)
        assert [queue.jobs.get(h.number or 0).args["n"] for h in (handle, *many)] == [1, 2, 3]
        queue.enqueue(ship.using(connection=connection).call(4))
        connection.rollback()
        assert len(list(queue.jobs.iterate())) == 3
        connection.close()


async def test_a_program_with_an_event_loop_may_call_one_without(tmp_path: Path) -> None:
    """A synchronous helper that is called from a coroutine blocks it for the while, and nothing else."""
    test_a_program_without_an_event_loop(tmp_path)


async def test_a_call_in_enqueue_many_may_not_bring_its_own_connection(shop: Shop) -> None:
    await shop.caller.begin()
    call = shop.ship.using(connection=shop.caller.connection).call(1)
    with pytest.raises(ValueError, match="pass enqueue_many"):
        await shop.caller.enqueue_many([call])
    await shop.caller.rollback()


@pytest.mark.parametrize("library", POSTGRES)
async def test_a_schema_may_have_an_odd_name(library: str, dsn: str, odd_schema: str) -> None:
    async with opened_shop(Place(library, dsn, odd_schema)) as shop:
        await shop.caller.begin()
        first = await shop.caller.enqueue(1, key="k", unique="u")
        second = await shop.caller.enqueue(1, key="k", unique="u")
        await shop.caller.enqueue_many([shop.ship.call(2)])
        await shop.caller.commit()
        assert (first.created, second.created, second.number) == (True, False, first.number)
        assert await shop.shipped() == [1, 2]
