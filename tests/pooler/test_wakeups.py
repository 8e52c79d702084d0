"""Hints and poolers: none come through one, which is said once, and all come past it."""

import asyncio
import logging

import pytest

from holdfast import Holdfast
from holdfast.errors import ConfigError
from holdfast.stores.postgres import wakeups
from holdfast.stores.postgres.store import PostgresStore
from tests.pooler.bouncer import Bouncer
from tests.support.connections import connected
from tests.support.hints import Heard, until_live
from tests.support.moments import Moments
from tests.support.wait import until

_LISTENERS = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND position($1 IN query) > 0"


async def test_nobody_listens_through_it_and_it_is_said_once(
    pooled: PostgresStore,
    dsn: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    moments: Moments,
) -> None:
    monkeypatch.setattr(wakeups, "PROBE_EVERY_S", 0.05)
    with caplog.at_level(logging.INFO, "holdfast"):
        async with pooled.listen(["default"], Heard()) as state, connected(dsn) as admin:
            await moments.wait("hints_lost", times=3)
            assert not state.is_live
            await pooled.announce(["default"])
            assert await admin.fetchval(_LISTENERS, await pooled.fetch_value("wake_channel")) == 0
    (line,) = caplog.messages
    assert "do not arrive (a pooler is in between; give the app `listen_dsn`" in line


async def test_hints_are_heard_past_it(bouncer: Bouncer, dsn: str, schema: str) -> None:
    store, heard = PostgresStore(bouncer.dsn, schema=schema, listen_dsn=dsn), Heard()
    await store.open()
    async with store.listen(["default"], heard) as state:
        await until_live(state)
        heard.forget()
        await store.announce(["default"])
        await heard.wait_for("default")
    await store.close()


@pytest.mark.parametrize("is_told", [True, False])
async def test_jobs_start_with_and_without_hints(bouncer: Bouncer, dsn: str, schema: str, *, is_told: bool) -> None:
    app = Holdfast(bouncer.dsn, schema=schema, listen_dsn=dsn if is_told else None)
    started: list[int] = []

    @app.task
    async def work(number: int) -> None:
        started.append(number)

    async with app:
        stop = asyncio.Event()
        worker = asyncio.create_task(app.run_worker(stop=stop))
        for number in range(5):
            await work.enqueue(number)
            await until(lambda: number in started, "it is started")  # noqa: B023 - called before the next turn
        stop.set()
        await worker


def test_the_address_to_listen_at_is_checked_and_kept_secret() -> None:
    with pytest.raises(ConfigError, match=r"listen_dsn: expected postgresql://.* got 'mysql://u:\*\*\*@h/d'") as caught:
        Holdfast("postgresql://h/d", listen_dsn="mysql://u:hunter2@h/d")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(ConfigError, match=r"listen_dsn: .* escape special characters"):
        Holdfast("postgresql://h/d", listen_dsn="postgresql://u:hunter2@h:port/d")
    app = Holdfast("postgresql://h/d", listen_dsn="postgresql://u:hunter2@h/d")
    assert app.config.listen_dsn == "postgresql://u:hunter2@h/d"
    assert "hunter2" not in repr(app.config)
