"""Pages from templates: everything is escaped, every address knows the path the server is mounted under."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from fastapi import Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, RedirectResponse

from holdfast import sizes
from holdfast.job import JobState
from holdfast.release import RELEASE
from holdfast.server import cookies
from holdfast.server.pages import said as messages
from holdfast.server.pages.files import marked
from holdfast.server.pages.said import Said
from holdfast.server.pages.twins import twin
from holdfast.server.principal import Principal
from holdfast.server.roles import Permission
from holdfast.server.settings import ServerSettings
from holdfast.telemetry.redaction import hide

NAV = (
    ("", (("overview", "", "Overview"), ("jobs", "jobs", "Jobs"))),
    (
        "Work",
        (("queues", "queues", "Queues"), ("schedules", "schedules", "Schedules"), ("workers", "workers", "Workers")),
    ),
    (
        "Trouble",
        (
            ("failures", "failures", "Failures"),
            ("dead-letters", "dead-letters", "Dead letters"),
            ("escalations", "escalations", "Escalations"),
        ),
    ),
    ("Policies", (("budgets", "budgets", "Budgets"), ("limits", "limits", "Limits & locks"))),
    ("", (("system", "system", "System"),)),
)
_WHOLE = frozenset({"budgets", "limits", "system"})  # closed to those who may see some queues only
NOTHING = "\N{EN DASH}"
_ADDRESS = re.compile(r"https?://[\w.-]+(?::\d+)?(?:[/?#](?:[^\s<>\"'`]*[\w/#=&-])?)?")
_TICKED = re.compile(r"`([^`]+)`")
_COLOUR = re.compile(r"[a-z]{3,20}|#[0-9a-fA-F]{3,8}")


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("holdfast.server.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {"iso": _iso, "number": _number, "span": span, "word": word}
    environment.filters |= {
        "bytes": _bytes,
        "code": _code,
        "colour": _colour,
        "json": _json,
        "hide": hide,
        "linked": linked,
    }
    environment.globals |= {"release": RELEASE, "file": marked, "permission": Permission}
    # Known everywhere, also where one block of a page is rendered alone.
    environment.globals["ui"] = environment.get_template("ui.html").module
    return environment


def page(request: Request, template: str, *, at: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Render a page; a request of the script for one part of it gets the block of that name alone."""
    principal: Principal | None = getattr(request.state, "principal", None)
    forms = cookies.forms_of(request) or cookies.new_forms()
    told = request.cookies.get(messages.COOKIE)
    known = {
        "at": at,
        "principal": principal,
        "may": lambda permission: principal is not None and principal.may(permission.role),
        "form_token": cookies.form_token(request, forms),
        "url": lambda *parts, **query: url(request, *parts, **query),
        "now": datetime.now(UTC),
        "said": messages.read(told),
        "instance": request.app.state.served.server.title,
        "instances": _instances(request),
        "twin": twin(request.scope["path"].removeprefix(request.scope.get("root_path", "")), request.query_params),
        "asked": request.url.query,
        "live": "all",
        "nav": _nav(principal),
        "query": "",
    }
    found = _ENVIRONMENT.get_template(template)
    part = part_of(request)
    is_part = part is not None and part in found.blocks
    if is_part and part is not None:
        context = found.new_context(known | values)
        text = "".join(found.blocks[part](context))
    else:
        text = found.render(known | values)
    response = HTMLResponse(text, status, {"vary": "x-part"})
    if cookies.forms_of(request) is None:
        cookies.keep_forms(response, forms, is_secure=request.state.is_secure)
    if told is not None and not is_part:
        response.delete_cookie(messages.COOKIE, path=_home(request), httponly=True, samesite="lax")
    return response


def _nav(principal: Principal | None) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """The pages that somebody may open, in groups."""
    closed = frozenset() if principal is None or principal.queues is None else _WHOLE
    groups = [(title, [one for one in pages if one[0] not in closed]) for title, pages in NAV]
    if (
        closed and principal is not None and principal.may(Permission.READ_AUDIT.role)
    ):  # of the system, that much is theirs
        groups.append(("", [("system", "system/audit", "Audit & tokens")]))
    return [(title, pages) for title, pages in groups if pages]


def _instances(request: Request) -> list[tuple[str, str]]:
    """The names and addresses of all servers that people may want to go to, this one first; none if it is alone."""
    server: ServerSettings = request.app.state.served.server
    if not server.instances:
        return []
    own = server.title or "this server"
    return [(own, _home(request)), *((name, to) for name, to in server.instances.items() if name != own)]


def part_of(request: Request) -> str | None:
    """The name of the part that the script asks for, if it asks for one."""
    return request.headers.get("x-part")


def turned(request: Request, to: str, said: str | Said | None = None) -> RedirectResponse:
    """Send a browser on after something was done, and let the next page say what."""
    response = RedirectResponse(to, 303)
    if said is not None:
        text = messages.written(Said(said) if isinstance(said, str) else said)
        response.set_cookie(
            messages.COOKIE,
            text,
            max_age=messages.LASTS_S,
            path=_home(request),
            secure=request.state.is_secure,
            httponly=True,
            samesite="lax",
        )
    return response


def url(request: Request, *parts: object, **query: object) -> str:
    """The address of a page or file of this server, under whatever path it is mounted."""
    path = "/".join(_quoted(str(part)) if index else str(part) for index, part in enumerate(parts))
    asked = "&".join(f"{quote(name)}={quote(str(value))}" for name, value in query.items() if value not in {None, ""})
    return f"{_home(request)}{path}" + (f"?{asked}" if asked else "")


def _quoted(part: str) -> str:
    """Quote a name; one that ends like an address of JSON keeps its dot to itself, see `as_json`."""
    text = quote(part, safe="")
    return f"{text.removesuffix('.json')}%2Ejson" if text.endswith(".json") else text


def _home(request: Request) -> str:
    root: str = request.scope.get("root_path", "")
    return root.rstrip("/") + "/"


def _iso(moment: datetime | None) -> str:
    return "" if moment is None else moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,}"


def _bytes(count: int | None) -> str:
    return NOTHING if count is None else sizes.size(count)


def _code(text: str) -> Markup:
    """Show as code what stands between backticks."""
    return Markup(_TICKED.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - it was escaped before


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def linked(text: str) -> Markup:
    """A text in which addresses of the web can be followed."""
    whole, at = Markup(), 0
    for found in _ADDRESS.finditer(text):
        whole += text[at : found.start()]
        whole += Markup('<a href="{0}" rel="noopener noreferrer nofollow" target="_blank">{0}</a>').format(found[0])
        at = found.end()
    return whole + text[at:]


def _colour(given: str | None) -> str:
    """A colour that drawings take; what is not plainly one becomes grey."""
    return given if given is not None and _COLOUR.fullmatch(given) else "gray"


def word(state: str) -> str:
    """Say a state to people."""
    return "with errors" if state == JobState.COMPLETED_WITH_ERRORS else str(state)


def span(length: float | timedelta | None) -> str:
    """Say a length of time, given in milliseconds: `250 ms`, `1.5 s`, `3 min`, `2 h`, `4 d`."""
    if length is None:
        return NOTHING
    milliseconds = round(length / timedelta(milliseconds=1) if isinstance(length, timedelta) else length)
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if milliseconds >= 100 * size:  # three figures would be told with an exponent from a thousand days on
            return f"{milliseconds / size:,.0f} {unit}"
        if milliseconds >= size:
            return f"{milliseconds / size:.3g} {unit}"
    return f"{max(milliseconds, 0)} ms"


_ENVIRONMENT = _environment()
