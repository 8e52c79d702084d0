"""What a page says of what was just done: how it is taken back, what stands in the way, and nothing that is forged."""

import json
import re
from collections.abc import AsyncIterator
from urllib.parse import quote

import httpx2
import pytest

from holdfast import Holdfast
from holdfast.server.settings import ServerSettings
from tests.support.web import bearing, made_token, visit


@pytest.fixture
async def web(memory_app: Holdfast) -> AsyncIterator[httpx2.AsyncClient]:
    """Somebody who may do everything, in an app with one task."""

    @memory_app.task(queue="high")
    async def greet(name: str) -> None: ...

    async with memory_app, visit(memory_app) as asking:
        asking.headers.update(bearing(await made_token(memory_app)))
        yield asking


async def test_what_was_done_can_be_undone_and_what_stands_in_the_way_is_named(
    memory_app: Holdfast, web: httpx2.AsyncClient
) -> None:
    greet = memory_app.tasks.get("greet")
    first = await memory_app.enqueue(greet.using(unique="ann").call(name="ann"))
    await web.post(f"/jobs/{first.id}/cancel")
    said = (await web.get(f"/jobs/{first.id}")).text
    assert f'action="/jobs/{first.id}/retry"' in said.split('class="toast"')[1].split("Undo")[0]
    second = await memory_app.enqueue(greet.using(unique="ann").call(name="ann"))
    await web.post(f"/jobs/{first.id}/retry")
    said = (await web.get(f"/jobs/{first.id}")).text.split('role="alert"')[1].split("</p>")[0]
    assert "holds its unique key" in said
    assert f'href="/jobs/{second.id}"' in said
    await web.post("/jobs/bulk", data={"verb": "retry", "job": [first.id]})
    assert "1 whose unique key another live job holds" in (await web.get("/jobs")).text

    # Several at once, with the filter kept; what was due later would not come back as it was.
    later = await memory_app.enqueue(greet.using(delay="1h").call(name="late"))
    await web.post("/jobs/bulk", data={"verb": "cancel", "job": [second.id]})
    toast = (await web.get("/jobs", params={"q": "kind:greet"})).text.split('class="toast"')[1].split("</form>")[0]
    assert re.findall(r'name="(\w+)" value="([^"]+)"', toast)[1:] == [
        ("verb", "retry"),
        ("q", "kind:greet"),
        ("job", second.id),
    ]
    await web.post("/jobs/bulk", data={"verb": "cancel", "job": [later.id]})
    assert "Undo" not in (await web.get("/jobs")).text
    await web.post(f"/queues/{(await first.get()).queue}/pause")
    assert 'action="/queues/high/resume"' in (await web.get("/")).text.split('class="toast"')[1]


async def test_a_cookie_offers_nothing_but_to_undo(web: httpx2.AsyncClient) -> None:
    for undo in (["jobs", "x", "delete"], ["//evil.example", "retry"], ["jobs"], []):
        forged = quote(json.dumps({"text": "click here", "undo": undo}))
        page = (await web.get("/", headers={"cookie": f"holdfast_said={forged}"})).text
        assert "click here" in page
        assert "Undo" not in page
        assert "evil" not in page
    for broken in ("{", "%ff", '{"text": 7}', "plain words"):
        answer = await web.get("/", headers={"cookie": f"holdfast_said={quote(broken)}"})
        assert (answer.status_code, 'class="toast"' in answer.text) == (200, False)


async def test_pages_say_which_installation_they_are_of(memory_app: Holdfast) -> None:
    async with visit(memory_app, ServerSettings(title="production <eu>")) as web:
        page = (await web.get("/login")).text
        assert '<span class="instance">production &lt;eu&gt;</span>' in page
        assert "<title>Log in · production &lt;eu&gt;</title>" in page
