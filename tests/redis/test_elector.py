"""The election by a key: one leads, another takes over in time, and nobody touches a key that is not theirs."""

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from holdfast.delivery.redis_elector import RedisElector
from holdfast.errors import ConfigError
from tests.support.moments import Moments
from tests.support.valkey import Valkey
from tests.support.wait import wait_until

pytestmark = pytest.mark.real_time

Elect = Callable[..., RedisElector]
KEY = "{holdfast}:leader"
TTL_S = 1.0


@pytest.fixture
def elect(valkey: Valkey) -> Iterator[Elect]:
    made = []

    def make(ttl_s: float = TTL_S, renew_s: float = 0.3) -> RedisElector:
        elector = RedisElector(valkey.url, KEY, socket.gethostname(), ttl_s, renew_s)
        made.append(elector)
        return elector

    yield make
    for elector in made:
        elector.stop()


def looked(valkey: Valkey) -> int:
    """How often somebody who does not lead looked when the key ends."""
    info = valkey.ask("INFO", "commandstats")
    assert isinstance(info, dict)
    return int(info.get("cmdstat_pttl", {"calls": 0})["calls"])


def test_two_of_one_host_are_two(elect: Elect, valkey: Valkey) -> None:
    first, second = elect(), elect()
    assert first.holder != second.holder
    assert first.holder.startswith(f"{socket.gethostname()}:")
    first.start()
    wait_until(lambda: first.is_leader)
    second.start()
    wait_until(lambda: looked(valkey) > 2)
    assert first.is_leader
    assert not second.is_leader
    assert valkey.ask("GET", KEY) == first.holder


def test_a_leader_that_leaves_gives_up_its_key(elect: Elect, valkey: Valkey) -> None:
    first = elect(ttl_s=60.0, renew_s=20.0)
    first.start()
    wait_until(lambda: first.is_leader)
    first.stop()
    assert not first.is_leader
    assert valkey.ask("EXISTS", KEY) == 0


def test_a_leader_stays_over_many_renewals(elect: Elect, valkey: Valkey, moments: Moments) -> None:
    first = elect(ttl_s=60.0, renew_s=0.01)
    first.start()
    wait_until(lambda: first.is_leader)
    for _ in range(10):
        valkey.ask("PEXPIRE", KEY, 30_000)
        wait_until(lambda: int(str(valkey.ask("PTTL", KEY))) > 30_000, "the key is renewed")
        assert first.is_leader
        assert valkey.ask("GET", KEY) == first.holder
    assert moments.count("elected") == 1


def test_another_takes_over_when_the_key_ends_and_not_when_it_would_look_next(elect: Elect, valkey: Valkey) -> None:
    second = elect(ttl_s=7_200.0, renew_s=3_600.0)
    valkey.ask("SET", KEY, "one that crashed", "PX", 500)
    second.start()
    wait_until(lambda: second.is_leader)
    assert valkey.ask("GET", KEY) == second.holder


def test_an_old_holder_can_neither_renew_nor_release(elect: Elect, valkey: Valkey) -> None:
    first = elect(ttl_s=60.0, renew_s=0.2)  # its clock alone would tell much later
    first.start()
    wait_until(lambda: first.is_leader)
    valkey.ask("SET", KEY, "the new one", "PX", 30_000)
    wait_until(lambda: not first.is_leader)
    first.stop()
    assert valkey.ask("GET", KEY) == "the new one"
    assert 15_000 < int(str(valkey.ask("PTTL", KEY))) <= 30_000


def test_after_a_flush_somebody_leads_again(elect: Elect, valkey: Valkey) -> None:
    first = elect()
    first.start()
    wait_until(lambda: first.is_leader)
    valkey.ask("FLUSHALL")
    wait_until(lambda: valkey.ask("GET", KEY) == first.holder)
    wait_until(lambda: first.is_leader)


def test_an_error_means_not_leader(elect: Elect, valkey: Valkey) -> None:
    first = elect(ttl_s=60.0, renew_s=0.2)
    first.start()
    wait_until(lambda: first.is_leader)
    valkey.kill()
    wait_until(lambda: not first.is_leader)
    valkey.start()
    wait_until(lambda: first.is_leader)


def test_a_leader_without_an_answer_ends_before_its_key(elect: Elect, valkey: Valkey) -> None:
    first = elect(ttl_s=TTL_S)
    first.start()
    wait_until(lambda: first.is_leader)
    valkey.pause()
    try:
        # Redis itself is silent longer than the key lives: only the clock of this process can tell.
        end = time.monotonic() + TTL_S
        wait_until(lambda: time.monotonic() >= end)
        assert not first.is_leader
    finally:
        valkey.resume()
    wait_until(lambda: first.is_leader)


def test_renewing_needs_no_event_loop(elect: Elect) -> None:
    first = elect()
    first.start()
    wait_until(lambda: first.is_leader)
    names = [thread.name for thread in threading.enumerate()]
    assert "holdfast stands for election" in names
    first.start()  # once is enough
    assert [thread.name for thread in threading.enumerate()] == names
    first.stop()
    first.stop()


@pytest.mark.parametrize("renew_s", [0.0, -1.0, 6.0])
def test_renewing_too_rarely_is_refused(renew_s: float, valkey: Valkey) -> None:
    with pytest.raises(ConfigError, match="expected more than 0 and at most half of ttl_s"):
        RedisElector(valkey.url, KEY, "host", 10.0, renew_s)
