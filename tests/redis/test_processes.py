"""Worker processes as users start them, with delivery by Redis: their settings travel over a pipe, on each store."""

import signal
from collections.abc import AsyncIterator

import pytest

from holdfast import Holdfast
from holdfast.job import JobState
from tests.redis.program import make_app
from tests.redis.prompt import known
from tests.support.groups import send
from tests.support.oracle import Oracle, all_ended
from tests.support.place import Place
from tests.support.valkey import Valkey
from tests.support.wait import PATIENCE_S, until

pytestmark = [pytest.mark.real_time, pytest.mark.sample]

APP = "tests.redis.program:app"
# Workers look by themselves once an hour, and nothing is announced again: what starts was delivered.
PROMPT = {"REDIS_TEST_POLL": "1h", "REDIS_TEST_HOLES": "sweep"}


@pytest.fixture
async def app(place: Place, valkey: Valkey, other_valkey: Valkey) -> AsyncIterator[Holdfast]:
    place.env |= {"REDIS_TEST_HIGH": valkey.url, "REDIS_TEST_LOW": other_valkey.url}
    async with make_app(place.url, place.schema, valkey.url, other_valkey.url) as app:
        yield app


def calls(valkey: Valkey, command: str) -> int:
    """How often a server was asked."""
    stats = valkey.ask("INFO", "commandstats")
    assert isinstance(stats, dict)
    return int(stats.get(f"cmdstat_{command}", {"calls": 0})["calls"])


async def enqueue(app: Holdfast, count: int) -> list[int]:
    task = app.tasks.get("effect")
    handles = await app.enqueue_many(task.using(priority=number % 11).call(number % 5) for number in range(count))
    return [known(handle) for handle in handles]


@pytest.mark.timeout(120)
async def test_processes_take_ids_from_both_servers(
    place: Place, app: Holdfast, valkey: Valkey, other_valkey: Valkey
) -> None:
    group = place.start("--processes", "2", "--concurrency", "4", app=APP)
    await place.arrived(2)
    ids = await enqueue(app, 200)
    jobs = await all_ended(place.store, ids, 60)
    Oracle(jobs, place.notes(), await place.effects()).check(ids)
    assert {job.state for job in jobs.values()} == {JobState.COMPLETED}
    assert all(calls(server, "zpopmin") for server in (valkey, other_valkey))
    assert "is lost" not in group.said()


@pytest.mark.timeout(120)
async def test_a_drained_worker_leaves_nothing_behind(place: Place, app: Holdfast) -> None:
    ids = await enqueue(app, 100)
    group = place.start("--drain", "--processes", "2", "--concurrency", "4", app=APP)
    assert await group.ended(60) == 0, group.said()
    jobs = await all_ended(place.store, ids, 1)
    assert {(job.state, job.claim) for job in jobs.values()} == {(JobState.COMPLETED, 1)}


@pytest.mark.timeout(120)
async def test_what_a_killed_process_held_starts_again_promptly(place: Place, app: Holdfast) -> None:
    place.start("--processes", "2", "--concurrency", "8", app=APP, **PROMPT)
    await place.arrived(2)
    handles = await app.enqueue_many(app.tasks.get("stall").call() for _ in range(4))
    await until(lambda: len(place.notes()) == 4, "all have begun", 30)
    first = place.notes()[0].pid
    others = {note.job for note in place.notes() if note.pid != first}
    assert send(first, signal.SIGKILL)
    jobs = await all_ended(place.store, [known(handle) for handle in handles if known(handle) not in others], 60)
    for job in jobs.values():
        assert (job.state, job.claim) == (JobState.COMPLETED, 2)


@pytest.mark.timeout(120)
async def test_jobs_start_promptly(place: Place, app: Holdfast) -> None:
    place.start("--concurrency", "4", app=APP, **PROMPT)
    await place.arrived(1)
    for _ in range(20):
        await all_ended(place.store, await enqueue(app, 1), PATIENCE_S)
