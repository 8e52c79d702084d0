"""How many messages are posted to one host at once, so that a slow one leaves room for all others.

It lives in the memory of one process, as the breaker does. Paths and ports do not count: whoever owns a host can make
as many of them as they like.
"""

import asyncio
from dataclasses import dataclass, field

AT_ONCE_EACH = 8
PATIENCE_S = 1.0  # for a place at a host; a host that has none for so long is slow
_SOONEST_S, _LATEST_S = 5.0, 60.0
_PER_MESSAGE_S = 0.05  # later by so much for each message that a slow host has waiting, so that they cost little


@dataclass
class _Host:
    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE_EACH))
    messages: int = 0  # that have a place or wait for one
    put_off: int = 0


class Hosts:
    """Gives each host its places; hosts to which nothing is posted take no memory."""

    def __init__(self) -> None:
        self._hosts: dict[str, _Host] = {}

    async def enter(self, name: str) -> float | None:
        """Take a place at a host, or say in how many seconds to try again because the host is slow."""
        host = self._hosts.setdefault(name, _Host())
        host.messages += 1
        try:
            if not (host.put_off and host.places.locked()):
                async with asyncio.timeout(PATIENCE_S):
                    await host.places.acquire()  # guard: webhook-host-places, without: await asyncio.sleep(0)
                return None
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            self._forget(name, host)
            raise
        host.put_off += 1
        self._forget(name, host)
        return min(_SOONEST_S + host.put_off * _PER_MESSAGE_S, _LATEST_S)

    def leave(self, name: str, took_s: float) -> None:
        """Give a place back; a host that answers soon is slow no more."""
        host = self._hosts[name]
        host.places.release()
        if took_s < PATIENCE_S:
            host.put_off = 0
        self._forget(name, host)

    def _forget(self, name: str, host: _Host) -> None:
        host.messages -= 1
        if not host.messages:
            del self._hosts[name]
