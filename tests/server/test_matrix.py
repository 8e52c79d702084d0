"""Who may do what: every route by every role, as the table of permissions says it, and nothing else."""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import httpx2
import pytest

from holdfast import Holdfast
from holdfast.server.openapi import example_of, operations
from holdfast.server.roles import Role, read_role
from holdfast.server.routing import ROLE
from holdfast.server.settings import ServerSettings
from holdfast.stores.access import AuditFilter
from holdfast.stores.alarms import Alarm
from holdfast.stores.values import JobFilter, WorkerProcess
from tests.server.permissions import ANYBODY, MORE_THAN_THE_ROUTE, PERMISSIONS, Permission
from tests.server.reaching import EXAMPLES, Reached, document, reached
from tests.server.scope_store import contents
from tests.support import raw
from tests.support.web import bearing, made_token, visit
from tests.support.workers import MakeApp, drained

pytestmark = pytest.mark.timeout(300)

OK = 200
CANARY = "xcanaryx"
QUEUE, OTHER = f"q-{CANARY}", "elsewhere"
GIFTS = {("POST", "/api/v1/tokens"), ("POST", "/system/tokens")}
"""Routes of every queue that refuse to give away more than the asker has."""


@pytest.fixture
def full_app(make_sqlite_memory: MakeApp) -> Holdfast:
    """Make an app with something of everything, all of it in one queue."""
    app = make_sqlite_memory()

    @app.task(kind=f"fails_{CANARY}", queue=QUEUE, max_attempts=1)
    async def fails() -> None:
        raise ValueError(CANARY)

    @app.task(kind="waits", queue=OTHER)
    async def theirs() -> None:
        pass

    @app.task(kind=f"waits_{CANARY}", queue=QUEUE)
    async def waits() -> None:
        pass

    return app


async def fill(app: Holdfast) -> dict[str, str]:
    """Put something of everything into the store; the answer is what paths name of it."""
    failed = await app.tasks.get(f"fails_{CANARY}").enqueue()
    await drained(app)
    waiting = await app.tasks.get(f"waits_{CANARY}").using(delay="1h", tags={"a": CANARY}).enqueue()
    await app.schedules.create(f"s-{CANARY}", app.tasks.get(f"waits_{CANARY}").call(), cron="0 3 * * *")
    await app.queues.pause(QUEUE, reason=CANARY)
    (group,) = (await app.dead_letters.list()).groups
    assert failed.created
    store = app.store
    for queues in ((QUEUE,), (QUEUE, OTHER)):
        await store.register_worker(WorkerProcess(instance="i", host="h", pid=1, queues=queues, concurrency=1), 60_000)
    await store.define_escalations(["ops"])
    alarm = Alarm(source="failed", title=CANARY, policy="ops", queue=QUEUE, kind="k", fingerprint="f")
    await raw.raise_alarm(store, alarm)
    await store.fold_alarms({"ops": ("failed",)}, 10)
    await app.client.bulk.start("cancel", JobFilter(queues=(QUEUE,), kinds=("nothing",)), reason=CANARY)
    await app.tasks.get("waits").using(delay="1h").enqueue()
    return {"id": waiting.id, "group": group.id, "name": QUEUE, "queue": QUEUE, "kind": f"waits_{CANARY}"}


async def token(app: Holdfast, role: Role, queues: tuple[str, ...] | None = None) -> dict[str, str]:
    return bearing(await made_token(app, role.word, queues=queues))


class Asker:
    """Asks each route as it wants to be asked."""

    def __init__(self, asgi: Any, found: dict[str, str]) -> None:
        schemas = document()["components"]["schemas"]
        self._bodies: dict[tuple[str, str], Any] = {}
        for path, method, told in operations(document()):
            content = told.get("requestBody", {}).get("content", {}).get("application/json")
            if content is not None:
                self._bodies[method.upper(), path] = example_of(content["schema"], schemas)
        self._bodies["POST", "/api/v1/tokens"] |= {"queues": [OTHER]}
        self._found = found
        self.web = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=asgi), base_url="http://127.0.0.1")

    def address(self, route: Reached) -> str:
        """Where a route is asked for what there is; the first escalation, worker and bulk operation are number 1."""
        given = {**self._found, "job": self._found["id"], "operation": "1", "worker": "1"}
        given |= {"number": "1"} if "/tokens/" not in route.path else {}  # nobody loses the one they came with
        given |= {"name": f"s-{CANARY}"} if "/schedules/" in route.path else {}
        if not {"queues", "schedules"} & set(route.path.split("/")):
            del given["name"]
        return route.address(**given)

    async def ask(self, route: Reached, headers: dict[str, str]) -> httpx2.Response:
        body = self._bodies.get((route.method, route.path))
        return await self.web.request(route.method, self.address(route), headers=headers, json=body)


def test_the_table_has_one_line_for_each_route(full_app: Holdfast) -> None:
    """A new route is red until the table says who may use it, and what a token of another queue gets."""
    found = {
        (route.method, route.path): (ANYBODY if route.role is None else route.role.word, route.is_whole)
        for route in reached(full_app.asgi(ServerSettings()))
    }
    told = {key: (line.role, line.outside == "403" and key not in GIFTS) for key, line in PERMISSIONS.items()}
    assert found == told


def test_the_document_says_what_the_table_says() -> None:
    said = {(method.upper(), path): told[ROLE] for path, method, told in operations(document())}
    assert len(said) > 80
    assert said == {key: PERMISSIONS[key].role for key in said}


@pytest.mark.guards("authentication", "route-role", "settings-role")
async def test_each_route_lets_in_whom_the_table_names(full_app: Holdfast) -> None:
    asgi = full_app.asgi(ServerSettings())
    async with full_app:
        asker = Asker(asgi, await fill(full_app))
        people = {role: await token(full_app, role) for role in Role}
        wrong = []
        for route in reached(asgi):
            line = PERMISSIONS[route.method, route.path]
            if line.role == ANYBODY:
                assert (await asker.ask(route, {})).status_code != 401, line
                continue
            asked: list[tuple[str, dict[str, str], int | None]] = [("nobody", {}, 401)]
            least = read_role(line.role)
            asked += [(role.word, people[role], None if role >= least else 403) for role in Role]
            for who, headers, refused in asked:
                if refused is None and route.is_stream:
                    continue  # it never ends; see test_streams
                status = (await asker.ask(route, headers)).status_code
                if status != refused if refused is not None else status in (401, 403, 405, 500):
                    wrong.append((line, who, status))
        assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.guards("bulk-delete-role", "bulk-page-role", "bulk-run-role", "dead-run-role", "api-run-role")
@pytest.mark.parametrize("line", MORE_THAN_THE_ROUTE.strip().splitlines())
async def test_a_verb_may_need_more_than_its_route(memory_app: Holdfast, line: str) -> None:
    method, path, verb, least = line.split()
    async with visit(memory_app) as web:
        for role in (Role.OPERATOR, Role.ADMIN):
            run = await memory_app.client.bulk.start(verb, JobFilter(kinds=("nothing",)))
            if path.endswith("/resume"):
                await memory_app.client.bulk.pause(run.id)
            asked = {"verb": verb, "q": "kind:nothing"}
            form = asked | {"all": "1", "confirm": "delete"}
            answer = await web.request(
                method,
                path.format(operation=run.id),
                params=form if method == "GET" else None,
                json=asked if path.startswith("/api") else None,
                data=form if method == "POST" and not path.startswith("/api") else None,
                headers=await token(memory_app, role),
            )
            if role >= read_role(least):
                assert answer.status_code in (200, 201, 303), answer.text
            else:
                assert (answer.status_code, answer.json()["type"]) == (403, "urn:holdfast:role")
                assert await memory_app.client.bulk.list() == [await memory_app.client.bulk.get(run.id)]
                assert (await memory_app.client.bulk.get(run.id)).state == ("paused" if "resume" in path else "running")


async def test_pages_offer_what_their_reader_may_do(full_app: Holdfast) -> None:
    """A button of a page is there for those whom the route behind it lets in, and for no others."""
    asgi = full_app.asgi(ServerSettings())
    async with full_app:
        asker = Asker(asgi, await fill(full_app))
        readers = {role: await token(full_app, role) for role in Role}
        pages = [route for route in reached(asgi) if route.method == "GET" and not route.is_api and not route.is_stream]
        offered: dict[Role, set[Permission]] = {role: set() for role in Role}
        for route in pages:
            answers = {role: await asker.ask(route, headers) for role, headers in readers.items()}
            found = {role: set(offers(answer.text)) for role, answer in answers.items() if answer.status_code == OK}
            for role, lines in found.items():
                fitting = {line for every in found.values() for line in every if least_of(line) <= role}
                assert lines == fitting, (route.path, role)
                offered[role] |= lines
    assert PERMISSIONS["GET", "/dead-letters/export"] in offered[Role.VIEWER]
    assert PERMISSIONS["POST", "/schedules/{name}/delete"] in offered[Role.ADMIN]


def least_of(line: Permission) -> Role:
    """The least role of a line; a viewer is the least of anybody who is let in."""
    return Role.VIEWER if line.role == ANYBODY else read_role(line.role)


def offers(text: str) -> Iterator[Permission]:
    """The lines of the table for the forms and buttons of a page."""
    found = [("POST", path) for path in re.findall(r'method="post" action="([^"]+)"', text)]
    found += [("GET", path) for path in re.findall(r'class="button" href="([^"]+)"', text)]
    for method, address in found:
        path = unquote(address.partition("?")[0])
        fitting = [line for (verb, _), line in PERMISSIONS.items() if verb == method and fits(line.path, path)]
        yield min(fitting, key=lambda line: line.path.count("{"))


def fits(pattern: str, path: str) -> bool:
    """Whether a path is one of a route."""
    return re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(pattern)), path) is not None


async def test_who_sees_one_queue_counts_searches_and_exports_that_one(full_app: Holdfast) -> None:
    asgi = full_app.asgi(ServerSettings())
    async with full_app:
        found = await fill(full_app)
        asker = Asker(asgi, found)
        everything, nothing = await token(full_app, Role.ADMIN), await token(full_app, Role.ADMIN, (OTHER,))
        await counts_are_theirs(asker.web, everything, nothing)
        words = []
        for job in (found["id"], EXAMPLES["id"]):
            answer = await asker.web.post(f"/api/v1/jobs/{job}/cancel", headers=nothing)
            words.append((answer.status_code, answer.json()["detail"].replace(job, "x")))
        assert words[0] == words[1] == (404, words[0][1]), "what is not theirs is not there, in the same words"


async def counts_are_theirs(web: httpx2.AsyncClient, everything: dict[str, str], nothing: dict[str, str]) -> None:
    """Look at what is counted, searched and exported for two who ask alike."""
    asked = f"queue:{QUEUE},{OTHER}"
    for headers, jobs in ((everything, 2), (nothing, 1)):
        counted = await web.post("/api/v1/bulk/preview", json={"verb": "cancel", "q": asked}, headers=headers)
        assert counted.json()["jobs"] == jobs, counted.text
        tabs = await web.get("/jobs", params={"q": asked}, headers=headers | {"x-part": "tabs"})
        assert re.findall(r"scheduled\D*>(\d+)<", tabs.text) == [str(jobs)], tabs.text
        for path in ("/api/v1/jobs", "/jobs", "/api/v1/dead-letters/export", "/dead-letters/export"):
            shown = (await web.get(path, params={"q": asked}, headers=headers)).text
            assert (f"_{CANARY}" in shown) == (headers is everything), path


async def test_looking_changes_nothing(full_app: Holdfast) -> None:
    asgi = full_app.asgi(ServerSettings())
    async with full_app:
        asker = Asker(asgi, await fill(full_app))
        admin = await token(full_app, Role.ADMIN)
        await asker.web.get("/api/v1/queues", headers=admin)  # after which the token was used
        before = await contents(full_app)
        for route in reached(asgi):
            if route.method == "GET" and not route.is_stream:
                assert (await asker.ask(route, admin)).status_code < 500, route
        assert await contents(full_app) == before
        assert not await full_app.store.list_audit(AuditFilter(), limit=9)


@pytest.mark.guards("audit-row")
async def test_what_is_done_is_written_down_and_what_is_refused_too(full_app: Holdfast) -> None:
    asgi = full_app.asgi(ServerSettings())
    async with full_app:
        asker = Asker(asgi, await fill(full_app))
        viewer, admin = await token(full_app, Role.VIEWER), await token(full_app, Role.ADMIN)
        changing = [route for route in reached(asgi) if route.method != "GET" and route.role is not None]
        for route in changing:
            for headers in (viewer, admin):
                answer = await asker.ask(route, headers)
                (deed,) = await full_app.store.list_audit(AuditFilter(), limit=1)
                assert (deed.action, deed.status) == (route.name, answer.status_code), route
                assert isinstance(json.loads(deed.detail), dict)
