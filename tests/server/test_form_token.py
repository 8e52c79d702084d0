"""What a browser changes carries a form of ours, by whichever way its owner was let in."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from starlette.requests import Request

from holdfast import Holdfast
from holdfast.server.principal import Principal
from holdfast.server.roles import Role
from holdfast.server.settings import ServerSettings
from holdfast.server.shield import SAFE
from holdfast.stores.access import AuditFilter
from tests.support.web import PAGE, bearing, filled, form_token, made_token, routes_of, visit

PROXY = "10.1.2.3"
WAYS = ["session", "proxy", "hook", "loopback"]
MARKS: list[dict[str, str]] = [
    {"origin": "http://127.0.0.1"},
    {"sec-fetch-site": "same-origin"},
    {"sec-fetch-site": "none"},
    {"cookie": "a=b"},
]
"""What tells a browser from a program: one of them is enough."""


@asynccontextmanager
async def browser(app: Holdfast, way: str) -> AsyncIterator[httpx2.AsyncClient]:
    """Let an admin in by one way."""

    def authorize(request: Request) -> Principal | None:
        return Principal("ada", Role.ADMIN) if "x-hooked" in request.headers else None

    settings = {
        "proxy": ServerSettings(proxies=(PROXY,), user_header="x-user", users={"ada": "admin"}),
        "hook": ServerSettings(authorize=authorize),
    }.get(way)
    client = PROXY if way == "proxy" else "127.0.0.1"
    async with visit(app, settings, is_open=way == "loopback", client=client) as web:
        if way == "session":
            web.cookies.set("holdfast_session", await made_token(app, kind="session"))
        web.headers.update({"proxy": {"x-user": "ada"}, "hook": {"x-hooked": "1"}}.get(way, {}))
        yield web


@pytest.mark.guards("form-token", "form-token-check")
@pytest.mark.parametrize("way", WAYS)
async def test_every_way_in_needs_a_form_of_ours(memory_app: Holdfast, way: str) -> None:
    async with browser(memory_app, way) as web:
        for marks in MARKS if way != "session" else MARKS[:-1]:  # a login is a cookie itself
            for path in ("/api/v1/queues/high/pause", "/queues/high/pause"):
                for given in ({}, {"x-form-token": "0" * 64}, {"x-form-token": ""}):
                    answer = await web.post(path, headers=marks | given)
                    assert (answer.status_code, answer.json()["type"]) == (403, "urn:holdfast:form"), (marks, given)
                answer = await web.post(path, headers=marks, data={"form_token": "0" * 64})
                assert (answer.status_code, answer.json()["type"]) == (403, "urn:holdfast:form"), marks
        assert await memory_app.store.list_queues() == []
        token = form_token(await web.get("/queues", headers=PAGE))
        own = {"origin": "http://127.0.0.1"}
        assert (await web.post("/queues/high/pause", headers=own, data={"form_token": token})).status_code == 303
        answer = await web.post("/api/v1/queues/low/pause", headers=own | {"x-form-token": token})
        assert answer.status_code != 403, answer.text
        actors = {(deed.actor, deed.status) for deed in await memory_app.store.list_audit(AuditFilter(), limit=99)}
        assert 403 in {status for _, status in actors}, "what was refused is written down too"


@pytest.mark.guards("form-token", "form-token-check")
@pytest.mark.parametrize("way", WAYS)
async def test_no_route_that_changes_something_does_without(memory_app: Holdfast, way: str) -> None:
    unsafe = [route for route in routes_of(memory_app) if route.method not in SAFE and route.role is not None]
    assert len(unsafe) > 70
    async with browser(memory_app, way) as web:
        for route in unsafe:
            answer = await web.request(route.method, filled(route.path), headers={"origin": "http://127.0.0.1"})
            assert (answer.status_code, answer.json()["type"]) == (403, "urn:holdfast:form"), route


@pytest.mark.guards("form-of-login")
async def test_a_form_of_one_login_is_none_of_another(memory_app: Holdfast) -> None:
    """A value that another site has planted as a cookie makes no form: it belongs to a login as well."""
    async with visit(memory_app) as web:
        sessions = [await made_token(memory_app, kind="session") for _ in range(2)]
        web.cookies.set("holdfast_session", sessions[0])
        token = form_token(await web.get("/queues", headers=PAGE))
        forms = web.cookies["holdfast_forms"]
        for session, status in ((sessions[1], 403), (sessions[0], 303)):
            cookie = f"holdfast_session={session}; holdfast_forms={forms}"
            web.cookies.clear()
            answer = await web.post("/queues/high/pause", headers={"cookie": cookie}, data={"form_token": token})
            assert answer.status_code == status


async def test_a_program_with_a_token_needs_no_form(memory_app: Holdfast) -> None:
    async with visit(memory_app) as web:
        headers = bearing(await made_token(memory_app)) | {"origin": "http://127.0.0.1", "cookie": "a=b"}
        assert (await web.post("/queues/high/pause", headers=headers)).status_code == 303
