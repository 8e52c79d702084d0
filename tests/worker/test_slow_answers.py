"""A lease counts from when its renewal was sent, and not from when the store answered, however late that was."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.client.lock_keeper import NOBODY, Held, LockKeeper
from holdfast.client.subscription import EventFilter, EventsMissed
from holdfast.client.watching import Watching
from holdfast.resources.event import Event
from holdfast.services.leader import StoreLeader
from holdfast.services.rescue import RescueService
from holdfast.services.sweeps import NEVER
from holdfast.stores.cluster import LockAnswer, LockRequest
from holdfast.stores.values import Horizon, Renewal, Rescued
from holdfast.worker.lease import Lease
from tests.support.wait import PATIENCE_S, until


class Clock:
    """The monotonic clock of the code under test; only the test and its store move it."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        """Give the time in seconds."""
        return self.now

    def monotonic_ns(self) -> int:
        """Give the time in nanoseconds."""
        return round(self.now * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Give the clock of leases, leaders, locks and rescues to the test; the event loop keeps its own."""
    found = Clock()
    for module in ("worker.lease", "services.leader", "services.rescue", "client.lock_keeper", "client.watching"):
        fake = SimpleNamespace(monotonic=found.monotonic, monotonic_ns=found.monotonic_ns)
        monkeypatch.setattr(f"holdfast.{module}.time", fake)
    return found


class SlowStore:
    """A store whose answers take their time."""

    def __init__(self, clock: Clock, takes_s: float) -> None:
        self.clock = clock
        self.takes_s = takes_s
        self.befores: list[datetime] = []
        self.renewals = 0

    async def renew_workers(self, workers: Sequence[int], lease_ms: int, memory: object) -> Renewal:
        """Say that all are alive."""
        self.clock.now += self.takes_s
        return Renewal(frozenset(workers), [])

    async def lead(self, name: str, holder: str, term: int | None, lease_ms: int) -> int:
        """Let anybody lead."""
        self.clock.now += self.takes_s
        return 1

    async def take_lock(self, request: LockRequest, *, lasts_ms: int, waits_ms: int) -> LockAnswer:
        """Give the lock."""
        self.clock.now += self.takes_s
        return LockAnswer(1, datetime.now(UTC), None)

    async def renew_locks(self, owners: Sequence[str], lasts_ms: int) -> set[str]:
        """Say that all are held."""
        self.clock.now += self.takes_s
        self.renewals += 1
        return set(owners)

    async def release_lock(self, name: str, owner: str) -> bool:
        """Say that no other waits."""
        return False

    async def force_cancels(self, grace_ms: int, limit: int) -> tuple[int, ...]:
        """Find none."""
        return ()

    async def rescue_jobs(self, limit: int, *, before: datetime) -> Rescued:
        """Find none, and remember who might have been judged."""
        self.clock.now += self.takes_s
        self.befores.append(before)
        return Rescued(0, (), (), (), datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self.clock.now))

    async def sweep_limits(self, name: str, limit: int, *, leaks: bool) -> None:
        """Find none."""


class SlowEvents:
    """A store of events that tells nothing, and takes its time."""

    def __init__(self, clock: Clock, takes_s: float) -> None:
        self.clock = clock
        self.takes_s = takes_s
        self.watches = 0

    async def watch(self, watcher: str, lasts_ms: int) -> None:
        """Let events be written."""
        self.clock.now += self.takes_s
        self.watches += 1

    async def unwatch(self, watcher: str) -> None:
        """Let them be."""

    async def first_event(self, patience_s: float) -> Horizon:
        """Begin at the beginning."""
        return Horizon(0)

    async def read_events(self, after: int, missing: Sequence[int], limit: int) -> list[Event]:
        """Find none."""
        return []


class NoDelivery:
    """Carries no hint."""

    def hint(self, queues: Iterable[str]) -> None:
        """Lose it."""

    @asynccontextmanager
    async def wakeups(self, queues: Sequence[str], wake: object) -> AsyncIterator[None]:
        """Hear nothing."""
        yield


@pytest.mark.guards("renewal-from-sending")
@pytest.mark.parametrize("takes_s", [0.0, 3.0, 7.0])
async def test_a_renewal_counts_from_its_sending(clock: Clock, takes_s: float) -> None:
    store: Any = SlowStore(clock, takes_s)
    told: list[int] = []
    lease = Lease(store, 10.0, lambda: {1: None}, lambda renewal, sent: told.append(sent))
    sent = clock.now = clock.now + 2.0
    await lease.renew()
    assert clock.now == sent + takes_s
    assert told == [round(sent * 1e9)], "the jobs are trusted as long as the lease"
    assert lease.is_trusted
    clock.now = sent + 7.9
    assert lease.is_trusted
    clock.now = sent + 8.1
    assert not lease.is_trusted, "the store may have counted from the sending"


async def test_an_answer_that_came_after_the_lease_is_not_trusted(clock: Clock) -> None:
    store: Any = SlowStore(clock, 8.5)
    lease = Lease(store, 10.0, lambda: {1: None}, lambda renewal, sent: None)
    await lease.renew()
    assert not lease.is_trusted


@pytest.mark.guards("leader-from-asking")
@pytest.mark.parametrize("takes_s", [0.0, 4.0, 8.5])
async def test_a_leader_leads_from_its_asking(clock: Clock, takes_s: float) -> None:
    store: Any = SlowStore(clock, takes_s)
    leader = StoreLeader(store, lease_s=10.0)
    asked = clock.now
    await leader.ask()
    assert leader.is_leader
    clock.now = asked + 8.9
    assert leader.is_leader
    clock.now = asked + 9.1
    assert not leader.is_leader, "another may lead from now on"


async def test_who_learns_too_late_that_it_leads_does_not(clock: Clock) -> None:
    store: Any = SlowStore(clock, 9.5)
    leader = StoreLeader(store, lease_s=10.0)
    await leader.ask()
    assert not leader.is_leader


@asynccontextmanager
async def held_lock(store: Any) -> AsyncIterator[Held]:
    """Hold a lock for 30 seconds, whose keeper looks around all the time."""
    delivery: Any = NoDelivery()
    locks = LockKeeper(store, delivery)
    locks.poll_s = 0.001
    held = await locks.take("stock", NOBODY, "here", body=None)
    yield held
    await locks.release(held)
    await locks.close()


@pytest.mark.guards("lock-from-asking")
@pytest.mark.parametrize("takes_s", [0.0, 11.0])
async def test_a_lock_is_trusted_from_its_asking(clock: Clock, takes_s: float) -> None:
    asked = clock.now
    async with held_lock(SlowStore(clock, takes_s)) as held:
        assert held.trusted_until == asked + 24.0, "a fifth of its time before others may have it"


@pytest.mark.guards("lock-renewal")
async def test_a_renewed_lock_is_trusted_from_the_sending_of_its_renewal(clock: Clock) -> None:
    store = SlowStore(clock, 0.0)
    async with held_lock(store) as held:
        store.takes_s = 7.0
        sent = clock.now = clock.now + 10.0
        await until(lambda: store.renewals == 1, "it was renewed")
        await asyncio.sleep(0)
        assert held.trusted_until == sent + 24.0
        assert not held.lock.is_lost
        clock.now = held.trusted_until + 0.1
        store.takes_s = 0.0
        await until(lambda: held.lock.is_lost, "its body is stopped before others begin")


@pytest.mark.guards("rescue-slow-look")
async def test_a_rescuer_that_was_answered_slowly_judges_nobody(clock: Clock) -> None:
    store: Any = SlowStore(clock, 0.1)
    rescuing = RescueService(store, cancel_grace_s=30, lease_s=9.0)
    for _ in range(4):
        await rescuing.run(100)
        clock.now += 2.0
    assert [before == NEVER for before in store.befores] == [True, True, False, False], "at first all may renew"

    store.takes_s = 1.6  # more than half of what a living worker needs: it may have been kept waiting as well
    await rescuing.run(100)
    store.takes_s = 0.1
    for _ in range(3):
        clock.now += 2.0
        await rescuing.run(100)
    assert [before == NEVER for before in store.befores[5:]] == [True, True, False]


@pytest.mark.guards("rescue-gap")
async def test_a_rescuer_that_slept_judges_nobody(clock: Clock) -> None:
    store: Any = SlowStore(clock, 0.1)
    rescuing = RescueService(store, cancel_grace_s=30, lease_s=9.0)
    for _ in range(4):
        await rescuing.run(100)
        clock.now += 2.0
    clock.now += 60.0
    await rescuing.run(100)
    assert store.befores[-1] == NEVER


# ---- events ----------------------------------------------------------------------------------------------------------


@pytest.mark.guards("late-watch", "watch-from-sending")
async def test_a_watch_that_was_begun_slowly_ends_as_early_as_any(clock: Clock) -> None:
    store: Any = SlowEvents(clock, 25.0)
    watching = Watching(store)
    async with watching.subscribe(EventFilter()) as events:
        store.takes_s = 0.0
        clock.now += 6.0  # 31 seconds after it was asked for, of the 30 that it lasts
        with pytest.raises(EventsMissed):
            await asyncio.wait_for(events.next(), PATIENCE_S)
    await watching.close()


@pytest.mark.guards("late-watch")
async def test_a_renewal_that_was_answered_after_the_watch_had_ended_says_that_events_were_missed(clock: Clock) -> None:
    store: Any = SlowEvents(clock, 0.0)
    watching = Watching(store)
    async with watching.subscribe(EventFilter()) as events:
        store.takes_s = 5.0
        clock.now += 29.0
        with pytest.raises(EventsMissed):
            await asyncio.wait_for(events.next(), PATIENCE_S)
    await watching.close()


async def test_a_renewal_that_was_answered_in_time_misses_nothing(clock: Clock) -> None:
    store: Any = SlowEvents(clock, 0.0)
    watching = Watching(store)
    async with watching.subscribe(EventFilter()):
        epoch, store.takes_s = watching.epoch, 5.0
        clock.now += 20.0
        await until(lambda: store.watches == 2, "it was renewed")
        store.takes_s = 0.0
        clock.now += 11.0
        await until(lambda: store.watches == 3, "it was renewed again")
        assert watching.epoch == epoch
    await watching.close()
