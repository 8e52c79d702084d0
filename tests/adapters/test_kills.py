"""Row A14: an application that dies at any moment leaves a job exactly where it leaves its order."""

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from tests.adapters.conftest import Place, opened_shop
from tests.adapters.shop import STEPS, Ran, Run, is_rolled_back
from tests.support.figures import show
from tests.support.libraries import LIBRARIES
from tests.support.programs import Program
from tests.support.sizes import size

pytestmark = pytest.mark.real_time

TRANSACTIONS = size(100, 1_000)
LONGEST_MS = 15.0


@pytest.fixture(scope="session")  # not of the module: other tests run in between
def program() -> Iterator[Program]:
    """Give the other process, which runs one shop at a time."""
    with Program("tests.adapters.shop") as started:
        yield started


async def test_a_job_exists_exactly_when_its_order_does(place: Place, program: Program) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    wanted = -(-TRANSACTIONS // len(LIBRARIES))
    async with opened_shop(place) as shop:
        done: list[Ran] = []
        first = 1
        while sum(len(ran.begun) for ran in done) < wanted or not any(ran.was_killed for ran in done):
            numbers = list(range(first, first + chance.randint(1, 8)))
            first += len(numbers)
            dies_after = chance.choice(STEPS) if len(done) % 2 else None
            run = Run(place.library, place.address, place.schema, numbers, dies_after, chance.uniform(0, LONGEST_MS))
            program.say(run)
            done.append(program.hear(Ran))
            assert done[-1].failures == []

        wait_for_the_last(place)
        orders, shipped = await shop.orders(), await shop.shipped()
    begun, committed, rolled_back = (
        [number for ran in done for number in getattr(ran, word)] for word in ("begun", "committed", "rolled_back")
    )
    kills = sum(ran.was_killed for ran in done)
    show(f"{place.library}: {len(begun)} transactions, {kills} kills, {len(orders)} orders, {len(shipped)} jobs")
    assert shipped == orders, f"seed {seed}"
    assert set(committed) <= set(orders) <= set(begun), f"seed {seed}"
    assert not set(rolled_back) & set(orders), f"seed {seed}"
    assert not any(is_rolled_back(number) for number in orders), f"seed {seed}"
    assert kills > 0


def wait_for_the_last(place: Place) -> None:
    """Wait for the transactions whose programs are dead: a server may still be busy with their last statement."""
    if place.schema is None:
        with closing(sqlite3.connect(place.address)) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    else:
        with psycopg.connect(place.address) as connection:
            connection.execute(f"LOCK TABLE {place.orders} IN ACCESS EXCLUSIVE MODE".encode())
