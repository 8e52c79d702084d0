"""The two cookies of the dashboard: the login, and what forms are told apart by."""

import hashlib
import hmac
import secrets

from starlette.requests import Request
from starlette.responses import Response

_SESSION = "holdfast_session"
_FORMS = "holdfast_forms"
_HOST = "__Host-"
_BYTES = 24
_YEAR_S = 31_536_000


def session_of(request: Request) -> str | None:
    """The secret of a login, if one was brought."""
    return request.cookies.get(_named(_SESSION, is_secure=request.state.is_secure))


def begin_session(response: Response, secret: str, *, is_secure: bool) -> None:
    """Let a browser keep a login; links from mail and chat must work, so it is sent with them too."""
    _set(response, _SESSION, secret, is_secure=is_secure)


def end_session(response: Response) -> None:
    """Let a browser forget a login."""
    response.delete_cookie(_HOST + _SESSION, path="/", secure=True, httponly=True, samesite="lax")
    response.delete_cookie(_SESSION, path="/", httponly=True, samesite="lax")


def forms_of(request: Request) -> str | None:
    """The value that forms of this browser are told by, if it has one."""
    return request.cookies.get(_named(_FORMS, is_secure=request.state.is_secure))


def new_forms() -> str:
    """Make a value that forms of a browser are told by."""
    return secrets.token_urlsafe(_BYTES)


def keep_forms(response: Response, value: str, *, is_secure: bool) -> None:
    """Let a browser keep the value that its forms are told by."""
    _set(response, _FORMS, value, is_secure=is_secure, lasts_s=_YEAR_S)


def form_token(request: Request, value: str) -> str:
    """What a form carries: another site can send the cookies, but neither read them nor guess this from nothing.

    It belongs to one login: whoever has put a value of their own there still does not know this.
    """
    login = session_of(request) or ""  # guard: form-of-login, without: login = ""
    told = f"holdfast form {value} {login}"
    return hashlib.sha256(told.encode(errors="surrogatepass")).hexdigest()


def is_our_form(request: Request, given: str | None) -> bool:
    """Whether a form, or the header of a script, was made by a page of ours."""
    value = forms_of(request)
    if value is None or given is None:
        return False
    return hmac.compare_digest(form_token(request, value).encode(), given.encode(errors="surrogatepass"))


def _named(name: str, *, is_secure: bool) -> str:
    """The name of a cookie; by https only the one that no other site, and nobody on the way, can have set."""
    return (_HOST if is_secure else "") + name


def _set(response: Response, name: str, value: str, *, is_secure: bool, lasts_s: int | None = None) -> None:
    response.set_cookie(
        _named(name, is_secure=is_secure),
        value,
        max_age=lasts_s,
        path="/",
        secure=is_secure,
        httponly=True,  # guard: cookie-httponly, without: httponly=False,
        samesite="lax",
    )
