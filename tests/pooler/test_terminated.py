"""The listening session is terminated again and again: jobs start promptly, and the listener comes back."""

import asyncio
import time

import pytest

from holdfast import Holdfast, WorkerSettings
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.store import Listening
from tests.support.connections import connected
from tests.support.figures import show
from tests.support.hints import until_live
from tests.support.sizes import size
from tests.support.wait import until

pytestmark = pytest.mark.real_time

KILLS = size(5, 60)
_TERMINATE = """SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                WHERE query LIKE 'LISTEN%' AND position($1 IN query) > 0"""


class Murderer:
    """Ends the listening session again and again, and measures how long hints are away."""

    def __init__(self, dsn: str, channel: str, listening: Listening) -> None:
        self.gaps: list[float] = []
        self._dsn = dsn
        self._channel = channel
        self._listening = listening

    async def rage(self) -> None:
        """Kill so often, each time when hints come again."""
        async with connected(self._dsn) as admin:
            for _ in range(KILLS):
                await until_live(self._listening)
                begin = time.monotonic()
                assert await admin.fetchval(_TERMINATE, self._channel) >= 1
                await until(lambda: not self._listening.is_live, "hints are away")
                await until_live(self._listening)
                self.gaps.append(time.monotonic() - begin)


@pytest.mark.timeout(10 * KILLS + 60)
async def test_jobs_start_promptly_while_the_listening_session_is_terminated(dsn: str, schema: str) -> None:
    # The worker looks by itself once an hour: what starts was hinted, or found when the listener came back.
    app = Holdfast(dsn, schema=schema, worker=WorkerSettings(poll="1h"))
    lags: list[float] = []

    @app.task
    async def work(asked: float) -> None:
        lags.append(time.monotonic() - asked)

    async with app:
        store, stop = app.store, asyncio.Event()
        assert isinstance(store, PostgresStore)
        channel = str(await store.fetch_value("wake_channel"))
        worker = asyncio.create_task(app.run_worker(stop=stop))
        async with store.listen(["default"], lambda _: None) as own:
            killer = Murderer(dsn, channel, own)
            raging = asyncio.create_task(killer.rage())
            while not raging.done():
                begun = len(lags)
                await work.enqueue(time.monotonic())
                await until(lambda before=begun: len(lags) > before, "the job has started")
            await raging
        stop.set()
        await worker
    show(
        f"{KILLS} kills; back after {max(killer.gaps):.2f} s, {len(lags)} jobs started after {max(lags):.2f} s at most"
    )
