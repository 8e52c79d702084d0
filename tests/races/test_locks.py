"""Locks under contention: many processes, two connections, and never two holders."""

import asyncio
import itertools
import os
import sys
import time
from pathlib import Path

import pytest

from holdfast.stores.cluster import LockRequest
from tests.races.rivals import Rivals
from tests.support.connections import show, until_held_up
from tests.support.sizes import size

ROOT = Path(__file__).parents[2]
PROCESSES, TASKS, ROUNDS = 5, 10, size(2, 20)
MEETINGS = size(200, 2_000)
LASTS = {"lasts_ms": 30_000, "waits_ms": 5_000}


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Give the URL and the schema of each store that many processes can use."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db", "holdfast"
    return request.getfixturevalue("dsn"), request.getfixturevalue("schema")


async def test_fifty_contenders_are_never_two_inside(address: tuple[str, str], tmp_path: Path) -> None:
    began = time.monotonic()
    command = [sys.executable, "-m", "tests.races.contending", *address, str(tmp_path), str(TASKS), str(ROUNDS)]
    programs = [
        await asyncio.create_subprocess_exec(*command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
        for _ in range(PROCESSES)
    ]
    async with asyncio.timeout(300):
        codes = [await program.wait() for program in programs]
    took_s = time.monotonic() - began
    lines = [line.split() for line in (tmp_path / "ledger").read_text().splitlines()]
    show(f"{len(lines)} turns of {PROCESSES * TASKS} contenders in {took_s:.1f} s on {address[0].partition(':')[0]}")
    assert codes == [0] * PROCESSES
    tokens = [int(token) for token, _ in lines]
    assert len(tokens) == PROCESSES * TASKS * ROUNDS
    assert tokens == sorted(set(tokens))
    assert len({pid for _, pid in lines}) == PROCESSES


def asks(name: str, owner: str) -> LockRequest:
    return LockRequest(name, owner, f"context of {owner}", "here/1")


@pytest.mark.guards("lock-turn")
async def test_of_two_who_have_seen_a_free_lock_one_gets_it(rivals: Rivals) -> None:
    """Each is held up after it has looked at the lock, if nothing holds it up before."""
    async with rivals.blocker.transaction():
        await rivals.blocker.execute(rivals.sql("LOCK TABLE holdfast.lock_waiters IN EXCLUSIVE MODE"))
        one = asyncio.create_task(rivals.one.take_lock(asks("x", "one"), **LASTS))
        two = asyncio.create_task(rivals.two.take_lock(asks("x", "two"), **LASTS))
        await until_held_up(rivals.watcher, rivals.schema, one, two)
    assert ((await one).token is None) != ((await two).token is None)


async def test_of_two_who_meet_at_a_free_lock_one_gets_it(rivals: Rivals) -> None:
    for turn in range(MEETINGS):
        one, two = await asyncio.gather(
            rivals.one.take_lock(asks(f"x{turn}", f"one {turn}"), **LASTS),
            rivals.two.take_lock(asks(f"x{turn}", f"two {turn}"), **LASTS),
        )
        assert (one.token is None) != (two.token is None)


async def test_of_two_who_meet_at_an_expired_lock_one_gets_it(rivals: Rivals) -> None:
    tokens = []
    for turn in range(MEETINGS):
        await rivals.blocker.execute(rivals.sql("UPDATE holdfast.locks SET until = now() - interval '1 second'"))
        await rivals.blocker.execute(rivals.sql("DELETE FROM holdfast.lock_waiters"))
        answers = await asyncio.gather(
            rivals.one.take_lock(asks("x", f"one {turn}"), **LASTS),
            rivals.two.take_lock(asks("x", f"two {turn}"), **LASTS),
        )
        (token,) = [answer.token for answer in answers if answer.token is not None]
        tokens.append(token)
    assert all(earlier < later for earlier, later in itertools.pairwise(tokens))


async def test_a_renewal_and_a_taker_never_both_succeed(rivals: Rivals) -> None:
    kept = 0
    for turn in range(MEETINGS):
        name, owner = f"x{turn}", f"one {turn}"
        await rivals.one.take_lock(asks(name, owner), **LASTS)
        await rivals.blocker.execute(
            rivals.sql("UPDATE holdfast.locks SET until = now() - interval '1 second' WHERE name = $1"), name
        )
        renew, take = rivals.one.renew_locks([owner], 30_000), rivals.two.take_lock(asks(name, f"two {turn}"), **LASTS)
        if turn % 2:
            renewed, taken = await asyncio.gather(renew, take)
        else:
            taken, renewed = await asyncio.gather(take, renew)
        assert (owner in renewed) != (taken.token is not None)
        kept += owner in renewed
    show(f"of {MEETINGS} meetings {kept} were won by the renewal")
    assert 0 < kept < MEETINGS


async def test_whoever_is_told_to_wait_beside_a_release_is_seen_by_it(rivals: Rivals) -> None:
    told = 0
    for turn in range(MEETINGS):
        name, owner = f"x{turn}", f"two {turn}"
        await rivals.one.take_lock(asks(name, f"one {turn}"), **LASTS)
        release = rivals.one.release_lock(name, f"one {turn}")
        take = rivals.two.take_lock(asks(name, owner), **LASTS)
        if turn % 2:
            has_others, answer = await asyncio.gather(release, take)
        else:
            answer, has_others = await asyncio.gather(take, release)
        assert has_others == (answer.token is None), "or nobody would wake it"
        told += has_others
        assert (await rivals.two.take_lock(asks(name, owner), **LASTS)).token is not None
    show(f"of {MEETINGS} meetings {told} came before the release")
    assert 0 < told < MEETINGS
