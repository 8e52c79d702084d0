"""Routes that say who may use them, and leave a trace of what was done.

Every route is made by `Routes`: it names the least role, which is checked before its handler runs and stands in the
OpenAPI document, where the tests read it. Whoever changes something leaves a row in the audit, whatever came of it.
"""

import functools
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import is_dataclass
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse
from starlette.responses import Response

from holdfast.errors import HoldfastError
from holdfast.resources.redaction import redact
from holdfast.server import problems
from holdfast.server.bodies import BodyRoute
from holdfast.server.cookies import is_our_form
from holdfast.server.gate import CHALLENGE, Gate
from holdfast.server.pacing import Pacing
from holdfast.server.principal import Principal
from holdfast.server.problems import Problem
from holdfast.server.roles import Permission
from holdfast.server.scoped.client import ScopedClient
from holdfast.server.served import Served
from holdfast.server.shield import SAFE
from holdfast.stores.access import NewAuditEntry

_logger = logging.getLogger("holdfast")

F = TypeVar("F", bound=Callable[..., Any])

_ERRORS = (401, 403, 404, 409, 413, 422, 429, 503)
_DETAIL = 4_000
_TARGET = 500
_SMALL, _DIGITS = 32_000, 5
_PLAIN = "/:@!$&'()*+,;= "  # what a path may hold; all else, as a database may refuse it, is escaped
_LET_IN = "holdfast.let_in"  # in the scope, which belongs to one request whoever runs the server
HOLD = "holdfast.hold"  # in the scope: keeps the connection of a caller who is let in, where the server bounds them
ROLE = "x-role"
SCOPE = "x-scope"


def documented() -> dict[int | str, dict[str, Any]]:
    """The errors that every route may answer with."""
    content = {problems.TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": problems.TITLES[status], "content": content} for status in _ERRORS}


def noted(request: Request, **facts: Any) -> None:
    """Add what was asked for, or what came of it, to the audit row of this request; no secrets."""
    request.state.facts = {**getattr(request.state, "facts", {}), **facts}


class Routes:
    """Routes of one resource, under one prefix.

    With `whole=True` a route concerns all queues, and is closed to those who may see some of them only; all others show
    and change what lies in the queues that the asker may see.
    """

    def __init__(
        self, tag: str, prefix: str = "", *, in_schema: bool = True, route_class: type[BodyRoute] = BodyRoute
    ) -> None:
        self.router = APIRouter(prefix=prefix, tags=[tag], route_class=route_class)
        self.permissions: dict[tuple[str, str], Permission] = {}
        self._in_schema = in_schema

    def get(self, path: str, permission: Permission, **options: Any) -> Callable[[F], F]:
        """Register a handler that only looks."""
        return self._route("GET", path, permission, options)

    def post(self, path: str, permission: Permission, **options: Any) -> Callable[[F], F]:
        """Register a handler that does something."""
        return self._route("POST", path, permission, options)

    def put(self, path: str, permission: Permission, **options: Any) -> Callable[[F], F]:
        """Register a handler that sets something."""
        return self._route("PUT", path, permission, options)

    def patch(self, path: str, permission: Permission, **options: Any) -> Callable[[F], F]:
        """Register a handler that changes something."""
        return self._route("PATCH", path, permission, options)

    def delete(self, path: str, permission: Permission, **options: Any) -> Callable[[F], F]:
        """Register a handler that removes something."""
        return self._route("DELETE", path, permission, options)

    def open(self, method: str, path: str) -> Callable[[F], F]:
        """Register a handler for everybody, also for those of whom nothing is known; a form must still be of ours."""
        return self.router.api_route(
            path,
            methods=[method],
            dependencies=[Depends(_require_small), Depends(_require_form)],
            include_in_schema=False,
        )

    def _route(self, method: str, path: str, permission: Permission, options: dict[str, Any]) -> Callable[[F], F]:
        scope = "all" if (is_whole := options.pop("whole", False)) else "queues"
        self.permissions[method, self.router.prefix + path] = permission
        extra = {**options.pop("openapi_extra", {}), ROLE: permission.role.word, SCOPE: scope}
        status = options.pop("status_code", 200)  # which a class of answers need not name
        register = self.router.api_route(
            path,
            methods=[method],
            dependencies=[Depends(_requires(permission, is_whole=is_whole))],
            responses={**documented(), **options.pop("responses", {})},
            openapi_extra=extra,
            status_code=status,
            include_in_schema=options.pop("include_in_schema", self._in_schema),
            **options,
        )

        def registered(handler: F) -> F:
            register(_answering(handler, status))
            return handler

        return registered


def _answering(handler: Callable[..., Any], status: int) -> Callable[..., Any]:
    """Let a handler return a resource: the caller gets it as JSON, with its secrets covered."""

    @functools.wraps(handler)
    async def answer(*args: Any, **kwargs: Any) -> Any:
        value = await handler(*args, **kwargs)
        if not is_dataclass(value):
            return value
        said = next((one for one in kwargs.values() if isinstance(one, Response)), None)  # where it sets headers
        headers = None if said is None else dict(said.headers)
        chosen = None if said is None else said.status_code
        return Response(msgspec.json.encode(redact(value)), chosen or status, headers, media_type="application/json")

    return answer


def served(request: Request) -> Served:
    """What the server serves."""
    found: Served = request.app.state.served
    return found


def gate(request: Request) -> Gate:
    """Who is let in."""
    found: Gate = request.app.state.gate
    return found


def require_role(principal: Principal, permission: Permission) -> None:
    """Refuse what a role is too small for."""
    if not principal.may(permission.role):
        detail = f"this needs the role {permission.role.word}, and {principal.name} has the role {principal.role.word}"
        raise Problem(403, detail, "role")


def _requires(permission: Permission, *, is_whole: bool = False) -> Callable[[Request], Awaitable[None]]:
    async def require(request: Request) -> None:
        if request.scope.get(_LET_IN) is require:  # a route asks before it reads the body, and FastAPI once more
            return
        principal = await gate(request).principal(request)
        if principal is None:  # guard: authentication
            detail = "say who asks: Authorization: Bearer hf_..., or log in"
            raise Problem(401, detail, "nobody", headers=CHALLENGE)
        request.state.principal = principal
        _hold_connection(request)
        pacing: Pacing | None = request.app.state.pacing
        if pacing is not None:
            pacing.take(principal)  # guard: request-rate
        require_role(principal, permission)  # guard: route-role
        if is_whole and principal.queues is not None:  # guard: scope-whole-routes
            detail = f"this concerns all queues, and {principal.name} may see {len(principal.queues)} of them only"
            raise Problem(403, detail, "scope")
        if request.method not in SAFE and principal.via != "token" and _is_from_browser(request):  # guard: form-token
            await _require_form(request)
        request.scope[_LET_IN] = require

    return require


def _hold_connection(request: Request) -> None:
    """Keep the connection until the answer, though others without a token want places."""
    hold: Callable[[], bool] | None = request.scope.get(HOLD)
    if hold is not None and not hold():  # guard: connections-held
        detail = "the server has as many requests and streams open as it may; try again in a moment, close streams, or"
        detail += " raise the limit of open files of the server"
        raise Problem(503, detail, "too-many-connections", headers={"retry-after": "5"})


def _is_from_browser(request: Request) -> bool:
    return "origin" in request.headers or "sec-fetch-site" in request.headers or "cookie" in request.headers


async def _require_small(request: Request) -> None:
    """Refuse what no form of ours can be: strangers are not given the time that reading a large one takes."""
    length = request.headers.get("content-length", "")
    is_small = length.isdecimal() and len(length) <= _DIGITS and int(length) <= _SMALL
    if request.method not in SAFE and not is_small:  # guard: stranger-body
        raise Problem(413, f"a form here has at most {_SMALL:,} bytes, and says how many", "too-large")


async def _require_form(request: Request) -> None:
    if request.method in SAFE:
        return
    given = request.headers.get("x-form-token")
    if given is None and request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        await request.body()  # kept, so that the handler can read it again
        value = (await request.form()).get("form_token")
        given = value if isinstance(value, str) else None
    if not is_our_form(request, given):  # guard: form-token-check
        raise Problem(403, "the form is not one of this server, or is too old: load the page again", "form")


def _who(request: Request) -> Principal:
    found: Principal = request.state.principal
    return found


async def _scoped_client(request: Request) -> ScopedClient:
    here = served(request)
    return ScopedClient(await here.opened(), here.describe, _who(request), request.app.state.kinds)


Who = Annotated[Principal, Depends(_who)]
Seen = Annotated[ScopedClient, Depends(_scoped_client)]


async def remember(request: Request, status: int) -> None:
    """Write down what somebody did, or tried to; a store that is away loses it, and the log has it then."""
    principal: Principal | None = getattr(request.state, "principal", None)
    if principal is None or request.method in SAFE:
        return
    route = request.scope.get("route")
    facts: Mapping[str, Any] = {**dict(request.path_params), **getattr(request.state, "facts", {})}
    queue = facts.get("queue")
    entry = NewAuditEntry(
        actor=principal.name,
        role=principal.role.word,
        action=getattr(route, "name", "") or "unknown",
        target=quote(request.url.path, safe=_PLAIN)[:_TARGET],
        queue=queue if isinstance(queue, str) else None,
        status=status,
        detail=_detail(facts),
        request=request.state.request_id,
    )
    try:
        await (await served(request).opened()).store.add_audit(entry)  # guard: audit-row
    except HoldfastError as error:
        _logger.error("what %s did could not be written down (%s): %s", entry.actor, error, entry)  # noqa: TRY400 - no traceback of ours helps


def _detail(facts: Mapping[str, Any]) -> str:
    text = json.dumps(facts, default=str).replace("\\u0000", "\\ufffd")  # which PostgreSQL does not keep
    return text if len(text) <= _DETAIL else json.dumps({"omitted": f"{len(text):,} characters"})


def answer(request: Request, problem: Problem) -> Response:
    """Answer with a problem."""
    body = problem.body(request.state.request_id)
    return JSONResponse(body, problem.status, problem.headers, media_type=problems.TYPE)
