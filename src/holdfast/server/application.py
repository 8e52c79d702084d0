"""The ASGI application: every route in one place, mountable under any path."""

import functools
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from holdfast.errors import HoldfastError
from holdfast.release import RELEASE
from holdfast.server import api, pages, routing
from holdfast.server.gate import Gate
from holdfast.server.kinds import KindRegistry
from holdfast.server.live import Live
from holdfast.server.metering import Metering
from holdfast.server.pacing import Pacing
from holdfast.server.pages.as_json import data_routes
from holdfast.server.pages.files import file
from holdfast.server.pages.problem import problem_page, wants_page
from holdfast.server.problems import OPAQUE, Problem, problem_of
from holdfast.server.recent import recent
from holdfast.server.remembering import Remembering
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes
from holdfast.server.served import Served
from holdfast.server.shield import Shield
from holdfast.telemetry.exposition import CONTENT_TYPE

_logger = logging.getLogger("holdfast")

_MISTAKES = 20
_READY_S = 1.0
_OURS = 500  # from here on it was no mistake of whoever asked


def make_application(served: Served) -> ASGIApp:
    """Build the application; nothing is opened before the first request."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await served.closed()

    app = FastAPI(
        title="Holdfast",
        version=RELEASE,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,  # an address has one spelling
        separate_input_output_schemas=False,
        routes=list(_routes()),
        lifespan=lifespan,
    )
    app.state.served = served
    app.state.gate = Gate(served)
    app.state.pacing = None if served.server.pace is None else Pacing(served.server.pace)
    app.state.documents = {}
    app.state.kinds = KindRegistry(served)
    app.state.live = Live(app.state.gate, served.server)
    app.add_exception_handler(Problem, _on_problem)
    app.add_exception_handler(HoldfastError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(ClientDisconnect, _on_disconnect)
    app.add_exception_handler(Exception, _on_unexpected)
    app.add_middleware(Remembering)
    if served.meter is not None:
        app.add_middleware(Metering, meter=served.meter)
    return Shield(app, served.server, app.state.gate.turn_away)


@functools.cache
def _routes() -> tuple[BaseRoute, ...]:
    """Make every route, once for all applications of a process: they are the same, and take a quarter of a second."""
    router = APIRouter(generate_unique_id_function=lambda route: route.name)
    router.include_router(_vitals().router)
    for resource in api.RESOURCES:
        router.include_router(resource.router, prefix="/api/v1")
    router.include_router(api.SEED.router)
    router.include_router(data_routes(api.RESOURCES).router)  # before pages, whose names would take the ending in
    for some in pages.PAGES:
        router.include_router(some.router)
    router.add_route("/static/{name}", file, include_in_schema=False)
    return tuple(router.routes)


def _vitals() -> Routes:
    routes = Routes("vitals", in_schema=False)

    @routes.router.api_route("/healthz", methods=["GET", "HEAD"], include_in_schema=False)
    async def healthz() -> PlainTextResponse:
        return PlainTextResponse("ok")

    @routes.router.api_route("/readyz", methods=["GET", "HEAD"], include_in_schema=False)
    async def readyz(request: Request) -> PlainTextResponse:
        try:
            store = (await routing.served(request).opened()).store
            await recent(store, "ready", _READY_S, store.list_queues)  # anybody may ask, and as often as they like
        except HoldfastError:
            return PlainTextResponse("away", 503)
        return PlainTextResponse("ready")

    @routes.get("/metrics", Permission.LOOK, whole=True)
    async def metrics(request: Request) -> Response:
        text = routing.served(request).metrics
        if text is None:
            detail = "no metrics are shown here; start the server with --metrics, or give the app that it is part of"
            detail += " telemetry=TelemetrySettings(metrics=True)"
            raise Problem(404, detail, "not-found")
        return PlainTextResponse(await text(), media_type=CONTENT_TYPE)

    return routes


def _answered(request: Request, problem: Problem) -> Response:
    """Answer with a problem: people with a page, programs with JSON."""
    return problem_page(request, problem) if wants_page(request) else routing.answer(request, problem)


async def _on_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)  # noqa: S101 - registered for it
    return _answered(request, error)


async def _on_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HoldfastError)  # noqa: S101 - registered for it
    problem = problem_of(error)
    if problem.status >= _OURS:
        _logger.error("request %s: %s: %s", request.state.request_id, type(error).__name__, error)
    return _answered(request, problem)


async def _on_disconnect(_: Request, error: Exception) -> Response:
    """Answer a caller who has gone in the middle of a body: the audit has the status, the log needs nothing."""
    del error
    return Response(status_code=400)


async def _on_unexpected(request: Request, error: Exception) -> Response:
    del error  # whoever is around this application writes it down
    return _answered(request, Problem(500, OPAQUE, "unexpected"))


async def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for it
    errors = [
        {"where": ".".join(str(part) for part in mistake["loc"]), "what": mistake["msg"]}
        for mistake in error.errors()[:_MISTAKES]
    ]
    detail = "; ".join(f"{one['where']}: {one['what']}" for one in errors)
    return _answered(request, Problem(422, detail, "invalid-request", extra={"errors": errors}))


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for it
    headers = dict(error.headers or {})
    if error.status_code == 404:  # noqa: PLR2004 - as HTTP has it
        return _answered(request, Problem(404, f"there is nothing at {request.url.path}", "not-found"))
    return _answered(request, Problem(error.status_code, str(error.detail), headers=headers))
