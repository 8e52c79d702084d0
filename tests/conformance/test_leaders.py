"""Who leads: one at a time, under terms that only rise, whatever arrives late."""

import asyncio
import os
import socket
from datetime import timedelta

import pytest

from holdfast import Holdfast
from holdfast.delivery.in_store import InStore
from holdfast.errors import DataRefused, HoldfastError
from holdfast.services.leader import StoreLeader, own_name
from holdfast.services.runner import ServiceRunner
from holdfast.stores.cluster import LeaderRow
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.store import Store
from tests.support import raw
from tests.support.clock import Clock
from tests.support.moments import Moments
from tests.support.wait import until

LEASE_MS = 10_000
HOST = f"{socket.gethostname()}/{os.getpid()}"


@pytest.fixture(autouse=True)
async def _without_leaders(store: Store) -> None:
    await raw.execute(store, "DELETE FROM holdfast.leaders")


async def lead(store: Store, holder: str, term: int | None = None) -> int | None:
    return await store.lead("upkeep", holder, term, LEASE_MS)


async def leader(store: Store) -> tuple[str, int] | None:
    found = await store.list_leaders()
    return (found[0].holder, found[0].term) if found else None


@pytest.mark.guards("leader-lease")
async def test_the_first_who_asks_leads_and_is_shown(store: Store, clock: Clock) -> None:
    assert await lead(store, "a") == 1
    assert await lead(store, "b") is None
    until = clock.now + timedelta(milliseconds=LEASE_MS)
    assert await store.list_leaders() == [LeaderRow("upkeep", "a", 1, clock.now, until)]


async def test_offices_have_leaders_of_their_own(store: Store) -> None:
    assert await lead(store, "a") == 1
    assert await store.lead("other", "b", None, LEASE_MS) == 1
    assert [(row.name, row.holder) for row in await store.list_leaders()] == [("other", "b"), ("upkeep", "a")]


async def test_who_renews_keeps_the_term_and_the_beginning(store: Store, clock: Clock) -> None:
    term = await lead(store, "a")
    began = clock.now
    for _ in range(5):
        await clock.advance(seconds=9)
        assert await lead(store, "a", term) == term
        assert await lead(store, "b") is None
    (row,) = await store.list_leaders()
    assert (row.since, row.until) == (began, clock.now + timedelta(milliseconds=LEASE_MS))


async def test_a_lease_that_has_ended_is_taken_over_under_the_next_term(store: Store, clock: Clock) -> None:
    assert await lead(store, "a") == 1
    await clock.advance(milliseconds=LEASE_MS - 1)
    assert await lead(store, "b") is None
    await clock.advance(milliseconds=1)
    assert await leader(store) is None
    assert await lead(store, "b") == 2
    assert await leader(store) == ("b", 2)


@pytest.mark.guards("leader-lease")
async def test_a_renewal_that_arrives_late_cannot_take_the_office_back(store: Store, clock: Clock) -> None:
    old = await lead(store, "a")
    await clock.advance(seconds=20)
    new = await lead(store, "b")
    assert await lead(store, "a", old) is None
    assert await leader(store) == ("b", new)
    await clock.advance(seconds=20)
    assert await lead(store, "a", old) == 3  # nobody holds it, so that it is a term of its own


async def test_who_was_late_goes_on_under_its_term_if_nobody_followed(store: Store, clock: Clock) -> None:
    term = await lead(store, "a")
    await clock.advance(seconds=20)
    assert await lead(store, "a", term) == term


@pytest.mark.guards("resigned-term")
async def test_an_old_term_cannot_resign_a_new_one(store: Store, clock: Clock) -> None:
    old = await lead(store, "a")
    assert old is not None
    await clock.advance(seconds=20)
    assert await lead(store, "a", None) == old + 1  # as after a restart that kept the name
    await store.resign("upkeep", "a", old)
    assert await leader(store) == ("a", old + 1)
    await store.resign("upkeep", "b", old + 1)
    assert await leader(store) == ("a", old + 1)


@pytest.mark.usefixtures("clock")
async def test_who_resigns_is_followed_at_once(store: Store) -> None:
    term = await lead(store, "a")
    assert term is not None
    await store.resign("upkeep", "a", term)
    assert await leader(store) is None
    assert await lead(store, "b") == 2
    await store.resign("upkeep", "a", term)
    assert await leader(store) == ("b", 2)


async def test_one_who_asks_without_its_term_is_somebody_else(store: Store) -> None:
    assert await lead(store, "a") == 1
    assert await lead(store, "a") is None  # two processes that were given one name are two


def test_two_of_one_host_and_process_are_two() -> None:
    one, two = own_name(), own_name()
    assert one != two
    assert one.startswith(HOST)
    assert two.startswith(HOST)


# ---- as a process asks ---------------------------------------------------------------------------------------------


class Failing:
    """A store that answers, or fails as it is told."""

    def __init__(self, store: Store) -> None:
        self.error: Exception | None = None
        self.store = store

    async def lead(self, name: str, holder: str, term: int | None, lease_ms: int) -> int | None:
        if self.error is not None:
            raise self.error
        return await self.store.lead(name, holder, term, lease_ms)

    async def resign(self, name: str, holder: str, term: int) -> None:
        if self.error is not None:
            raise self.error
        await self.store.resign(name, holder, term)

    async def list_leaders(self) -> list[LeaderRow]:
        return await self.store.list_leaders()


@pytest.mark.parametrize("error", [DataRefused("a trigger has raised"), HoldfastError("gone"), RuntimeError("a bug")])
async def test_any_error_means_not_leader(store: Store, error: Exception) -> None:
    failing = Failing(store)
    process = StoreLeader(failing)
    await process.ask()
    assert process.is_leader
    failing.error = error
    await process.ask()
    assert not process.is_leader
    await process.resign()  # which never raises
    failing.error = None
    await process.ask()
    assert process.is_leader
    assert await leader(store) == (process.holder, 1)


async def test_of_two_processes_on_one_host_one_leads_and_the_other_follows_a_farewell(store: Store) -> None:
    one, two = StoreLeader(store), StoreLeader(store)
    await one.ask()
    await two.ask()
    assert (one.is_leader, two.is_leader) == (True, False)
    await one.resign()
    await two.ask()
    assert (one.is_leader, two.is_leader) == (False, True)
    await one.ask()
    assert not one.is_leader


async def test_a_process_lets_go_before_the_store_does(store: Store) -> None:
    process = StoreLeader(store, lease_s=0.0)
    await process.ask()
    assert process.term == 1
    assert not process.is_leader


class Stumbling:
    """A way to lead that breaks once."""

    holder = "a"
    is_leader = True

    def __init__(self) -> None:
        self.begun = 0

    async def serve(self) -> None:
        self.begun += 1
        if self.begun == 1:
            message = "a bug"
            raise RuntimeError(message)
        await asyncio.Event().wait()

    async def resign(self) -> None: ...


async def test_services_are_begun_anew_after_what_nobody_expected(
    sqlite_memory: SqliteStore, caplog: pytest.LogCaptureFixture, moments: Moments
) -> None:
    leadership, delivery = Stumbling(), InStore(sqlite_memory)
    runner = ServiceRunner(sqlite_memory, delivery, Holdfast("sqlite://").config, leadership)
    async with runner.open():
        await until(lambda: leadership.begun >= 2, "the election is begun again")
        await moments.next("served")
    await delivery.close()
    assert "start again" in caplog.text
