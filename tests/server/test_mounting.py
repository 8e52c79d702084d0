"""The server inside other programs: under a path of FastAPI, Starlette and Django, opened and closed with them."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from django.test.utils import override_settings
from fastapi import FastAPI

from holdfast import Holdfast
from tests.support.doc_pages import DOCS, blocks
from tests.support.libraries import configured_django
from tests.support.web import PAGE, bearing, form_token, made_token

HERE = "http://127.0.0.1"
THERE = "https://www.example.org"


@pytest.fixture
def app(tmp_path: Path) -> Holdfast:
    """Give an app that nobody has opened."""
    return Holdfast(f"sqlite:///{tmp_path}/jobs.db", synchronous="normal")


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    """Let Django find the addresses of this module, whatever other tests have configured."""
    configured_django()
    with override_settings(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__):
        yield


def shown(page: str, mark: str, **names: Any) -> Any:
    """Run what the documentation shows, with what a program of the reader's would give it."""
    (block,) = [block for block in blocks(DOCS / "operate" / page, "python") if mark in block.code]
    exec(compile(re.sub(r"from shop\..*\n", "", block.code), page, "exec"), names)  # noqa: S102 - what the page shows
    return names["web"]


urlpatterns: list[Any] = []


@pytest.mark.parametrize("program", ["FastAPI", "Starlette", "get_asgi_application"])
async def test_mounted_under_a_path(app: Holdfast, program: str) -> None:
    web = shown("serve.md", program, app=app)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=web), base_url=THERE) as client:
        assert (await client.get("/tools/jobs/healthz")).text == "ok"
        answer = await client.get("/tools/jobs/queues", headers=PAGE)
        assert (answer.status_code, answer.headers["location"]) == (303, "/tools/jobs/login?next=/tools/jobs/queues")
        async with app:
            secret = await made_token(app)
        page = await client.get(answer.headers["location"], headers=PAGE)
        assert 'action="/tools/jobs/login"' in page.text
        fields = {"form_token": form_token(page), "next": "/tools/jobs/queues", "token": secret}
        answer = await client.post("/tools/jobs/login", data=fields, headers=PAGE)
        assert (answer.status_code, answer.headers["location"]) == (303, "/tools/jobs/queues")
        page = await client.get("/tools/jobs/queues", headers=PAGE)
        assert page.status_code == 200
        addresses = set(re.findall(r'(?:href|src|action|hx-get)="(/[^"]*)"', page.text))
        assert len(addresses) > 5
        assert {address for address in addresses if not address.startswith("/tools/jobs/")} == set()
        (link,) = re.findall(r'href="([^"]+)">JSON<', page.text)
        assert (link, (await client.get(link)).status_code) == ("/tools/jobs/queues.json", 200)
        answer = await client.get("/elsewhere", headers=PAGE)
        assert answer.status_code == 404


async def test_a_function_of_the_program_says_who_asks(app: Holdfast) -> None:
    users = {"1": SimpleNamespace(email="ada@example.org", is_staff=True)}

    async def session_of(number: str | None) -> SimpleNamespace | None:
        return users.get(number or "")

    web = shown("secure.md", "authorize", app=app, session_of=session_of)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=web), base_url=THERE) as client, app:
        assert (await client.get("/api/v1/queues")).status_code == 401
        client.cookies.set("sid", "1")
        page = await client.get("/queues", headers=PAGE)
        assert (page.status_code, "ada@example.org" in page.text) == (200, True)
        answer = await client.post("/api/v1/queues/high/pause", headers={"x-form-token": form_token(page)})
        assert answer.json()["paused_by"] == "ada@example.org"
        assert (await client.get("/api/v1/tokens")).status_code == 403, "an operator is no admin"


@pytest.mark.parametrize(
    "address, user, role",
    [
        ("10.0.0.7", "ada@example.org", "admin"),
        ("10.0.0.7", "bob@ops.example.org", "operator"),
        ("10.0.0.7", "eve@example.org", "viewer"),
        ("192.0.2.1", "ada@example.org", None),
    ],
)
async def test_a_proxy_says_who_asks(tmp_path: Path, address: str, user: str, role: str | None) -> None:
    (block,) = [one for one in blocks(DOCS / "operate" / "secure.md", "yaml") if "user_header" in one.code]
    file = tmp_path / "holdfast.yaml"
    file.write_text(f"store: sqlite:///{tmp_path}/jobs.db\n{block.code}", encoding="utf-8")
    app = Holdfast.from_config(file)
    transport = httpx2.ASGITransport(app=app.asgi(), client=(address, 4711))
    async with httpx2.AsyncClient(transport=transport, base_url=HERE) as client, app:
        page = await client.get("/queues", headers=PAGE | {"x-forwarded-user": user})
        found = re.search(r"role</span> (\w+)", page.text)
        assert (None if found is None else found[1]) == role


async def test_the_first_requests_open_the_app_together(app: Holdfast) -> None:
    application = app.asgi()
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=application), base_url=HERE) as client:
        answers = await asyncio.gather(*(client.get("/readyz") for _ in range(10)))
        assert {answer.text for answer in answers} == {"ready"}
        store = app.store
        async with app:
            assert app.store is store
            secret = await made_token(app)
        assert (await client.get("/api/v1/queues", headers=bearing(secret))).status_code == 200


async def test_it_closes_with_the_program(app: Holdfast) -> None:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with app:
            yield

    web = FastAPI(lifespan=lifespan)
    web.mount("/jobs", app.asgi())
    transport = httpx2.ASGITransport(app=web)
    async with web.router.lifespan_context(web), httpx2.AsyncClient(transport=transport, base_url=HERE) as client:
        assert (await client.get("/jobs/readyz")).text == "ready"
    with pytest.raises(Exception, match="not open"):
        _ = app.store


async def test_alone_it_closes_what_it_opened(app: Holdfast) -> None:
    application = app.asgi()
    steps: asyncio.Queue[Any] = asyncio.Queue()
    done: asyncio.Queue[Any] = asyncio.Queue()

    async def live() -> None:
        await application({"type": "lifespan", "asgi": {}, "state": {}}, steps.get, done.put)

    running = asyncio.create_task(live())
    await steps.put({"type": "lifespan.startup"})
    assert (await done.get())["type"] == "lifespan.startup.complete"
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=application), base_url=HERE) as client:
        assert (await client.get("/readyz")).text == "ready"
        assert app.client.store is app.store
    await steps.put({"type": "lifespan.shutdown"})
    assert (await done.get())["type"] == "lifespan.shutdown.complete"
    await running
    with pytest.raises(Exception, match="not open"):
        _ = app.store
