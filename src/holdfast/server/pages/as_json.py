"""The address of a page with `.json` behind it: the same as JSON, by the very route of the API that shows it."""

from collections.abc import Iterable
from datetime import datetime
from urllib.parse import parse_qsl, urlencode

from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope

from holdfast.server.bodies import BodyRoute
from holdfast.server.pages.twins import DATA
from holdfast.server.routing import SCOPE, Routes

_END = ".json"
_OPEN = {"open": "true", "closed": "false"}


class JsonRoute(BodyRoute):
    """A route that answers where `.json` ends the address itself, not a name, and takes the query of a page.

    Names may end so too: pages escape the dot then, see `rendering.url`.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Tell whether it is asked for."""
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        if not raw.endswith(_END.encode()):
            return Match.NONE, {}
        match, inner = super().matches(scope)
        if match is not Match.NONE:
            inner["query_string"] = asked(scope.get("query_string", b"").decode("latin-1")).encode("latin-1")
        return match, inner


def asked(query: str) -> str:
    """Say in the words of the API what a page is asked for; what its forms leave empty is not asked for."""
    given = {name: value for name, value in parse_qsl(query) if value}
    if (shown := given.pop("show", "")) in _OPEN:
        given["open"] = _OPEN[shown]
    if "since" in given:
        given["since"] = _with_zone(given["since"])
    return urlencode(given)


def _with_zone(moment: str) -> str:
    """Read a time as pages do, for whom one without a zone is UTC."""
    try:
        is_bare = datetime.fromisoformat(moment).tzinfo is None
    except ValueError:
        return moment  # and the API says what is wrong with it
    return f"{moment}Z" if is_bare else moment


def data_routes(resources: Iterable[Routes]) -> Routes:
    """Make a route for each page that the API shows, open to those whom the API lets in."""
    listed = list(resources)
    every = [route for resource in listed for route in resource.router.routes if isinstance(route, APIRoute)]
    permissions = {key: permission for resource in listed for key, permission in resource.permissions.items()}
    reading = {route.path.strip("/"): route for route in every if "GET" in (route.methods or ())}
    found = Routes("json", in_schema=False, route_class=JsonRoute)
    for page, path in DATA.items():
        route = reading[path]
        said = route.openapi_extra or {}
        found.get(
            f"/{page}{_END}",
            permissions["GET", route.path],
            whole=said[SCOPE] == "all",
            response_model=route.response_model,
            name=route.name,
        )(route.endpoint)
    return found
