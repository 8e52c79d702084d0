"""The page that says what went wrong; to those who are not known it is the login."""

from fastapi import Request
from starlette.responses import RedirectResponse, Response

from holdfast.server.pages.rendering import page, part_of, url
from holdfast.server.problems import TITLES, Problem

_PROGRAMS = ("/api/v1/", "/static/", "/metrics", "/healthz", "/readyz")
_NOBODY = 401


def wants_page(request: Request) -> bool:
    """Whether a person reads the answer."""
    path: str = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    if path.startswith(_PROGRAMS):
        return False
    return "text/html" in request.headers.get("accept", "")


def problem_page(request: Request, problem: Problem) -> Response:
    """Show a problem; somebody who is not known may log in, and gets what they asked for then."""
    is_part = part_of(request) is not None or "hx-request" in request.headers
    login = url(request, "login", next=_asked(request))
    if problem.status == _NOBODY and not is_part:
        return RedirectResponse(login, 303)
    title = TITLES.get(problem.status, "The request failed")
    response = page(
        request,
        "problem.html",
        at="",
        live="",
        status=problem.status,
        title=title,
        problem=problem,
        request_id=request.state.request_id,
    )
    response.headers.update(problem.headers | ({"hx-redirect": login} if problem.status == _NOBODY else {}))
    return response


def _asked(request: Request) -> str | None:
    """The address to come back to: what was to be looked at, and nothing that was to be done."""
    if request.method != "GET" or part_of(request) is not None:
        return None
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")
