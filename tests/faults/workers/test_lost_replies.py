"""The store has answered a worker, and the worker never hears it: nothing is stranded, nothing is taken for lost."""

import time

import pytest

from holdfast.job import JobRow, JobState
from tests.faults.workers.looking import held_for
from tests.support.figures import show
from tests.support.groups import Group
from tests.support.oracle import Oracle, all_ended
from tests.support.place import Place, own_url
from tests.support.proxy import Fault, Proxy, proxied
from tests.support.sizes import CHAOS, size
from tests.support.wait import until

pytestmark = [pytest.mark.real_time, pytest.mark.sample]

CUTS = size(3, 20)
LEASE_S = 2.0
JOBS = size(60, 400)


async def worked_through(
    place: Place, proxy: Proxy, marker: str, jobs: int, at_once: int
) -> tuple[Group, dict[int, JobRow], float]:
    """Let a worker do jobs while it loses replies to a statement; the last answer is how long it took."""
    group = place.start("--concurrency", "4", CHAOS_LEASE=str(LEASE_S), CHAOS_URL=own_url(proxy.dsn, place.schema))
    warm = await place.enqueue("plain", "default", ['{"ms": 0}'])
    await all_ended(place.store, warm)
    proxy.arm(Fault.CUT_REPLY, marker, times=CUTS)
    (child,) = group.children
    began = time.monotonic()
    ids: list[int] = []
    for _ in range(0, jobs, at_once):
        ids += await place.enqueue("plain", "default", ['{"ms": 20}'] * at_once)
        await all_ended(place.store, ids[-at_once:])
    found = await all_ended(place.store, ids)
    took = time.monotonic() - began
    await until(lambda: proxy.faults == CUTS, "replies are lost")
    assert group.children == [child], "the process lives through it"
    Oracle(found, place.notes(), await place.effects()).check(ids)
    assert all(job.state is JobState.COMPLETED for job in found.values())
    return group, found, took


@pytest.mark.parametrize("marker", [".claim_jobs(", ".exchange_jobs("])
@pytest.mark.guards("lost-claim-reply")
async def test_a_lost_reply_to_a_claim_strands_nothing(postgres_place: Place, dsn: str, marker: str) -> None:
    async with proxied(dsn) as proxy:
        jobs = JOBS if "exchange" in marker else 4
        group, found, took = await worked_through(postgres_place, proxy, marker, jobs, jobs)
    given_back = sum(attempt.outcome == "interrupt" for job in found.values() for attempt in job.attempts)
    show(f"{marker}: {proxy.faults} replies lost, {given_back} claims requeued, {jobs} jobs took {took:.2f} s")
    assert "is not known here" not in group.said(), "the worker waited until it noticed them by itself"
    assert max(held_for(found.values())) < LEASE_S + 1.5, "stranded for too long, by the store's clock"
    assert not CHAOS or took < LEASE_S + 1.5 + 0.1 * CUTS + 0.02 * jobs
    assert given_back, "the claims whose replies were lost had taken nothing"
    assert not any(job.crashes or job.attempt > 1 for job in found.values()), "charged for a lost reply"
    assert "was taken from this worker" not in group.said()


async def test_a_lost_reply_to_a_finish_is_no_lost_claim(postgres_place: Place, dsn: str) -> None:
    async with proxied(dsn) as proxy:
        # One after the other: then a finish travels without a claim.
        group, found, took = await worked_through(postgres_place, proxy, ".exchange_jobs(", CUTS, 1)
    show(f"{proxy.faults} replies to a finish lost, {took / CUTS:.2f} s each")
    assert "was taken from this worker" not in group.said(), "its own finish was taken for another's"
    assert not any(job.attempts for job in found.values()), "something ran again"
