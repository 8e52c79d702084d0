"""Serving: the application on an address of this machine, until a signal asks to stop."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from urllib.parse import urlsplit

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.client import secrets
from holdfast.errors import ConfigError, InvalidValue
from holdfast.server.connection import Connection, Connections
from holdfast.server.settings import ServerSettings
from holdfast.stores.access import NewToken
from holdfast.stores.store import Store

if sys.platform != "win32":
    import resource

_BACKLOG = 2_048
_AT_A_TIME = 8  # connections are accepted between two looks at how many there are
_OWN_FILES = 128  # what the store and the server itself open, and connections that are being closed
_BESIDE_STREAMS = 2_000
_PATIENCE_S = 5
_LINK_MS = 600_000
# Asked after 15 s of silence, every 5 s, three times; given up after 30 s in which nothing was taken.
_LOST = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30_000))
_BUSY = "an address that is in use, or not one of this machine"


class Rooted:
    """Puts the path of the address that people see before the server's own, whether or not a proxy has cut it off."""

    def __init__(self, app: ASGIApp, root: str) -> None:
        self._app = app
        self._root = root

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] == "http":
            path: str = scope["path"]
            is_whole = path == self._root or path.startswith(f"{self._root}/")
            scope = {**scope, "root_path": self._root, "path": path if is_whole else self._root + path}
        await self._app(scope, receive, send)


class Server(uvicorn.Server):
    """Has at most so many connections, and accepts a few at a time, so that those beyond the most are closed first."""

    def __init__(self, config: uvicorn.Config, most: int) -> None:
        super().__init__(config)
        self.server_state = Connections(most)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; asyncio takes one number for what it accepts at a time and for what the system lets wait."""
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(_BACKLOG)


def most_connections(settings: ServerSettings) -> int:
    """How many connections a server may have: fewer than its process may open files."""
    most = settings.max_streams + _BESIDE_STREAMS
    if sys.platform == "win32":
        return most
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if limit == resource.RLIM_INFINITY else min(most, limit - min(_OWN_FILES, limit // 2))


async def lets_in_anybody(store: Store, settings: ServerSettings) -> bool:
    """Whether requests from this machine need no token, because there is none; refused where others could come too."""
    if settings.has_sign_on or await store.has_token():
        return False
    if not settings.is_private:
        place = settings.host if settings.url is None else settings.url
        message = f"{place} can be reached by others, and there is no token to tell them apart by; make one with"
        message += " `holdfast tokens create --name me --role admin`, or let a proxy say who asks (--proxy,"
        message += " --user-header), or listen on 127.0.0.1 alone"
        raise InvalidValue(message)
    return True


async def make_link(store: Store, address: str) -> str:
    """Make an address that lets one person in once, as an admin, within ten minutes."""
    secret = secrets.new_secret()
    link = NewToken(
        kind="link",
        name="dev",
        digest=secrets.digest_of(secret),
        hint=secrets.hint_of(secret),
        role="admin",
        queues=None,
        created_by="serve",
        lasts_ms=_LINK_MS,
    )
    await store.add_token(link)
    return f"{address}login?link={secret}"


def listen(settings: ServerSettings) -> socket.socket:
    """Take the address, before anything else is begun that somebody could hear of."""
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = min(found, key=lambda one: one[0] is not socket.AF_INET)
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _unusable(settings, error) from None
    try:
        if os.name == "posix":  # or the address of a server that has just stopped would be taken for a while
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _let_go_of_the_lost(listening)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise _unusable(settings, error) from None
    return listening


def _let_go_of_the_lost(listening: socket.socket) -> None:
    """Close connections whose other end has vanished without a word, or takes nothing; each inherits this."""
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _LOST:
        if hasattr(socket, name):  # which it is not on every system
            listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _unusable(settings: ServerSettings, error: OSError) -> ConfigError:
    message = f"cannot listen on {settings.host}, port {settings.port} ({error.strerror or error}): it is {_BUSY};"
    message += " choose another with --host and --port"
    return ConfigError(message)


def address_of(settings: ServerSettings, listening: socket.socket) -> str:
    """The address to open in a browser."""
    if settings.url is not None:
        return settings.url.rstrip("/") + "/"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{listening.getsockname()[1]}/"


async def serve(application: ASGIApp, settings: ServerSettings, listening: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM; what is under way then may end, for a while."""
    root = "" if settings.url is None else urlsplit(settings.url).path.rstrip("/")
    config = uvicorn.Config(
        Rooted(application, root) if root else application,
        http=Connection,
        # Whom to believe is decided by our own settings; uvicorn would believe everybody on this machine.
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_config=None,
        ws="none",
        backlog=_AT_A_TIME,
        timeout_graceful_shutdown=_PATIENCE_S,
    )
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # it warns of each request that it cannot read
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        # uvicorn raises the signal again once it has stopped, and then it has been obeyed already.
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, _nothing)
    await Server(config, most_connections(settings)).serve(sockets=[listening])


def _nothing() -> None:
    pass
