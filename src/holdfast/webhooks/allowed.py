"""The allowlist: the only way to an address that is not public.

An entry that is a name trusts that name wherever it resolves to; an entry with a port opens that port alone.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network

from holdfast.errors import InvalidValue, shown
from holdfast.webhooks.networks import read_address

LARGEST_PORT = 65_535
_WITH_PORT = re.compile(r"(?P<host>\[[^\]]+\]|[^:]+):(?P<port>[0-9]{1,5})")
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*", re.ASCII)


@dataclass(frozen=True)
class Allowed:
    """What may be reached besides the public internet; a name that begins with a dot stands for all below it."""

    names: frozenset[tuple[str, int | None]] = frozenset()
    networks: frozenset[tuple[IPv4Network | IPv6Network, int | None]] = frozenset()

    def allows(self, host: str, port: int) -> bool:
        """Whether a name or an address may be reached at this port, wherever it is."""
        return not self._ports(host).isdisjoint({None, port})

    def opens(self, host: str, port: int) -> bool:
        """Whether an entry names this very port."""
        return port in self._ports(host)

    def _ports(self, host: str) -> set[int | None]:
        address = read_address(host)
        if address is not None:
            return {port for network, port in self.networks if address in network}
        tails = {host, *(host[place:] for place, letter in enumerate(host) if letter == ".")}
        return {port for name, port in self.names if name in tails}


def read_allowed(entries: Iterable[str]) -> Allowed:
    """Read entries like `hooks.lan`, `*.example.org`, `10.1.0.0/16`, `127.0.0.1:8000`, `[::1]:8000`."""
    names, networks = set(), set()
    for entry in entries:
        host, port = _split_port(entry)
        network = _read_network(host)
        if network is not None:
            networks.add((network, port))
            continue
        name = host.lower().removesuffix(".")
        if not NAME.fullmatch(name.removeprefix("*.")) or name.rpartition(".")[2].isdigit():
            raise _wrong(entry)
        names.add((name.removeprefix("*"), port))
    return Allowed(frozenset(names), frozenset(networks))


def _split_port(entry: str) -> tuple[str, int | None]:
    if not isinstance(entry, str):
        raise _wrong(entry)
    found = _WITH_PORT.fullmatch(entry)
    if found is None:
        return entry.removeprefix("[").removesuffix("]"), None
    port = int(found["port"])
    if not 1 <= port <= LARGEST_PORT:
        raise _wrong(entry)
    return found["host"].removeprefix("[").removesuffix("]"), port


def _read_network(text: str) -> IPv4Network | IPv6Network | None:
    address = read_address(text)  # which makes IPv4 of an IPv4 address inside IPv6, as judging does
    try:
        return ip_network(text if address is None else address)
    except ValueError:
        return None


def _wrong(entry: object) -> InvalidValue:
    expected = "a host name, *.domain, an IP address or a network like 10.1.0.0/16, with :port or without"
    return InvalidValue(f"allowed webhook address: expected {expected}, got {shown(entry)}")
