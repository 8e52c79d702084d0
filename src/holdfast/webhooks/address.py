"""Where a webhook may go: a URL is judged when it is registered, its addresses again at every delivery.

No message here holds a path, a query or user information: they are where people put their secrets.
"""

import asyncio
import re
import socket
import string
import unicodedata
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from typing import NoReturn
from urllib.parse import quote

from holdfast.errors import InvalidValue, shown
from holdfast.webhooks.allowed import LARGEST_PORT, NAME, Allowed, read_allowed
from holdfast.webhooks.networks import is_public, read_address

__all__ = ["Allowed", "Lookup", "Refused", "Target", "check_url", "is_public", "look_up", "read_allowed", "resolve"]

URL_LENGTH = 2_000
Lookup = Callable[[str, int], Awaitable[Iterable[str]]]

_URL = re.compile(r"(?P<scheme>https?)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?P<query>\?[^#]*)?", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,30}(?=:)", re.IGNORECASE | re.ASCII)
_AUTHORITY = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]+)(?::(?P<port>[0-9]{1,5}))?")
# Such a host is an IPv4 address to browsers and to the C library, however oddly it is spelled.
_ENDS_IN_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
# The two editions of IDNA make different hosts of these: eszett, final sigma and two joiners.
_READ_TWO_WAYS = frozenset("\u00df\u1e9e\u03c2\u200c\u200d")
_LOCAL_DOMAINS = (".localhost", ".local", ".localdomain", ".internal", ".lan", ".home.arpa")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_FIRST_FREE_PORT = 1_024
# Services that act on what a stranger sends: databases and queues, and what controls machines.
_STORAGE_PORTS = {1433, 1521, 2049, 2379, 3306, 5432, 5672, 5984, 6379, 9042, 9092, 9200, 9300, 11211, 27017}
_CONTROL_PORTS = {2375, 2376, 2380, 3389, 5900, 6000, 6443, 6666, 6667, 8500, 10250}
_UNSAFE_PORTS = _STORAGE_PORTS | _CONTROL_PORTS


class Refused(InvalidValue):
    """A webhook may not go there."""


@dataclass(frozen=True)
class Target:
    """A URL that was judged, in its parts; an IPv6 host stands without brackets, `path` includes the query."""

    scheme: str
    host: str
    port: int
    path: str = field(repr=False)

    @property
    def url(self) -> str:
        """The whole URL, normalised."""
        return f"{self.scheme}://{self.authority}{self.path}"

    @property
    def endpoint(self) -> str:
        """The URL without its query and with its port: what shares one fate."""
        return f"{self.scheme}://{_bracketed(self.host)}:{self.port}{self.path.partition('?')[0]}"

    @property
    def authority(self) -> str:
        """The host as the Host header has it: with its port unless that is the usual one."""
        is_usual = self.port == _DEFAULT_PORTS[self.scheme]
        return _bracketed(self.host) if is_usual else f"{_bracketed(self.host)}:{self.port}"


def check_url(url: str, allowed: Allowed) -> Target:
    """Judge a URL by its spelling alone, and return it normalised."""
    if not isinstance(url, str) or not 1 <= len(url) <= URL_LENGTH:
        _refuse(f"text of 1 to {URL_LENGTH} characters", _size(url))
    if any(letter == "\\" or unicodedata.category(letter)[0] in "CZ" for letter in url):
        _refuse("no spaces, backslashes and control characters", "at least one; write it as %20 and the like")
    if "#" in url:
        _refuse("no fragment", "one after '#', which no server would ever see")
    parts = _URL.fullmatch(url)
    if parts is None:
        scheme = _SCHEME.match(url)
        _refuse("http://host/path or https://host/path", f"the scheme {scheme[0]}" if scheme else "no scheme")
    target = _read_target(parts)
    _judge_host(target.host, target.port, allowed)  # guard: webhook-host
    _judge_port(target.host, target.port, allowed)  # guard: webhook-port
    if len(target.url) > URL_LENGTH:
        _refuse(f"at most {URL_LENGTH} characters once percent-encoded", _size(target.url))
    return target


async def look_up(host: str, port: int) -> list[str]:
    """Ask the system's resolver for every address of a name."""
    loop = asyncio.get_running_loop()
    answers = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [str(place[0]) for *_, place in answers]


async def resolve(target: Target, allowed: Allowed, lookup: Lookup = look_up) -> list[str]:
    """Find the addresses of a target; one that is neither public nor allowed refuses them all."""
    answers: Iterable[str] = [target.host]
    if read_address(target.host) is None:
        try:
            answers = await lookup(target.host, target.port)
        except (OSError, ValueError) as error:
            message = f"webhook address: expected a host name that resolves, got {shown(target.host)}"
            message += f" ({type(error).__name__}); check its spelling and the resolver"
            raise Refused(message) from None
    addresses = list(dict.fromkeys(answers))
    is_trusted = allowed.allows(target.host, target.port)
    # Which address it is stays unsaid: the owner of a URL must not map our network by its errors.
    reaches = [_may_reach(text, target.port, allowed, is_trusted=is_trusted) for text in addresses]
    if not addresses or not all(reaches):  # guard: webhook-addresses
        got = "one that is not" if addresses else "no address"
        message = f"webhook address: expected only public addresses for {shown(target.host)}, got {got}"
        message += "; allow the host or its network if it is yours"
        raise Refused(message)
    return addresses


def _may_reach(text: str, port: int, allowed: Allowed, *, is_trusted: bool) -> bool:
    address = read_address(text)
    return address is not None and (is_trusted or is_public(address) or allowed.allows(text, port))


def _read_target(parts: re.Match[str]) -> Target:
    scheme = parts["scheme"].lower()
    host, port = _read_authority(parts["authority"], _DEFAULT_PORTS[scheme])
    path = quote((parts["path"] or "/") + (parts["query"] or ""), safe=string.punctuation)
    return Target(scheme, host, port, path)


def _read_authority(authority: str, default_port: int) -> tuple[str, int]:
    if "@" in authority:  # guard: webhook-user
        _refuse("no user name and no password", "one before '@'; let the signature prove who sends")
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        _refuse("a host name or an address, with :port or without", shown(authority))
    port = default_port if found["port"] is None else int(found["port"])
    if not 1 <= port <= LARGEST_PORT:
        _refuse(f"a port from 1 to {LARGEST_PORT}", shown(port))
    return _read_host(found["host"]), port


def _read_host(text: str) -> str:
    if text.startswith("["):
        return _read_ipv6(text)
    host = (text if text.isascii() else _in_ascii(text)).lower().removesuffix(".")
    if _ENDS_IN_NUMBER.fullmatch(host) and read_address(host) is None:  # guard: webhook-odd-address
        meant = _ipv4_as_browsers_read(host)
        _refuse("an IPv4 address as four plain numbers", shown(text) + (f", which is {meant}" if meant else ""))
    if not NAME.fullmatch(host):
        _refuse("a host name of letters, digits, '-', '_' and '.'", shown(text))
    return host


def _read_ipv6(text: str) -> str:
    if "%" in text:
        _refuse("an IPv6 address without a zone", shown(text))
    try:
        return str(IPv6Address(text[1:-1]))
    except ValueError:
        _refuse("an IPv6 address in brackets", shown(text))


def _in_ascii(text: str) -> str:
    if not _READ_TWO_WAYS.isdisjoint(text):
        _refuse("a host name that every client reads alike", f"{shown(text)}; write it in its xn-- form")
    try:
        return unicodedata.normalize("NFKC", text).encode("idna").decode()
    except UnicodeError:
        _refuse("a host name that DNS can hold", shown(text))


def _ipv4_as_browsers_read(host: str) -> IPv4Address | None:
    """Read hexadecimal and octal numbers and fewer than four of them, of which the last fills the rest."""
    try:
        *first, last = (_number(part) for part in host.split("."))
        rest = 4 - len(first)
        return IPv4Address(bytes(first) + last.to_bytes(rest, "big"))
    except (ValueError, OverflowError):
        return None


def _number(text: str) -> int:
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8 if text.startswith("0") else 10)


def _judge_host(host: str, port: int, allowed: Allowed) -> None:
    if allowed.allows(host, port):
        return
    address = read_address(host)
    if address is not None and not is_public(address):  # guard: webhook-public-address
        _refuse("a public address", f"{shown(host)}; allow it if it is yours")
    if address is None and ("." not in host or host.endswith(_LOCAL_DOMAINS)):  # guard: webhook-local-name
        _refuse("a name of the public internet", f"{shown(host)}; allow it if it is yours")


def _judge_port(host: str, port: int, allowed: Allowed) -> None:
    is_usual = port in _DEFAULT_PORTS.values() or (port >= _FIRST_FREE_PORT and port not in _UNSAFE_PORTS)
    if not is_usual and not allowed.opens(host, port):
        _refuse("port 80, 443 or one from 1024 that serves HTTP", f"{port}; allow {shown(host)} with it")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _size(url: object) -> str:
    return f"{len(url)}" if isinstance(url, str) else f"a value of type {type(url).__name__}"


def _refuse(expected: str, got: str) -> NoReturn:
    message = f"webhook URL: expected {expected}, got {got}"
    raise Refused(message) from None
