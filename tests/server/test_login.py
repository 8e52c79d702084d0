"""Logging in and out with a browser: sessions, links, forms, and where one comes out."""

import re

import httpx2
import pytest

from holdfast import Holdfast
from holdfast.server.settings import ServerSettings
from holdfast.stores.access import AuditFilter
from tests.support.web import PAGE, bearing, form_token, made_token, visit

QUEUES = "/queues"


async def log_in(web: httpx2.AsyncClient, after: str = "", **fields: str) -> httpx2.Response:
    """Fill in the login as a browser does."""
    page = await web.get("/login", headers=PAGE)
    data = {"form_token": form_token(page), "next": after, **fields}
    return await web.post("/login", data=data, headers=PAGE | {"origin": str(web.base_url).rstrip("/")})


@pytest.mark.guards("cookie-httponly")
async def test_a_token_becomes_a_login(memory_app: Holdfast) -> None:
    secret = await made_token(memory_app, "operator", queues=("high",))
    async with visit(memory_app) as web:
        answer = await web.get("/queues?within=24h", headers=PAGE)
        assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=/queues%3Fwithin%3D24h")
        about = await web.get("/api/jobs", headers=PAGE)  # a page about programs, for people
        assert (about.status_code, about.headers["location"]) == (303, "/login?next=/api/jobs")
        assert (await web.get("/api/v1/jobs", headers=PAGE)).status_code == 401
        page = await web.get(answer.headers["location"], headers=PAGE)
        assert 'value="/queues?within=24h"' in page.text
        answer = await log_in(web, "/queues?within=24h", token=secret)
        assert (answer.status_code, answer.headers["location"]) == (303, "/queues?within=24h")
        cookie = answer.headers["set-cookie"].lower()
        assert {"httponly", "samesite=lax", "path=/"} <= set(cookie.split("; "))
        assert secret.lower() not in cookie
        assert (await web.get(QUEUES, headers=PAGE)).status_code == 200
        (session,) = await memory_app.store.list_tokens("session")
        assert (session.name, session.role, session.queues) == ("operator", "operator", ("high",))
        deeds = await memory_app.store.list_audit(AuditFilter(), limit=9)
        assert [(deed.actor, deed.action, deed.status) for deed in deeds] == [("operator", "log_in", 303)]
        assert secret not in str(deeds)


@pytest.mark.guards("login-lockout")
async def test_a_wrong_token_is_told_and_counted(memory_app: Holdfast) -> None:
    async with visit(memory_app) as web:
        answer = await log_in(web, "/jobs", token="hf_wrong")
        assert (answer.status_code, "hf_wrong" in answer.text) == (401, False)
        assert 'role="alert"' in answer.text
        assert 'value="/jobs"' in answer.text
        found = [await log_in(web, token=f"hf_{number}") for number in range(20)]
        assert found[-1].status_code == 429
        assert int(found[-1].headers["retry-after"]) >= 1
        assert "text/html" in found[-1].headers["content-type"]


@pytest.mark.guards("login-token-kind")
@pytest.mark.parametrize("kind", ["session", "link"])
async def test_only_a_token_is_a_token(memory_app: Holdfast, kind: str) -> None:
    secret = await made_token(memory_app, kind="session" if kind == "session" else "link")
    async with visit(memory_app) as web:
        assert (await log_in(web, token=secret)).status_code == 401


async def test_a_link_lets_in_once_and_looking_at_it_changes_nothing(memory_app: Holdfast) -> None:
    secret = await made_token(memory_app, kind="link")
    async with visit(memory_app) as first, visit(memory_app) as second:
        for _ in range(3):
            page = await first.get("/login", params={"link": secret}, headers=PAGE)
            assert (page.status_code, f'name="link" value="{secret}"' in page.text) == (200, True)
        assert (await log_in(first, link=secret)).status_code == 303
        assert (await first.get(QUEUES, headers=PAGE)).status_code == 200
        answer = await log_in(second, link=secret)
        assert (answer.status_code, "used before" in answer.text) == (401, True)


@pytest.mark.guards("login-replaces")
async def test_each_login_is_a_new_one_and_ends_the_last(memory_app: Holdfast) -> None:
    secret = await made_token(memory_app)
    async with visit(memory_app) as web, visit(memory_app) as thief:
        thief.cookies.set("holdfast_session", "hf_chosen_by_somebody_else", domain="127.0.0.1", path="/")
        await log_in(thief, token=secret)
        assert thief.cookies["holdfast_session"] != "hf_chosen_by_somebody_else"
        thief.cookies.clear()
        thief.cookies.set("holdfast_session", secret, domain="127.0.0.1", path="/")
        assert (await log_in(thief, token=secret)).status_code == 303
        assert (await thief.get("/api/v1/queues", headers=bearing(secret))).status_code == 200, "it is no login"
        await log_in(web, token=secret)
        old = web.cookies["holdfast_session"]
        await log_in(web, token=secret)
        assert web.cookies["holdfast_session"] != old
        thief.cookies.clear()
        thief.cookies.set("holdfast_session", old)
        assert (await thief.get(QUEUES, headers=PAGE)).status_code == 303


@pytest.mark.guards("logout-revokes")
async def test_logging_out_ends_it_on_the_server_too(memory_app: Holdfast) -> None:
    secret = await made_token(memory_app)
    async with visit(memory_app) as web, visit(memory_app) as other:
        await log_in(web, token=secret)
        kept = web.cookies["holdfast_session"]
        planted = {"form_token": form_token(await web.get("/login", headers={"cookie": _but_session(web), **PAGE}))}
        assert (await web.post("/logout", data=planted, headers=PAGE)).status_code == 403, "a form of another login"
        token = form_token(await web.get(QUEUES, headers=PAGE))
        assert (await web.post("/logout", headers=PAGE)).status_code == 403, "without a form of ours"
        answer = await web.post("/logout", data={"form_token": token}, headers=PAGE)
        assert (answer.status_code, answer.headers["location"]) == (303, "/login")
        assert "holdfast_session" not in web.cookies
        other.cookies.set("holdfast_session", kept)
        assert (await other.get(QUEUES, headers=PAGE)).status_code == 303


@pytest.mark.guards("login-parent")
async def test_a_login_ends_with_its_token(memory_app: Holdfast) -> None:
    secret = await made_token(memory_app)
    async with visit(memory_app) as web:
        await log_in(web, token=secret)
        (token,) = await memory_app.store.list_tokens("token")
        await memory_app.store.revoke_token(token.id, actor="ada")
        assert (await web.get(QUEUES, headers=PAGE)).status_code == 303


def _but_session(web: httpx2.AsyncClient) -> str:
    return f"holdfast_forms={web.cookies['holdfast_forms']}"


PLACES = [
    ("{root}/jobs?q=a%20b", True),
    ("{root}/", True),
    ("", False),
    ("https://evil.example/", False),
    ("//evil.example/", False),
    ("///evil.example/", False),
    ("/\\evil.example", False),
    ("{root}/\\evil.example", False),
    ("{root}/%5cevil.example", False),
    ("{root}/%2f/evil.example", True),
    ("{root}//evil.example", True),
    ("\t//evil.example", False),
    ("{root}/jobs\r\nset-cookie: a=b", False),
    ("javascript:alert(1)", False),
    ("{root}/../other", False),
    ("{root}/%2e%2e/other", False),
    ("{root}/login", False),
    ("{root}/logout", False),
    ("jobs", False),
]


@pytest.mark.guards("login-target")
@pytest.mark.parametrize("root", ["", "/tools/jobs"])
async def test_a_login_leads_to_pages_of_ours_only(memory_app: Holdfast, root: str) -> None:
    secret = await made_token(memory_app)
    async with visit(memory_app) as web:
        transport = web._transport
        assert isinstance(transport, httpx2.ASGITransport)
        transport.root_path = root
        for place, is_own in PLACES:
            token = form_token(await web.get(f"{root}/login", headers=PAGE))
            after = place.format(root=root)
            if not root and after.startswith("//"):
                is_own = False  # noqa: PLW2901 - at the top these are addresses of other sites
            answer = await web.post(f"{root}/login", data={"form_token": token, "next": after, "token": secret})
            assert answer.status_code == 303
            assert answer.headers["location"] == (after if is_own else f"{root}/"), after


async def test_a_form_must_be_ours(memory_app: Holdfast) -> None:
    secret = await made_token(memory_app)
    async with visit(memory_app) as web:
        for given in ("", "0" * 64, "\xe4"):
            answer = await web.post("/login", data={"token": secret, "form_token": given}, headers=PAGE)
            assert answer.status_code == 403
        await web.get("/login", headers=PAGE)
        answer = await web.post("/login", data={"token": secret, "form_token": "ä"}, headers=PAGE)
        assert answer.status_code == 403
        assert await memory_app.store.list_tokens("session") == []


async def test_by_https_the_cookies_are_this_hosts_alone(memory_app: Holdfast) -> None:
    secret = await made_token(memory_app)
    settings = ServerSettings(url="https://jobs.example.org")
    async with visit(memory_app, settings, base="https://jobs.example.org") as web:
        page = await web.get("/login", headers=PAGE)
        assert page.headers["set-cookie"].startswith("__Host-holdfast_forms=")
        answer = await log_in(web, token=secret)
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-holdfast_session=hf_")
        assert "; Secure" in cookie
        page = await web.get(QUEUES, headers=PAGE)
        done = await web.post("/queues/a/pause", data={"form_token": form_token(page)}, headers=PAGE)
        assert (done.status_code, "; Secure" in done.headers["set-cookie"]) == (303, True)
        value = web.cookies["__Host-holdfast_session"]
        web.cookies.clear()
        web.cookies.set("holdfast_session", value)
        assert (await web.get(QUEUES, headers=PAGE)).status_code == 303, "one that a neighbour could have set"


async def test_the_nearest_proxy_says_whether_it_is_https(memory_app: Holdfast) -> None:
    for proxies, said, name in (
        ((), ["https"], "holdfast_forms"),
        (("127.0.0.1",), ["https"], "__Host-holdfast_forms"),
        (("127.0.0.1",), ["http", "https"], "__Host-holdfast_forms"),
        (("127.0.0.1",), ["https", "http"], "holdfast_forms"),
        (("127.0.0.1",), ["https, http"], "holdfast_forms"),
    ):
        async with visit(memory_app, ServerSettings(proxies=proxies)) as web:
            headers = [("x-forwarded-proto", one) for one in said]
            page = await web.get("/login", headers=[*PAGE.items(), *headers])
            assert page.headers["set-cookie"].startswith(f"{name}="), said


async def test_people_get_pages_and_programs_get_json(memory_app: Holdfast) -> None:
    secret = await made_token(memory_app)
    async with visit(memory_app) as web:
        assert (await web.get(QUEUES)).headers["content-type"] == "application/problem+json"
        assert (await web.get("/api/v1/queues", headers=PAGE)).status_code == 401
        answer = await web.get(QUEUES, headers=PAGE | {"hx-request": "true"})
        assert (answer.status_code, answer.headers["hx-redirect"]) == (401, "/login?next=/queues")
        assert (await web.post("/queues/a/pause", headers=PAGE)).headers["location"] == "/login"
        await log_in(web, token=secret)
        answer = await web.get("/<script>alert(1)</script>", headers=PAGE)
        assert (answer.status_code, "<script>alert" in answer.text) == (404, False)
        assert re.search(r"request [0-9a-f]{16}", answer.text)
