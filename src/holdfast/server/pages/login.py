"""Logging in and out: a token, or a link that lets in once, becomes a login that a browser keeps."""

import logging
from typing import Annotated
from urllib.parse import unquote, urlsplit

from fastapi import Form, Query, Request
from starlette.responses import RedirectResponse, Response

from holdfast.client import secrets
from holdfast.errors import HoldfastError
from holdfast.server import cookies, routing
from holdfast.server.gate import principal_of
from holdfast.server.pages.rendering import page, url
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Who
from holdfast.server.whence import address_of
from holdfast.stores.access import NewToken, TokenRow

routes = Routes("pages", in_schema=False)

_logger = logging.getLogger("holdfast")

_LONGEST = 2_000
_WRONG_TOKEN = "The token is not known, has expired or was revoked."  # noqa: S105 - what is said of one
_WRONG_LINK = "The link was used before, or is too old. Ask for another, or log in with a token."

After = Annotated[str, Query(alias="next", max_length=_LONGEST)]


@routes.open("GET", "/login")
async def login_page(request: Request, after: After = "", link: str = Query("", max_length=_LONGEST)) -> Response:
    """Ask for a token, or let somebody with a link press a button: looking changes nothing, a preview neither."""
    return _asking(request, after, link=link)


@routes.open("POST", "/login")
async def log_in(
    request: Request,
    token: str = Form("", max_length=_LONGEST),
    link: str = Form("", max_length=_LONGEST),
    after: str = Form("", alias="next", max_length=_LONGEST),
) -> Response:
    """Let somebody in."""
    found = await _found(request, token.strip(), link.strip())
    if found is None:
        return _asking(request, after, link="", wrong=_WRONG_LINK if link else _WRONG_TOKEN)
    principal = principal_of(found, "session")
    request.state.principal = principal
    store = (await routing.served(request).opened()).store
    if (old := cookies.session_of(request)) is not None:
        former = await routing.gate(request).known(old)
        if former is not None and former.kind == "session":  # and no token that somebody has put there
            await store.revoke_token(former.id, actor=principal.name)  # guard: login-replaces
    # A link has ended with its use.
    parent = found.id if found.kind == "token" else None  # guard: login-parent, without: parent = None
    secret = secrets.new_secret()
    await store.add_token(
        NewToken(
            kind="session",
            name=found.name,
            digest=secrets.digest_of(secret),
            hint=secrets.hint_of(secret),
            role=found.role,
            queues=found.queues,
            created_by=found.name,
            lasts_ms=routing.served(request).server.session_ms,
            parent=parent,
        )
    )
    response = RedirectResponse(own_path(request, after), 303)
    cookies.begin_session(response, secret, is_secure=request.state.is_secure)
    return response


@routes.post("/logout", Permission.LOOK)
async def log_out(request: Request, who: Who) -> Response:
    """Let a login end, on the server too."""
    if who.via == "session" and who.token_id is not None:
        store = (await routing.served(request).opened()).store
        await store.revoke_token(who.token_id, actor=who.name)  # guard: logout-revokes
    response = RedirectResponse(url(request, "login"), 303)
    cookies.end_session(response)
    return response


def own_path(request: Request, given: str) -> str:
    """The page to go to after a login: one of this server, and never another."""
    home = url(request, "")
    try:
        parts = urlsplit(given)
    except ValueError:
        return home
    path = unquote(parts.path)
    is_own = (
        given.startswith(home)
        and given.isprintable()
        and not parts.scheme
        and not parts.netloc
        and not given.startswith("//")  # however many, browsers take the first word behind them for a host
        and "\\" not in path
        and ".." not in path.split("/")
    )
    if not is_own or path in {url(request, "login"), url(request, "logout")}:  # guard: login-target
        return home
    return given


async def _found(request: Request, token: str, link: str) -> TokenRow | None:
    """Look up what somebody came with; what is wrong counts against where they come from."""
    gate, served = routing.gate(request), routing.served(request)
    address = address_of(request, served.server)
    gate.failing.begin(address)  # guard: login-lockout
    try:
        if link:
            found = await (await served.opened()).store.use_link(secrets.digest_of(link))
        else:
            found = await gate.known(token)
            if found is not None and found.kind != "token":  # guard: login-token-kind
                found = None
    except HoldfastError:
        gate.failing.forgive(address)
        raise
    if found is None:
        _logger.warning("request %s: a login from %s failed", request.state.request_id, address)
    else:
        gate.failing.forgive(address)
    return found


def _asking(request: Request, after: str, *, link: str, wrong: str | None = None) -> Response:
    status = 200 if wrong is None else 401
    return page(request, "login.html", at="login", live="", status=status, after=after, link=link, wrong=wrong)
