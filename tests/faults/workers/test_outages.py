"""The server goes away under load, in every way it can: no process exits, nothing is lost, work goes on by itself."""

import asyncio
import contextlib
import random
import time
from pathlib import Path

import asyncpg
import pytest

from holdfast.stores.sql import quoted
from tests.faults.workers.crew import Crew, assert_no_rescue, judged, resumed_after, starts
from tests.faults.workers.servers import place_on, served
from tests.support.feed import Feed
from tests.support.figures import show
from tests.support.oracle import loudest
from tests.support.pace import every, lasts
from tests.support.place import Place
from tests.support.sizes import size
from tests.support.wait import until

pytestmark = [pytest.mark.real_time, pytest.mark.sample, pytest.mark.xdist_group("heavy")]

FAULT_S = size(4, 60)
RESTARTS = 2  # at least
PATIENCE = size(3, 1)  # how much longer anything may take where other tests run beside this one


# ---- the server ------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(size(120, 600))
async def test_a_server_that_restarts_again_and_again(tmp_path: Path, server_folder: Path) -> None:
    """Row C1: stopped at once and started again, down for up to two seconds."""
    jobs, seconds = size(200, 5_000), size(5, 120)
    readies: list[float] = []
    async with served(server_folder) as server, place_on(server.dsn, tmp_path, deadline=2) as place:
        crew = Crew(place)
        await crew.arrive()
        feed = Feed(place, longest_ms=400)  # which keeps every slot busy
        feeding = asyncio.create_task(feed.serve(jobs, seconds))
        async for _ in every(
            lambda: random.uniform(5, 10) / size(5, 1), lambda: not feeding.done() or len(readies) < RESTARTS
        ):
            server.stop()
            await lasts(random.uniform(0, 2))
            server.start()
            readies.append(await server.ready())
        await feeding
        ids = await feed.stored()
        await judged(crew, ids)
        await crew.check()
        notes = place.notes()
        slowest = max(resumed_after(notes, ready) for ready in readies)
        show(f"{len(readies)} restarts, {len(ids)} jobs, work resumed within {slowest:.2f} s, errors {feed.errors}")
        assert len(readies) >= RESTARTS
        assert feed.errors
        assert slowest <= 3 * PATIENCE


@pytest.mark.timeout(size(120, 300))
async def test_sessions_that_are_ended(postgres_place: Place, dsn: str) -> None:
    """Row C2: every 100 ms the server ends a session of the workers, whichever."""
    crew = Crew(postgres_place)
    await crew.arrive()
    feed = Feed(postgres_place, longest_ms=30)
    feeding = asyncio.create_task(feed.serve(size(300, 5_000), FAULT_S))
    own = await asyncpg.connect(dsn)
    ended = 0
    async for _ in every(0.1, lambda: not feeding.done()):
        sql = "SELECT pid FROM pg_stat_activity WHERE application_name = $1"
        sessions = [row["pid"] for row in await own.fetch(sql, postgres_place.schema)]
        if sessions:
            ended += bool(await own.fetchval("SELECT pg_terminate_backend($1)", random.choice(sessions)))
    await own.close()
    await feeding
    jobs = await judged(crew, await feed.stored())
    await crew.check()
    assert ended >= 5 * FAULT_S
    count, text = loudest(crew.said())
    show(f"{ended} sessions ended, {len(jobs)} jobs, loudest: {count} x {text}")


@pytest.mark.timeout(size(120, 300))
async def test_a_table_that_is_locked(postgres_place: Place, dsn: str) -> None:
    """Row C13: somebody keeps the table of jobs to himself, for longer than a lease."""
    lease, locked_s = size(3, 10), size(4, 20)
    crew = Crew(postgres_place, CHAOS_LEASE=str(lease), CHAOS_DEADLINE=f"{size(2, 10)}s")
    await crew.arrive()
    feed = Feed(postgres_place, longest_ms=200, kinds=(("plain", "default"), ("effect", "effects")))
    await feed.serve(size(100, 1_000), size(1, 2))
    own = await asyncpg.connect(dsn)
    await own.execute(f"BEGIN; LOCK TABLE {quoted(postgres_place.schema)}.jobs IN ACCESS EXCLUSIVE MODE")
    locked_at = time.monotonic()
    await lasts(locked_s)
    begun = [at for at in starts(postgres_place.notes()) if at > locked_at]
    await own.execute("COMMIT")
    unlocked_at = time.monotonic()
    await own.close()
    jobs = await judged(crew, await feed.stored())
    resumed = resumed_after(postgres_place.notes(), unlocked_at)
    await crew.check_supervisors()
    assert_no_rescue(crew, jobs)
    assert len(begun) <= 3 * 4 * len(crew.groups)  # what had been claimed before
    show(f"locked for {locked_s} s, lease {lease} s: work resumed within {resumed:.2f} s")
    assert resumed <= 5 * PATIENCE


@pytest.mark.timeout(size(120, 300))
async def test_a_server_that_takes_no_more_connections(tmp_path: Path, server_folder: Path) -> None:
    """Row C12: workers keep the connection for their leases, and everything else has to wait."""
    lease, famine_s = size(3, 10), size(5, 30)
    async with (
        served(server_folder, f"max_connections={size(30, 40)}") as server,
        place_on(server.dsn, tmp_path, deadline=2) as place,
    ):
        crew = Crew(place, CHAOS_LEASE=str(lease), CHAOS_DEADLINE="2s")
        await crew.arrive()
        own = await asyncpg.connect(server.dsn)
        running = await place.enqueue("patient", "default", [f'{{"ms": {(famine_s - 1) * 1_000}}}'] * 3)
        await until(lambda: len(starts(place.notes())) == 3, "the long jobs run")
        waiting = await place.enqueue("plain", "default", ['{"ms": 20}'] * size(100, 1_000))
        leases: set[int] = set()

        async def all_seen() -> bool:
            leases.update(row["pid"] for row in await own.fetch(_LEASES, place.schema))
            return len(leases) == len(crew.groups)

        await until(all_seen, "the sessions of all leases are seen")
        starving, end, ended = Famine(server.dsn), time.monotonic() + famine_s, 0
        async for _ in every(0.05, lambda: time.monotonic() < end):
            await starving.fill()
            ended += len(await own.fetch(_STARVE, place.schema, leases))
        waiting += await place.enqueue("plain", "default", ['{"ms": 20}'] * size(100, 1_000))
        await starving.end()
        fed_at = time.monotonic()
        await own.close()
        jobs = await judged(crew, running + waiting)
        resumed = resumed_after(place.notes(), fed_at)
        await crew.check()
        assert_no_rescue(crew, jobs)
        assert {note.what for note in place.notes()} == {"begin", "end"}  # nobody was asked to stop
        assert "lease could not be renewed" not in crew.said()
        assert "too many clients" in crew.said()
        show(f"{starving.most} sleepers, {ended} sessions ended: work resumed within {resumed:.2f} s")
        assert resumed <= 5 * PATIENCE


_LEASES = """
SELECT pid FROM pg_stat_activity
WHERE application_name = $1 AND (query LIKE '%SET renewed_at%' OR query LIKE '%cancel_requested_at IS NOT NULL AS%')
"""
_STARVE = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1 AND pid <> ALL ($2::int[])
"""


@pytest.mark.timeout(size(120, 300))
async def test_a_server_that_refuses_logins(tmp_path: Path, server_folder: Path) -> None:
    """A password that changes on the server first: what handlers returned meanwhile is kept, and stored once."""
    refused_s = size(3, 20)
    async with served(server_folder) as server, place_on(server.dsn, tmp_path, deadline=2) as place:
        crew = Crew(place)
        await crew.arrive()
        own = await asyncpg.connect(server.dsn)
        ended_in_vain = await place.enqueue("plain", "default", ['{"ms": 1500}'] * 8)
        await until(lambda: len(starts(place.notes())) == 8, "as many run as can")
        waiting = await place.enqueue("effect", "effects", ['{"ms": 20}'] * size(100, 1_000))
        await own.execute("ALTER ROLE postgres NOLOGIN")
        sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1"
        ended = len(await own.fetch(sql, place.schema))
        await lasts(refused_s)
        await own.execute("ALTER ROLE postgres LOGIN")
        welcome_at = time.monotonic()
        await own.close()
        jobs = await judged(crew, ended_in_vain + waiting)
        resumed = resumed_after(place.notes(), welcome_at)
        await crew.check()
        assert ended >= crew.processes
        assert "not permitted to log in" in crew.said()
        assert_no_rescue(crew, jobs)
        count, text = loudest(crew.said())
        show(f"{ended} sessions ended for {refused_s} s, loudest {count} x {text}: resumed within {resumed:.2f} s")
        assert {note.claim for note in place.notes() if note.job in ended_in_vain} == {1}  # none ran twice
        assert resumed <= 5 * PATIENCE
        assert count <= (refused_s + 3) * crew.processes


class Famine:
    """Connections that do nothing, as many as the server takes."""

    def __init__(self, dsn: str) -> None:
        self.most = 0
        self._dsn = dsn
        self._sleepers: list[asyncpg.Connection[asyncpg.Record]] = []

    async def fill(self) -> None:
        with contextlib.suppress(asyncpg.TooManyConnectionsError):
            while True:
                self._sleepers.append(await asyncpg.connect(self._dsn))
        self.most = max(self.most, len(self._sleepers))

    async def end(self) -> None:
        for sleeper in self._sleepers:
            await sleeper.close()
