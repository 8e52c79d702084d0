"""Hints over a link that breaks: listening heals by itself, says so once, and never raises."""

import asyncio
import logging
from collections.abc import Iterator

import pytest

from holdfast.stores.postgres import wakeups
from holdfast.stores.postgres.store import PostgresStore
from tests.support.connections import connected
from tests.support.hints import Heard, until_live
from tests.support.proxy import Proxy
from tests.support.wait import PATIENCE_S, until

pytestmark = pytest.mark.real_time

TASK = "holdfast listens"
LISTENERS = "FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND position($1 IN query) > 0"


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probe often, so that a silent link is noticed soon."""
    monkeypatch.setattr(wakeups, "PROBE_EVERY_S", 0.1)
    monkeypatch.setattr(wakeups, "PROBE_WAIT_S", 0.5)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """Give the levels of the lines that are logged."""
    levels: list[str] = []

    class Levels(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            levels.append(record.levelname)

    logger, handler = logging.getLogger("holdfast"), Levels()
    with caplog.at_level(logging.INFO, "holdfast"):
        logger.addHandler(handler)
        yield levels
        logger.removeHandler(handler)


async def channel_of(store: PostgresStore) -> str:
    return str(await store.fetch_value("wake_channel"))


async def test_a_listener_whose_session_is_ended_comes_back_and_misses_nothing(
    postgres: PostgresStore, dsn: str, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeups, "PROBE_EVERY_S", 3_600.0)  # it is the end of the session that is noticed
    monkeypatch.setattr(wakeups, "QUIET_S", 0.0)  # and said each time
    heard = Heard()
    channel = await channel_of(postgres)
    async with postgres.listen(["default", "other"], heard) as state, connected(dsn) as admin:
        await until_live(state)
        for _ in range(3):
            heard.forget()
            said.clear()
            assert await admin.fetch(f"SELECT pg_terminate_backend(pid) {LISTENERS}", channel)
            await postgres.announce(["default"])  # perhaps to nobody
            await heard.wait_for("default")
            await heard.wait_for("other")  # announced by nobody: whoever comes back wakes everybody
            await until_live(state)
            await until(lambda: said == ["WARNING", "INFO"], "it was said once that hints were lost and are back")


async def test_a_link_that_is_cut_is_made_anew(far: PostgresStore, proxy: Proxy, said: list[str]) -> None:
    heard = Heard()
    async with far.listen(["default"], heard) as state:
        await until_live(state)
        far.pool.deadline = PATIENCE_S  # a cut is noticed without it
        heard.forget()
        await proxy.cut_all()
        await heard.wait_for("default")
        await until_live(state)
        heard.forget()
        await far.announce(["default"])
        await heard.wait_for("default")
    assert said == ["WARNING", "INFO"]


async def test_a_link_that_falls_silent_is_noticed_and_made_anew(
    far: PostgresStore, proxy: Proxy, said: list[str]
) -> None:
    heard = Heard()
    async with far.listen(["default"], heard) as state:
        await until_live(state)
        far.pool.deadline = 2 * PATIENCE_S  # it is the probe that must not wait so long
        proxy.silence()
        await until(lambda: not state.is_live, "the silence is noticed")
        heard.forget()
        proxy.heal()
        await heard.wait_for("default")
        await until_live(state)
    assert said == ["WARNING", "INFO"]


async def test_only_the_listening_link_falls_silent(postgres: PostgresStore, proxy: Proxy) -> None:
    """The store itself is reached directly: only by hints to itself can the listener know."""
    heard = Heard()
    direct, postgres.pool.dsn = postgres.pool.dsn, proxy.dsn  # of which the listener takes its address
    async with postgres.listen(["default"], heard) as state:
        await until_live(state)
        proxy.silence()
        await until(lambda: not state.is_live, "the silence is noticed")
        postgres.pool.dsn = direct
        await until_live(state)
    proxy.heal()


async def test_a_server_that_cannot_be_reached_is_waited_for(far: PostgresStore, proxy: Proxy, said: list[str]) -> None:
    heard = Heard()
    proxy.silence()
    await proxy.cut_all()
    async with asyncio.timeout(PATIENCE_S), far.listen(["default"], heard) as state:
        assert not state.is_live  # and here we are already
        await until(lambda: said == ["WARNING"], "it was said that the server is away")
        assert heard.queues == []
        proxy.heal()
        await heard.wait_for("default")
        await until_live(state)
    assert said == ["WARNING", "INFO"]


async def test_a_pooler_that_swallows_listen_is_no_error(postgres: PostgresStore, said: list[str]) -> None:
    """What such a pooler does comes to this: LISTEN is accepted, and nothing ever arrives."""
    right = postgres.queries["wake_channel"]
    postgres.queries["wake_channel"] = "SELECT 'elsewhere'"
    heard = Heard()
    async with postgres.listen(["default"], heard) as state:
        await heard.wait_for("default")
        heard.forget()
        await heard.wait_for("default")  # the second connection: the first was given up
        assert not state.is_live
        assert said == ["WARNING"]
        postgres.queries["wake_channel"] = right
        await until_live(state)
    assert said == ["WARNING", "INFO"]


async def test_where_hints_never_arrive_it_is_not_tried_again_at_once(
    postgres: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeups, "PROBE_EVERY_S", 3_600.0)
    postgres.queries["wake_channel"] = "SELECT 'elsewhere'"
    pauses: list[float] = []
    real = asyncio.sleep

    async def spy(seconds: float) -> None:
        pauses.append(seconds)
        await real(seconds)

    monkeypatch.setattr(asyncio, "sleep", spy)
    async with postgres.listen(["default"], Heard()):
        await until(lambda: any(pause > 60 for pause in pauses), "it waits")


# ---- ends ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", ["none", "black hole", "black hole from the start", "cut"])
async def test_leaving_leaves_no_task_and_no_connection(
    far: PostgresStore, proxy: Proxy, dsn: str, trouble: str
) -> None:
    channel = await channel_of(far)
    if trouble == "black hole from the start":
        proxy.silence()
    async with asyncio.timeout(PATIENCE_S):
        async with far.listen(["default"], Heard()) as state:
            if trouble != "black hole from the start":
                await until_live(state)
            if trouble == "black hole":
                proxy.silence()
                await until(lambda: not state.is_live, "the silence is noticed")
            if trouble == "cut":
                await proxy.cut_all()
        assert [task for task in asyncio.all_tasks() if task.get_name() == TASK] == []
    proxy.heal()
    assert not state.is_live
    async with connected(dsn) as admin:

        async def is_gone() -> bool:
            return not await admin.fetch(f"SELECT {LISTENERS}", channel)

        await until(is_gone, "the server has no listener left")


async def test_leaving_while_it_connects_into_a_black_hole_takes_no_time(postgres: PostgresStore, proxy: Proxy) -> None:
    proxy.silence()
    direct, postgres.pool.dsn = postgres.pool.dsn, proxy.dsn
    loop = asyncio.get_running_loop()
    async with postgres.listen(["default"], Heard()):
        await until(lambda: proxy.links > 0, "it connects")
        begin = loop.time()
    assert loop.time() - begin < postgres.pool.deadline / 2
    postgres.pool.dsn = direct
    proxy.heal()
    await until(lambda: not proxy.links, "the connection is closed")
