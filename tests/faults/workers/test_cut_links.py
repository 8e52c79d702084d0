"""Links that fall silent or are reset under load: nothing is lost, and work goes on by itself."""

import asyncio
import json
import time

import pytest

from holdfast.job import JobState
from tests.faults.workers.crew import Crew, assert_no_rescue, judged, resumed_after, starts
from tests.support.feed import Feed
from tests.support.figures import show
from tests.support.groups import Group
from tests.support.oracle import Oracle, all_ended, loudest
from tests.support.pace import every
from tests.support.place import Place, own_url
from tests.support.proxy import proxied
from tests.support.sizes import size
from tests.support.wait import until

pytestmark = [pytest.mark.real_time, pytest.mark.sample, pytest.mark.xdist_group("heavy")]

PATIENCE = size(3, 1)  # how much longer anything may take where other tests run beside this one


# ---- the network -----------------------------------------------------------------------------------------------------


@pytest.mark.timeout(size(120, 300))
@pytest.mark.chaos
async def test_a_black_hole(postgres_place: Place, dsn: str) -> None:
    """Row B3: nothing comes through, for longer than a lease and than a deadline, and no link breaks."""
    lease, silent_s = size(3, 10), size(6, 60)
    async with proxied(dsn) as proxy:
        url = own_url(proxy.dsn, postgres_place.schema)
        crew = Crew(postgres_place, CHAOS_URL=url, CHAOS_LEASE=str(lease), CHAOS_DEADLINE=f"{size(2, 10)}s")
        await crew.arrive()
        feed = Feed(postgres_place, longest_ms=200)
        await feed.serve(size(150, 1_000), 2)
        proxy.silence()
        silent_at = time.monotonic()
        await feed.serve(size(150, 1_000), silent_s)
        late = [at for at in starts(postgres_place.notes()) if at > silent_at + lease]
        proxy.heal()
        healed_at = time.monotonic()
        jobs = await judged(crew, await feed.stored())
        resumed = resumed_after(postgres_place.notes(), healed_at)
        await crew.check_supervisors()
        assert_no_rescue(crew, jobs)
        assert not late
        assert "lease could not be renewed" in crew.said()
        show(f"silent for {silent_s} s, lease {lease} s: work resumed within {resumed:.2f} s")
        assert resumed <= 5 * PATIENCE


@pytest.mark.timeout(size(120, 300))
@pytest.mark.guards("lease-fence")
async def test_a_worker_that_is_cut_off_alone(postgres_place: Place, dsn: str) -> None:
    """Row B4: its handlers are stopped before its lease ends, its jobs run elsewhere, its late word is refused."""
    place, lease, gate = postgres_place, size(5, 10), postgres_place.folder / "gate"
    async with proxied(dsn) as proxy:
        env = {"CHAOS_LEASE": str(lease), "CHAOS_DEADLINE": "2s"}
        cut_off = place.start(CHAOS_URL=own_url(proxy.dsn, place.schema), **env)
        long = await place.enqueue("gated", "default", [json.dumps({"gate": str(gate)})])
        await until(lambda: len(starts(place.notes())) == 1, "the long job runs")
        place.start(**env)
        await place.arrived(2)
        # Some of these run where nobody can be told of their end.
        short = await place.enqueue("plain", "default", ['{"ms": 1000}'] * 16)
        await until(lambda: len(starts(place.notes())) >= 7, "as many run as can")
        proxy.silence()
        lease_ends = await end_of_lease(place, cut_off)
        await until(lambda: any(note.job in long and note.claim > 1 for note in place.notes()), "it begins elsewhere")
        gate.touch()
        jobs = await all_ended(place.store, long + short)
        proxy.heal()
        Oracle(jobs, place.notes(), await place.effects()).check(long + short)
        told = [note for note in place.notes() if note.what == "cancel"]
        assert [note.job for note in told] == long
        assert told[0].at < lease_ends
        again = [note for note in place.notes() if note.what == "begin" and note.claim > told[0].claim]
        assert {note.job for note in again} > set(long)
        assert not {note.pid for note in again} & set(cut_off.children)
        assert all(note.at > told[0].at for note in again if note.job in long)
        await until(lambda: "was taken from this worker" in cut_off.said(), "its late word is refused")
        assert all(job.state is JobState.COMPLETED for job in jobs.values())
        show(f"lease {lease} s: the handler was told {lease_ends - told[0].at:.2f} s before its end")
        # Under a fresh id it works on.
        await place.arrived(2)
        more = await place.enqueue("plain", "default", ['{"ms": 700}'] * 16)
        await all_ended(place.store, more)
        assert {note.pid for note in place.notes() if note.job in more} > set(cut_off.children)


async def end_of_lease(place: Place, group: Group) -> float:
    """When the lease of a group ends, by the monotonic clock."""
    rows = await place.store.list_workers()
    now, moment = (await place.store.diagnose()).now, time.monotonic()
    ends = [row.lease_until for row in rows if row.info.pid in group.children]
    return moment + (ends[0] - now).total_seconds()


@pytest.mark.timeout(size(120, 300))
@pytest.mark.chaos
async def test_a_storm_of_resets(postgres_place: Place, dsn: str) -> None:
    """Row B5: every link is reset, five times a second."""
    seconds = size(6, 30)
    async with proxied(dsn) as proxy:
        crew = Crew(postgres_place, CHAOS_URL=own_url(proxy.dsn, postgres_place.schema))
        await crew.arrive()
        feed = Feed(postgres_place, longest_ms=30)
        feeding = asyncio.create_task(feed.serve(size(500, 5_000), seconds))
        storms = 0
        async for _ in every(0.2, lambda: not feeding.done()):
            await proxy.cut_all()
            storms += 1
        await feeding
        jobs = await judged(crew, await feed.stored())
        await crew.check()
        assert storms >= 4 * seconds
        count, text = loudest(crew.said())
        show(f"{storms} storms, {len(jobs)} jobs, loudest: {count} x {text}")
        assert count <= (seconds + 5) * crew.processes
