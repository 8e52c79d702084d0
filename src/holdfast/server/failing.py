"""Slowing down those who guess: so many failures from one address, and it has to wait."""

import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable

from holdfast.server.problems import Problem

MOST_FAILURES = 10
FORGIVEN_S = 60.0  # the time in which all of them are forgiven, one after the other
_ADDRESSES = 10_000
_NETWORK = 64  # what one customer has of IPv6


class Failing:
    """Counts failures by address, as a bucket that leaks; those who never failed never wait."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def begin(self, address: str) -> None:
        """Refuse an address that has failed too often; else count a failure, until it turns out to be none.

        Counted first, or many tries at once would all be let through before the first of them has failed.
        """
        self.require_few(address)
        self.failed(address)

    def require_few(self, address: str) -> None:
        """Refuse an address that has failed too often lately."""
        level = self._level(_place(address))
        if level > MOST_FAILURES - 1:
            wait_s = math.ceil((level - MOST_FAILURES + 1) * FORGIVEN_S / MOST_FAILURES)
            message = f"too many wrong tokens from this address; wait {wait_s} s and try again"
            raise Problem(429, message, "too-many-failures", headers={"retry-after": str(max(1, wait_s))})

    def failed(self, address: str) -> None:
        """Count a failure."""
        place = _place(address)
        self._buckets[place] = (min(self._level(place) + 1, MOST_FAILURES), self._now())
        self._buckets.move_to_end(place)
        if len(self._buckets) > _ADDRESSES:
            self._buckets.popitem(last=False)

    def forgive(self, address: str) -> None:
        """Take a failure back that was none."""
        place = _place(address)
        if place in self._buckets:
            self._buckets[place] = (max(0.0, self._level(place) - 1), self._now())

    def _level(self, place: str) -> float:
        level, at = self._buckets.get(place, (0.0, 0.0))
        return max(0.0, level - (self._now() - at) * MOST_FAILURES / FORGIVEN_S)


def _place(address: str) -> str:
    """What is counted together: an address, of IPv6 the network of one customer."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    if parsed.ipv4_mapped:
        return address
    network = ipaddress.ip_network((parsed.packed, _NETWORK), strict=False)
    return str(network)  # guard: guess-network, without: return address
