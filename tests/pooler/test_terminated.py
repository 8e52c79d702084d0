"""The listening session is terminated again and again: jobs start in time, and the listener is soon back."""

import asyncio
import time

import pytest

from holdfast import Holdfast, WorkerSettings
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.store import Listening
from tests.support.connections import connected
from tests.support.figures import show
from tests.support.sizes import size

pytestmark = pytest.mark.real_time

SECONDS = size(5, 60)
EVERY_S = 0.1
POLL_S = 1.0
LATE_S = POLL_S + 0.5
BACK_S = 2.0
_TERMINATE = """SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                WHERE query LIKE 'LISTEN%' AND position($1 IN query) > 0"""


class Murderer:
    """Ends the listening session every second, and measures how long hints are away."""

    def __init__(self, dsn: str, channel: str, listening: Listening) -> None:
        self.gaps: list[float] = []
        self._dsn = dsn
        self._channel = channel
        self._listening = listening

    async def rage(self) -> None:
        """Kill until cancelled."""
        async with connected(self._dsn) as admin:
            while True:
                await self._live(wanted=True)
                begin = time.monotonic()
                assert await admin.fetchval(_TERMINATE, self._channel) >= 1
                await self._live(wanted=False)
                await self._live(wanted=True)
                self.gaps.append(time.monotonic() - begin)
                await asyncio.sleep(max(0.0, begin + 1 - time.monotonic()))

    async def _live(self, *, wanted: bool) -> None:
        while self._listening.is_live is not wanted:
            await asyncio.sleep(0.002)


@pytest.mark.timeout(SECONDS + 60)
async def test_jobs_start_in_time_while_the_listening_session_is_terminated(dsn: str, schema: str) -> None:
    app = Holdfast(dsn, schema=schema, worker=WorkerSettings(poll=POLL_S))
    enqueued: dict[int, float] = {}
    lags: list[float] = []

    @app.task
    async def work(number: int) -> None:
        lags.append(time.monotonic() - enqueued[number])

    async with app:
        store, stop = app.store, asyncio.Event()
        assert isinstance(store, PostgresStore)
        channel = str(await store.fetch_value("wake_channel"))
        worker = asyncio.create_task(app.run_worker(stop=stop))
        async with store.listen(["default"], lambda _: None) as own:
            killer = Murderer(dsn, channel, own)
            raging = asyncio.create_task(killer.rage())
            jobs = round(SECONDS / EVERY_S)
            for number in range(jobs):
                enqueued[number] = time.monotonic()
                await work.enqueue(number)
                await asyncio.sleep(EVERY_S)
            end = time.monotonic() + 10
            while len(lags) < jobs and time.monotonic() < end:
                await asyncio.sleep(0.01)
            raging.cancel()
            await asyncio.wait([raging])
            assert raging.cancelled(), raging.exception()
        stop.set()
        await worker
    assert len(lags) == jobs
    assert len(killer.gaps) >= SECONDS - 2
    show(f"{len(killer.gaps)} kills; back after {max(killer.gaps):.2f} s, started after {max(lags):.2f} s at most")
    assert max(lags) <= LATE_S
    assert max(killer.gaps) <= BACK_S
