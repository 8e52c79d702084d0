"""Who is let in: a token, a login, somebody else's word, or (where nothing is open to others) being on this machine."""

import inspect
import logging
from collections import OrderedDict

from starlette.requests import HTTPConnection, Request

from holdfast.client import secrets
from holdfast.errors import HoldfastError
from holdfast.server.cookies import session_of
from holdfast.server.failing import Failing
from holdfast.server.latch import Latch
from holdfast.server.principal import Principal, Via
from holdfast.server.problems import Problem
from holdfast.server.roles import Role, read_role
from holdfast.server.served import Served
from holdfast.server.settings import ServerSettings, is_loopback
from holdfast.server.whence import address_of, is_from_proxy
from holdfast.stores.access import TokenRow

_logger = logging.getLogger("holdfast")

CHALLENGE = {"www-authenticate": 'Bearer realm="holdfast"'}
LOCAL = "local"
_FORWARDED = ("forwarded", "x-forwarded", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip", "via")
_AS_PROXIES_DO = "1.0"  # the HTTP that nginx asks in where nobody has told it otherwise, and no browser
_SCHEME = "bearer"
_MOST_WELCOME = 10_000


class Gate:
    """Lets people in, and slows down those who guess."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._settings: ServerSettings = served.server
        self.failing = Failing()
        self._latch = Latch(served)
        self._welcome: OrderedDict[str, None] = OrderedDict()  # digests of tokens that were right the last time
        self._trying: set[str] = set()

    def turn_away(self, connection: HTTPConnection) -> None:
        """Refuse another guess of those who guess before anything is done for it: all others would wait for that."""
        scheme, _, given = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() == _SCHEME and not self._is_welcome(secrets.digest_of(given.strip())):
            self.failing.require_few(address_of(connection, self._settings))  # guard: guess-lockout

    def _is_welcome(self, digest: str) -> bool:
        return digest in self._welcome or digest in self._trying

    async def principal(self, request: Request) -> Principal | None:
        """Find out who asks; None for nobody, and a problem for somebody who is refused."""
        said = request.headers.getlist("authorization")
        # A proxy may have looked at the other header only.
        if len(said) > 1:  # guard: one-authorization
            raise Problem(401, "say who asks once: there are several Authorization headers", "token", headers=CHALLENGE)
        scheme, _, given = "".join(said).partition(" ")
        if scheme.lower() == _SCHEME:  # what a proxy asked for, as Basic does, is not meant for us
            return await self._by_token(request, given.strip())
        if self._settings.authorize is not None and (hooked := await self._by_hook(request)) is not None:
            return hooked
        if self._settings.user_header is not None and (proxied := self._by_proxy(request)) is not None:
            return proxied
        if (secret := session_of(request)) is not None:
            found = await self.known(secret)
            if found is not None and found.kind == "session":  # guard: session-kind, without: if found is not None:
                return principal_of(found, "session")
        if self._is_here(request) and await self._latch.is_up():
            return Principal(LOCAL, Role.ADMIN, None, "loopback")
        return None

    async def known(self, secret: str) -> TokenRow | None:
        """Find the pass of a secret, if it holds now."""
        store = (await self._served.opened()).store
        return await store.find_token(secrets.digest_of(secret), lasts_ms=self._settings.session_ms)

    async def _by_token(self, request: Request, secret: str) -> Principal:
        """Look a token up; one that was right the last time is looked up even where others guess."""
        address, digest = address_of(request, self._settings), secrets.digest_of(secret)
        is_counted = not self._is_welcome(digest)
        if is_counted:
            self.failing.begin(address)  # guard: guess-lockout
        self._trying.add(digest)
        try:
            found = await self.known(secret)
        except HoldfastError:
            if is_counted:
                self.failing.forgive(address)
            raise
        finally:
            self._trying.discard(digest)
        if found is None or found.kind != "token":  # guard: token-kind, without: if found is None:
            self._welcome.pop(digest, None)
            if not is_counted:
                self.failing.failed(address)
            detail = "the token is not known, has expired or was revoked; make one with `holdfast tokens create`"
            raise Problem(401, detail, "token", headers=CHALLENGE)
        if is_counted:
            self.failing.forgive(address)
            self._welcome[digest] = None
            if len(self._welcome) > _MOST_WELCOME:
                self._welcome.popitem(last=False)
        return principal_of(found, "token")

    async def _by_hook(self, request: Request) -> Principal | None:
        authorize = self._settings.authorize
        try:
            answer = authorize(request) if authorize is not None else None
            said = await answer if inspect.isawaitable(answer) else answer
        except Exception as error:
            _logger.exception("request %s: authorize(request) failed, and nobody is let in", request.state.request_id)
            raise _unauthorized() from error
        if isinstance(said, Role):
            return Principal("authorized", said, None, "hook")
        if said is not None and not isinstance(said, Principal):  # guard: hook-answer
            kind = type(said).__name__
            _logger.error("authorize(request): expected a Principal, a Role or None, got a %s; nobody is let in", kind)
            raise _unauthorized()
        return said

    def _by_proxy(self, request: Request) -> Principal | None:
        """Believe what a proxy says of who asks, if it says one thing."""
        settings = self._settings
        names = request.headers.getlist(settings.user_header or "")
        if not names or not is_from_proxy(request, settings):  # guard: proxy-address, without: if not names:
            return None
        # A second one is what somebody sent and the proxy left there.
        if len(names) > 1 or not names[0] or not names[0].isprintable():  # guard: proxy-name
            raise Problem(403, "the proxy does not say plainly who asks", "proxy")
        said = request.headers.getlist(settings.role_header) if settings.role_header else []
        role = settings.role_of(names[0]) if not said else _one_role(said)
        if role is None:
            raise Problem(403, f"{names[0][:100]} may not come in; name them in server.users", "proxy")
        return Principal(names[0], role, None, "proxy")

    def _is_here(self, request: Request) -> bool:
        """Whether somebody on this machine asks, and not a proxy for others."""
        if request.client is None:
            return False
        if any(name.startswith(_FORWARDED) for name in request.headers):  # guard: local-without-forwarded
            return False
        if request.scope.get("http_version") == _AS_PROXIES_DO:  # guard: local-without-proxy
            return False
        return is_loopback(request.client.host)  # guard: local-address, without: return True


def principal_of(found: TokenRow, via: Via) -> Principal:
    """Who comes with a pass."""
    queues = None if found.queues is None else frozenset(found.queues)
    return Principal(found.name, read_role(found.role), queues, via, found.id)


def _one_role(said: list[str]) -> Role | None:
    word = said[0].strip().upper()
    return Role[word] if len(said) == 1 and word in Role.__members__ else None


def _unauthorized() -> Problem:
    return Problem(403, "who asks could not be found out; whoever runs the server finds why in its log", "authorize")
