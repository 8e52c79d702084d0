"""How the server listens, whom it believes, and how much it takes."""

import ipaddress
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

from msgspec import Meta

from holdfast import names
from holdfast.about import About
from holdfast.app_options import LARGEST_PAYLOAD
from holdfast.duration import PositiveDuration, positive_ms
from holdfast.errors import ConfigError, shown
from holdfast.formats import OR_NONE, text_format
from holdfast.policies.channels import WebUrl
from holdfast.policies.rate import Rate, RateText, read_rate
from holdfast.server.principal import Principal
from holdfast.server.roles import Role, read_role

if TYPE_CHECKING:
    from starlette.requests import Request
else:
    Request = Any  # the package comes with the extra `server`, and the types of settings are read without it

Authorized = Principal | Role | None
Authorize = Callable[["Request"], Authorized | Awaitable[Authorized]]

PORT = 8470
_LARGEST_PORT = 65_535
_LEAST_BODY = 1_024
_LONGEST_NAME = 60
_HOST = re.compile(r"[A-Za-z0-9_.-]+|(?=[^:]*:[^:]*:)[0-9A-Fa-f:.]+")

RoleName = Literal["viewer", "operator", "admin"]
Title = Annotated[str, text_format(lambda value, what: names.text(value, what, _LONGEST_NAME), minLength=1)]
Network = Annotated[str, text_format(lambda value, _: _network(value))]


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """How the server listens, whom it believes, and how much it takes."""

    host: Annotated[names.Text, About("The address to listen on.", "127.0.0.1")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=_LARGEST_PORT), About("The port to listen on.", 8470)] = PORT
    title: Annotated[
        Title | None, OR_NONE, About("What people call this installation; pages show it.", "production")
    ] = None
    instances: Annotated[
        Mapping[Title, names.ServerAddress], About("Names and addresses of other servers, for a menu on the pages.")
    ] = field(default_factory=dict)
    url: Annotated[
        WebUrl | None,
        OR_NONE,
        About("The address that people see; links and cookies follow it.", "https://jobs.example.org"),
    ] = None
    hosts: Annotated[tuple[names.Text, ...], About("More host names of this server.", ["jobs.example.org"])] = ()
    proxies: Annotated[
        tuple[Network, ...], About("Proxies whose X-Forwarded headers are believed.", ["10.0.0.0/8"])
    ] = ()
    user_header: Annotated[
        names.Text | None, OR_NONE, About("The header in which a proxy names the user.", "X-Forwarded-User")
    ] = None
    role_header: Annotated[
        names.Text | None, OR_NONE, About("The header in which a proxy names the role.", "X-Forwarded-Role")
    ] = None
    users: Annotated[Mapping[str, RoleName], About("Roles of users, by their whole name; `*` stands for anything.")] = (
        field(default_factory=dict)
    )
    default_role: Annotated[
        RoleName | None, OR_NONE, About("The role of all other users; none: they may not come in.", "viewer")
    ] = "viewer"
    authorize: Annotated[
        Authorize | None, About("Is called with each request without a token, and gives a Principal, a Role or None.")
    ] = field(default=None, repr=False)
    session: Annotated[PositiveDuration, About("How long a login lasts without use.", "12h")] = "12h"
    max_body: Annotated[
        int, Meta(ge=_LEAST_BODY, le=LARGEST_PAYLOAD), About("How many bytes a request may have.", 1000000)
    ] = 1_000_000
    allow_unknown: Annotated[
        bool, About("Whether jobs of kinds are taken that no worker has published.", example=False)
    ] = False
    max_streams: Annotated[names.Count, About("How many live streams may be open.", 1000)] = 1_000
    max_streams_each: Annotated[names.Count, About("How many of them with one token or login.", 100)] = 100
    rate: Annotated[
        RateText | None,
        OR_NONE,
        About("How many requests one token or login may make in a time; none: no limit.", "5000/10s"),
    ] = "5000/10s"

    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = field(init=False, repr=False, compare=False)
    session_ms: int = field(init=False, repr=False, compare=False)
    pace: Rate | None = field(init=False, repr=False, compare=False)
    roles: tuple[tuple[re.Pattern[str], Role], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hosts", _several(self.hosts))
        object.__setattr__(self, "proxies", _several(self.proxies))
        object.__setattr__(self, "networks", tuple(_network(given) for given in self.proxies))
        object.__setattr__(self, "session_ms", positive_ms(self.session, "server.session"))
        object.__setattr__(self, "pace", None if self.rate is None else read_rate(self.rate, "server.rate"))
        others = {} if self.default_role is None else {"*": self.default_role}
        given = [*self.users.items(), *others.items()]
        object.__setattr__(self, "roles", tuple((_pattern(name), read_role(role)) for name, role in given))
        self._check_bounds()
        self._check_names()

    def role_of(self, name: str) -> Role | None:
        """The role of somebody whom a proxy names; None for those who may not come in."""
        return next((role for pattern, role in self.roles if pattern.fullmatch(name)), None)

    def _check_bounds(self) -> None:
        if not 0 <= self.port <= _LARGEST_PORT:
            message = f"server.port: expected a port from 0 to {_LARGEST_PORT}, got {shown(self.port)}"
            raise ConfigError(message)
        if self.max_body < _LEAST_BODY:
            message = f"server.max_body: expected at least {_LEAST_BODY} bytes, got {shown(self.max_body)}"
            raise ConfigError(message)
        for name, most in (("max_streams", self.max_streams), ("max_streams_each", self.max_streams_each)):
            if most < 1:
                message = f"server.{name}: expected at least 1, got {shown(most)}"
                raise ConfigError(message)

    def _check_names(self) -> None:
        for name, address in self.instances.items():
            names.text(name, "server.instances", _LONGEST_NAME)
            names.address(address, f"server.instances.{name}")
        for host in self.hosts:
            if not _HOST.fullmatch(host):
                message = f"server.hosts: expected names such as jobs.example.org, without a port, got {shown(host)}"
                raise ConfigError(message)
        if self.url is not None and not _is_address(self.url):
            message = (
                f"server.url: expected an address such as https://jobs.example.org/holdfast, got {shown(self.url)}"
            )
            raise ConfigError(message)
        if (self.user_header or self.role_header) and not self.proxies:
            message = "server.user_header: anybody could send it; name the proxies that it is believed of, as in"
            message += ' proxies: ["10.0.0.0/8"]'
            raise ConfigError(message)

    @property
    def has_sign_on(self) -> bool:
        """Whether somebody else says who asks."""
        return self.authorize is not None or self.user_header is not None

    @property
    def is_private(self) -> bool:
        """Whether only people on this machine can reach it: no proxy and no address of others leads here."""
        named = [*self.hosts, *([] if self.url is None else [urlsplit(self.url).hostname or ""])]
        return is_loopback(self.host) and not self.proxies and all(is_loopback(name) for name in named)


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _several(given: Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _pattern(name: str) -> re.Pattern[str]:
    """Read a name of `users`; it has to fit as a whole, so that no longer one passes for it."""
    return re.compile(".*".join(re.escape(part) for part in name.split("*")))


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and not (parts.query or parts.fragment)


def _network(given: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(given, strict=False)
    except ValueError:
        message = f"server.proxies: expected addresses or networks, such as 10.0.0.0/8, got {shown(given)}"
        raise ConfigError(message) from None
