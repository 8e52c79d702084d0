"""Hostile text in every place of every page that takes text: an answer that says so, and never an error of ours."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, iter_route_contexts

from holdfast import Holdfast
from holdfast.server.settings import ServerSettings
from tests.server.furnished import furnish, furnished_app
from tests.server.reaching import application
from tests.support.sizes import size
from tests.support.web import PAGE, bearing, made_token, visit
from tests.support.workers import MakeApp

MARKUP = '"><img src=x'
ODD = (
    "9" * 30,
    "../x\r\nset-cookie: a=b\x00",
    f"{MARKUP} onerror=alert(1)>",
    # From here on in `make chaos` only.
    "\x00",
    "0001-01-01T00:00:00+14:00",
    "\ud800",
    "-1",
    "9223372036854775808",
    "9999-12-31T23:59:59-14:00",
    "a" * 300,
    "'\";--",
    "1e999",
    "nan",
    "%00",
    " ",
    "",
)
FORM = {"content-type": "application/x-www-form-urlencoded"}
KNOWN = {"queue": "high", "name": "high", "number": "1", "operation": "1"}


def asked_by(dependant: Dependant) -> list[str]:
    """Name what a handler reads from the address, its parts included."""
    inner = [name for part in dependant.dependencies for name in asked_by(part)]
    return [str(one.alias) for one in dependant.query_params] + inner


def attempts(app: Holdfast, odd: str) -> Iterator[tuple[str, str, str | None]]:
    """Put one text into every place of every page: paths, queries and forms."""
    text = quote(odd.encode(errors="surrogatepass"), safe="")
    for route in iter_route_contexts(application(app.asgi(ServerSettings())).routes):
        page: Any = route.original_route
        path = str(route.path)
        if not isinstance(page, APIRoute) or path.startswith("/api/v1/"):
            continue
        known = re.sub(r"\{(\w+)\}", lambda found: KNOWN.get(found[1], "x"), path)
        for method in (route.methods or set()) - {"HEAD"}:
            fields = [str(one.alias) for one in page.dependant.body_params]
            form = "&".join(f"{name}={text}" for name in fields) if method != "GET" else None
            yield method, re.sub(r"\{\w+\}", text or "x", path), form
            for name in asked_by(page.dependant):
                yield method, f"{known}?{name}={text}", form


@pytest.mark.timeout(300)
async def test_hostile_text_on_every_page(make_postgres: MakeApp) -> None:
    app = furnished_app(make_postgres)
    sent = 0
    async with app, visit(app, ServerSettings(rate=None)) as web:
        await furnish(app)
        headers = bearing(await made_token(app)) | PAGE
        for odd in ODD[: size(3, len(ODD))]:
            for method, address, form in attempts(app, odd):
                answer = await web.request(method, address, content=form, headers=headers | (FORM if form else {}))
                sent += 1
                where = f"{method} {address[:200]} {odd[:30]!a}: {answer.text[-500:]}"
                assert answer.status_code < 500, where
                assert "set-cookie: a=b" not in str(answer.headers), where
                assert MARKUP not in answer.text or "html" not in answer.headers["content-type"], where
    assert sent > 100 * size(3, len(ODD))


async def test_files_are_those_that_there_are(memory_app: Holdfast) -> None:
    """Whatever is asked for by name, and however long: nothing is read but our files, and nothing is kept of it."""
    from holdfast.server.pages import files

    async with visit(memory_app) as web:
        names = ("a" * 300 + ".x.js", "..%2f..%2fsettings.py", "..%5csettings.0.js", "a%00.b.js", "%2e%2e/settings.py")
        for name in (*names, *(f"{number}.x.js" for number in range(50))):
            assert (await web.get(f"/static/{name}")).status_code == 404, name
    kept = [getattr(files, name) for name in dir(files) if hasattr(getattr(files, name), "cache_info")]
    assert kept
    assert all(one.cache_info().currsize <= 30 for one in kept)
