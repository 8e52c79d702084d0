"""`kill -9` of workers behind a pooler: none lost, none completed twice, and nobody is in the way of the next."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.job import JobState
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import quoted
from tests.faults.workers.test_kills import Killer
from tests.pooler.bouncer import bounced, can_track
from tests.support.feed import Feed
from tests.support.oracle import Oracle, all_ended
from tests.support.place import Place, add_effects, chance, own_url
from tests.support.sizes import size

__all__ = ["chance"]

JOBS = size(200, 2_000)
KILLING_S = size(4, 20)
SERVERS = 4

pytestmark = [pytest.mark.real_time, pytest.mark.sample]


@pytest.fixture(params=(False, True) if can_track() else (False,))
async def place(request: pytest.FixtureRequest, dsn: str, schema: str, tmp_path: Path) -> AsyncIterator[Place]:
    """Give a place whose workers, and whose client, reach it through a pooler."""
    await add_effects(dsn, schema)
    with bounced(dsn, pool=SERVERS, tracks=request.param, at_connect=f"SET search_path TO {quoted(schema)}") as bouncer:
        store = PostgresStore(bouncer.dsn, schema=schema)
        await store.open()
        found = Place(own_url(dsn, schema), schema, tmp_path, store)
        found.env["CHAOS_URL"] = bouncer.dsn
        yield found
        found.close()
        await store.close()


@pytest.mark.timeout(180)
async def test_no_job_is_lost_to_kills_behind_a_pooler(place: Place, chance: random.Random) -> None:
    killer = Killer(place, chance, CHAOS_LEASE="2")
    await killer.arrive()
    feed = Feed(place, longest_ms=30)
    await asyncio.gather(feed.serve(JOBS, KILLING_S), killer.rage(KILLING_S))
    jobs = await all_ended(place.store, feed.accepted, 90)
    Oracle(jobs, place.notes(), await place.effects()).check(feed.accepted)
    assert not feed.errors
    assert all(job.state is JobState.COMPLETED for job in jobs.values())
    assert len(killer.kills) >= KILLING_S // 2, "too few kills"
    assert killer.groups_killed >= 1
    assert all(group.process.poll() is None for group in killer.groups), "a supervisor died that nobody killed"
