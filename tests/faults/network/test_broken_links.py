"""A link that is silent, cut or ended by the server: typed errors within the deadline, and work goes on afterwards."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from holdfast.errors import HoldfastError, OutcomeUnknown, StoreUnavailable, WorkerLost
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import in_schema
from tests.faults.network.verbs import VERBS, Call, verb_names
from tests.support.connections import connected, insert, show, until_held_up
from tests.support.proxy import Fault, Proxy
from tests.support.sizes import CHAOS
from tests.support.wait import until

pytestmark = pytest.mark.real_time

DEADLINE = 1.0
PATIENCE_S = 30.0


def test_every_verb_is_tried() -> None:
    assert set(VERBS) == verb_names()


AT_ONCE = 60  # a server takes 100 connections


@pytest.fixture
async def wide(proxy: Proxy, schema: str) -> AsyncIterator[PostgresStore]:
    """Give a store through the proxy with a connection for each verb that is tried at once."""
    store = PostgresStore(proxy.dsn, schema=schema, pool_size=AT_ONCE)
    await store.open()
    store.pool.deadline = DEADLINE
    yield store
    proxy.heal()
    await store.close()


async def outcome(store: PostgresStore, call: Call) -> tuple[BaseException | None, float]:
    """Make a call; return how it failed, and how long that took."""
    begin = time.perf_counter()
    try:
        await call(store)
    except Exception as error:  # noqa: BLE001 - which one it is, is what the tests look at
        return error, time.perf_counter() - begin
    return None, time.perf_counter() - begin


@pytest.mark.parametrize("connected_before", [True, False], ids=["connected", "not yet connected"])
async def test_no_verb_outlasts_its_deadline_in_a_black_hole(
    wide: PostgresStore, proxy: Proxy, connected_before: bool
) -> None:
    found: dict[str, tuple[BaseException | None, float]] = {}
    while len(found) < len(VERBS):
        some = list(VERBS.items())[len(found) : len(found) + AT_ONCE]
        if connected_before:
            proxy.heal()
            await connect(wide, len(some))
        proxy.silence()
        outcomes = await asyncio.gather(*(outcome(wide, call) for _, call in some))
        found |= dict(zip((name for name, _ in some), outcomes, strict=True))
    expected = (OutcomeUnknown,) if connected_before else (OutcomeUnknown, StoreUnavailable)
    assert {name: repr(error) for name, (error, _) in found.items() if not isinstance(error, expected)} == {}
    slowest = max(seconds for _, seconds in found.values())
    show(f"slowest of {len(found)} verbs in a black hole: {slowest:.2f} s of {DEADLINE:g} s")
    assert slowest < (2 * DEADLINE if CHAOS else 10 * DEADLINE)
    await assert_recovers(wide, proxy)


async def connect(store: PostgresStore, count: int) -> None:
    """Open so many connections: each call keeps its own until all have one."""
    all_have_one = asyncio.Barrier(count)
    store.pool.deadline = PATIENCE_S
    await asyncio.gather(*(store.pool.call(lambda _: all_have_one.wait()) for _ in range(count)))
    store.pool.deadline = DEADLINE


async def assert_recovers(store: PostgresStore, proxy: Proxy) -> None:
    """Heal the link; within five seconds the store works again."""
    proxy.heal()
    begin = time.perf_counter()

    async def works() -> bool:
        error, _ = await outcome(store, VERBS["count_jobs"])
        assert error is None or isinstance(error, StoreUnavailable | OutcomeUnknown)
        return error is None

    await until(works, "the store works again", patience_s=5.0)
    show(f"works again {time.perf_counter() - begin:.2f} s after the link healed")


async def test_a_link_that_falls_silent_after_the_answer_holds_nobody_up(far: PostgresStore, proxy: Proxy) -> None:
    """The answer is there; giving the connection back must not wait for the server either."""
    proxy.arm(Fault.SILENT_AFTER, ".take_ids(")
    far.pool.deadline = PATIENCE_S  # which nobody waits for
    async with asyncio.timeout(PATIENCE_S / 2):
        assert len(await far.take_ids(1)) == 1
    far.pool.deadline = DEADLINE
    await assert_recovers(far, proxy)


async def test_a_full_pool_in_a_black_hole_turns_callers_away_in_time(far: PostgresStore, proxy: Proxy) -> None:
    far.pool.deadline = PATIENCE_S
    await far.count_jobs()
    far.pool.deadline = DEADLINE
    proxy.silence()
    found = await asyncio.gather(*(outcome(far, VERBS["count_jobs"]) for _ in range(30)))
    assert {type(error) for error, _ in found} <= {OutcomeUnknown, StoreUnavailable}
    assert max(seconds for _, seconds in found) < (2 * DEADLINE if CHAOS else 10 * DEADLINE)
    await assert_recovers(far, proxy)


async def test_closing_in_a_black_hole_ends_in_time(proxy: Proxy, schema: str) -> None:
    store = PostgresStore(proxy.dsn, schema=schema)
    await store.open()
    await store.count_jobs()
    store.pool.deadline = DEADLINE
    proxy.silence()
    async with asyncio.timeout(10 * DEADLINE):
        await store.close()
    proxy.heal()


async def test_opening_into_a_black_hole_or_a_closed_door_is_unavailable(proxy: Proxy, schema: str) -> None:
    store = PostgresStore(proxy.dsn, schema=schema, deadline=DEADLINE)
    proxy.silence()
    with pytest.raises(StoreUnavailable):
        await store.open()
    proxy.heal()
    await proxy.close()
    with pytest.raises(StoreUnavailable):
        await store.open()


CUTS = (Fault.CUT_BEFORE, Fault.CUT_REPLY, Fault.CUT_WITHIN_REPLY)


def has_turn(number: int, fault: Fault) -> bool:
    """Whether a verb meets a fault: at every commit each verb meets one of them, at full size all."""
    return CHAOS or (number + CUTS.index(fault)) % len(CUTS) == 0


@pytest.mark.parametrize("fault", CUTS, ids=lambda f: f.name)
async def test_a_cut_link_is_a_typed_error_and_the_next_call_works(
    far: PostgresStore, proxy: Proxy, fault: Fault
) -> None:
    wrong = {}
    far.pool.deadline = PATIENCE_S  # a link that was cut is noticed without it
    for number, (name, call) in enumerate(VERBS.items()):
        # Once before, so that the statement is known and the cut meets its execution; its content may be refused.
        before, _ = await outcome(far, call)
        if not has_turn(number, fault):  # what later verbs find is there all the same
            continue
        faults = proxy.faults
        proxy.arm(fault, far.schema)
        cut, _ = await outcome(far, call)
        after, _ = await outcome(far, call)
        right = (
            (before is None or isinstance(before, WorkerLost))
            and (proxy.faults, type(cut)) == (faults + 1, OutcomeUnknown)
            and type(after) is type(before)
        )
        if not right:
            wrong[name] = (before, cut, after)
            proxy.disarm()
    assert wrong == {}


async def test_slow_links_only_cost_time(far: PostgresStore, proxy: Proxy) -> None:
    proxy.latency_s = 0.02
    far.pool.deadline = PATIENCE_S
    ids = await insert(far, 3)
    assert len(await far.get_jobs(ids)) == 3


async def test_a_session_that_the_server_ends_mid_call_is_unknown(
    postgres: PostgresStore, dsn: str, schema: str
) -> None:
    (job_id,) = await insert(postgres, 1)
    async with connected(dsn) as blocker, connected(dsn) as admin:
        async with blocker.transaction():
            await blocker.fetch(in_schema("SELECT FROM holdfast.jobs WHERE id = $1 FOR UPDATE", schema), job_id)
            cancelling = asyncio.create_task(postgres.cancel_jobs([job_id], actor=None, reason=None))
            await until_held_up(admin, schema, cancelling)
            ended = await admin.fetch(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE wait_event_type = 'Lock' AND position($1 IN query) > 0",
                schema,
            )
            assert len(ended) == 1
            with pytest.raises(OutcomeUnknown):
                await cancelling
        assert len(await postgres.get_jobs([job_id])) == 1


async def test_a_statement_that_the_server_cancels_changed_nothing(
    postgres: PostgresStore, dsn: str, schema: str
) -> None:
    (job_id,) = await insert(postgres, 1)
    async with connected(dsn) as blocker, connected(dsn) as admin, blocker.transaction():
        await blocker.fetch(in_schema("SELECT FROM holdfast.jobs WHERE id = $1 FOR UPDATE", schema), job_id)
        cancelling = asyncio.create_task(postgres.cancel_jobs([job_id], actor=None, reason=None))
        await until_held_up(admin, schema, cancelling)
        await admin.fetch(
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity "
            "WHERE wait_event_type = 'Lock' AND position($1 IN query) > 0",
            schema,
        )
        with pytest.raises(StoreUnavailable):
            await cancelling
    (job,) = await postgres.get_jobs([job_id])
    assert job.state == "queued"


async def test_idle_sessions_that_the_server_ends_are_replaced(dsn: str, schema: str) -> None:
    separator = "&" if "?" in dsn else "?"
    store = PostgresStore(f"{dsn}{separator}application_name={schema}", schema=schema)
    await store.open()
    await asyncio.gather(*(store.count_jobs() for _ in range(5)))
    async with connected(dsn) as admin:
        # By name: sessions of the tests themselves have spelt the schema in statements too.
        assert await admin.fetch(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", schema
        )
    # The first calls may still meet a dying connection; none of them may see anything but a typed error.
    found = await asyncio.gather(*(outcome(store, VERBS["count_jobs"]) for _ in range(10)))
    assert [error for error, _ in found if error is not None and not isinstance(error, HoldfastError)] == []
    assert (await outcome(store, VERBS["count_jobs"]))[0] is None
    await store.close()


async def test_a_call_that_met_its_deadline_at_a_lock_is_unknown(dsn: str, schema: str) -> None:
    store = PostgresStore(dsn, schema=schema)
    await store.open()
    (job_id,) = await insert(store, 1)
    async with connected(dsn) as blocker:
        async with blocker.transaction():
            await blocker.fetch(in_schema("SELECT FROM holdfast.jobs WHERE id = $1 FOR UPDATE", schema), job_id)
            store.pool.deadline = DEADLINE
            with pytest.raises(OutcomeUnknown):
                await store.cancel_jobs([job_id], actor=None, reason=None)
        store.pool.deadline = PATIENCE_S
        assert (await store.count_jobs()) is not None
    await store.close()
