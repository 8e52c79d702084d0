"""The address of a page with `.json` behind it: what the API shows, to those to whom the API shows it."""

import html
import re

import httpx2
import pytest

from holdfast import Holdfast, Queue
from holdfast.server.pages.as_json import asked
from holdfast.server.pages.twins import DATA, twin
from holdfast.server.settings import ServerSettings
from holdfast.stores.values import JobFilter
from tests.server.reaching import reached
from tests.server.touring import PAGES, escalation_of, group_of
from tests.support.web import PAGE, bearing, made_token, visit
from tests.support.workers import MakeApp

NOT_SHOWN = {"", "api", "api/{resource}", "counts", "login", "metrics", "healthz", "readyz"}
"""What is about no resource: the overview is about queues, and names those."""


def form_of(path: str) -> str:
    """A path without the names of its places."""
    return re.sub(r"\{\w+\}", "{}", path.strip("/"))


def test_each_route_is_open_to_those_of_the_api(memory_app: Holdfast) -> None:
    routes = {(route.method, route.path): route for route in reached(memory_app.asgi(ServerSettings()))}
    ending = {path: route for (_, path), route in routes.items() if path.endswith(".json") and "/api/" not in path}
    assert {path.strip("/") for path in ending} == {f"{page}.json" for page in DATA}
    for page, path in DATA.items():
        here, there = ending[f"/{page}.json"], routes["GET", f"/api/v1/{path}"]
        assert (here.method, here.role, here.is_whole) == ("GET", there.role, there.is_whole), page


def test_each_page_about_something_has_one(memory_app: Holdfast) -> None:
    routes = [route for route in reached(memory_app.asgi(ServerSettings())) if route.method == "GET"]
    pages = {
        form_of(route.path)
        for route in routes
        if not route.is_api and not route.path.endswith(".json") and route.path.strip("/") not in NOT_SHOWN
    }
    asking = {"jobs/bulk", "jobs/{}/clone", "failures/{}", "dead-letters/{}/{}"}  # what is to be done, and with what
    asking |= {"dead-letters/export", "dead-letters/replay", "dead-letters/purge"}
    assert pages - asking == {form_of(page) for page in DATA}


async def test_it_answers_what_the_api_answers(town: Holdfast, web: httpx2.AsyncClient) -> None:
    group, alarm = await group_of(town, "sink"), await escalation_of(town, "theirs")
    job = (await town.jobs.list(JobFilter(kinds=("sink",)))).jobs[0].id
    named = {"id": job, "group": group, "number": str(alarm)}
    names = {"queues": "high", "schedules": "nightly", "budgets": "ai"}
    for page, path in DATA.items():
        given = named | {"name": names.get(page.partition("/")[0], "")}
        here, there = [await web.get(f"/{text.format(**given)}") for text in (f"{page}.json", f"api/v1/{path}")]
        assert (here.status_code, here.headers["content-type"]) == (200, "application/json"), page
        moving = {"audit", "system/tables", "settings"}
        assert path in moving or stable(here.json()) == stable(there.json()), page


def stable(answer: object) -> object:
    """An answer without what passes while it is asked for."""
    text = re.sub(r'"\w*(age|wait|lag|uptime|now|until)\w*": [^,}]+', "", str(answer).replace("'", '"'))
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z?", "", text)


async def test_each_page_links_to_itself_as_json(town: Holdfast, web: httpx2.AsyncClient) -> None:
    group = await group_of(town, "sink")
    job = (await town.jobs.list(JobFilter(kinds=("sink",)))).jobs[0].id
    more = ("/jobs?q=kind%3Asink", f"/jobs/{job}", f"/dead-letters/{group}", "/budgets/ai?by=actor&key=")
    for path in (*PAGES, *more, "/dead-letters?kind=sink&queue=&error=&since=2026-01-02T03%3A04"):
        text = (await web.get(path)).text
        (link,) = {html.unescape(found) for found in re.findall(r'href="([^"]+)">JSON<', text)}
        assert link.partition("?")[0] == path.partition("?")[0] + ".json", path
        answer = await web.get(link)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json"), link
    found = (await web.get("/jobs.json?q=kind:sink")).json()["jobs"]
    assert {one["kind"] for one in found} == {"sink"}
    assert {one["state"] for one in (await web.get("/escalations.json?show=closed")).json()["escalations"]} == set()


@pytest.mark.parametrize(
    "page, api",
    [
        ("q=a+b&after=", "q=a+b"),
        ("show=open&before=7", "before=7&open=true"),
        ("show=closed", "open=false"),
        ("show=all", ""),
        ("since=2026-11-16T09%3A30", "since=2026-11-16T09%3A30Z"),
        ("since=2026-11-16T09%3A30%2B02%3A00", "since=2026-11-16T09%3A30%2B02%3A00"),
        ("since=yesterday", "since=yesterday"),
        ("after=2026-11-16T09%3A30Z~3f9a0c71be42", "after=2026-11-16T09%3A30Z~3f9a0c71be42"),
    ],
)
def test_what_a_page_is_asked_is_said_in_the_words_of_the_api(page: str, api: str) -> None:
    assert asked(page) == api


async def test_a_further_page_of_dead_letters_goes_on_as_the_page_does(town: Holdfast, web: httpx2.AsyncClient) -> None:
    first = (await web.get("/dead-letters.json?limit=1")).json()
    rest = (await web.get("/dead-letters.json", params={"after": first["next"]})).json()
    assert {group["kind"] for group in (*first["groups"], *rest["groups"])} == {"sink", "foreign"}
    assert len(rest["groups"]) == len((await town.dead_letters.list()).groups) - 1


async def test_nobody_sees_more_than_the_api_shows_them(town: Holdfast) -> None:
    theirs = (await town.jobs.list(JobFilter(kinds=("foreign",)))).jobs[0].id
    async with visit(town) as asking:
        assert (await asking.get("/queues.json")).status_code == 401
        login = await asking.get("/queues.json", headers=PAGE)
        assert (login.status_code, login.headers["location"]) == (303, "/login?next=/queues.json")
        asking.headers.update(bearing(await made_token(town, "viewer", queues=("high",))))
        assert [queue["name"] for queue in (await asking.get("/queues.json")).json()["queues"]] == ["high"]
        assert "foreign" not in (await asking.get("/jobs.json")).text
        for path, status in (
            (f"/jobs/{theirs}.json", 404),
            ("/queues/theirs.json", 404),
            ("/budgets.json", 403),
            ("/system.json", 403),
            ("/system/audit.json", 403),
            ("/system/tokens.json", 403),
        ):
            assert (await asking.get(path)).status_code == status, path


async def test_a_name_may_end_like_that(make_sqlite_memory: MakeApp) -> None:
    app = make_sqlite_memory(queues=[Queue("a.json"), Queue("a")])
    async with app, visit(app, is_open=True) as asking:
        for name in ("a", "a.json"):

            @app.task(kind=f"work-{name}", queue=name)
            async def work() -> None: ...

            await app.tasks.get(f"work-{name}").enqueue()
        listed = (await asking.get("/queues", headers=PAGE)).text
        links = re.findall(r'href="(/queues/[^"]+)"', listed)
        assert set(links) == {"/queues/a", "/queues/a%2Ejson"}
        for link, name in zip(sorted(set(links)), ("a", "a.json"), strict=True):
            page = await asking.get(link, headers=PAGE)
            assert f"<title>{name} " in page.text
            (data,) = re.findall(r'href="([^"]+)">JSON<', page.text)
            assert (await asking.get(data)).json()["name"] == name


def test_a_command_says_what_the_page_was_asked() -> None:
    assert (
        twin("/dead-letters", {"kind": "sink", "queue": "", "after": "1"}).command
        == "holdfast dead-letters list --kind sink"
    )
    assert twin("/escalations", {"show": "open"}).command == "holdfast escalations list --open"
    assert twin("/failures", {"within": "7d"}).command == "holdfast failures --since 7d"
    assert twin("/budgets/ai", {"by": "actor"}).command == "holdfast budgets show ai --by actor"
    assert twin("/queues/a b").command == "holdfast queues show 'a b'"
    assert twin("/system/webhooks").command == "holdfast webhooks list"
