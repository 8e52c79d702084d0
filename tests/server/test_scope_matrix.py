"""What a token of one queue gets of another: every route, as the table of permissions says it."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any
from urllib.parse import unquote

import httpx2
import pytest

from holdfast import Holdfast
from holdfast.resources.bulk import BulkOperation
from holdfast.server.settings import ServerSettings
from tests.server.permissions import NARROWED, PERMISSIONS, Permission
from tests.server.reaching import EXAMPLES, Reached, reached
from tests.server.scope_store import (
    BODIES,
    CANARY,
    FAILS,
    FORMS,
    MINE,
    QUERIES,
    THEIRS,
    WAITS,
    Stock,
    canary_app,
    contents,
)
from tests.support.web import bearing, made_token
from tests.support.workers import MakeApp

pytestmark = pytest.mark.timeout(300)

DONE = (200, 201, 204, 303)
_OWN_TRACES = ("audit", "passes", "bulk_runs")  # what a refused request, a used token and a narrowed run leave


class Visitor:
    """Asks routes for what lies in the queue of others."""

    def __init__(self, app: Holdfast, asgi: Any) -> None:
        self.app = app
        self.stock = Stock(app)
        self.web = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=asgi), base_url="http://127.0.0.1")
        self.narrow: dict[str, str] = {}
        self.whole: dict[str, str] = {}

    async def begin(self) -> None:
        await self.stock.fill()
        self.narrow = bearing(await made_token(self.app, queues=(MINE,)))
        self.whole = bearing(await made_token(self.app))

    async def ask(self, route: Reached, address: str, headers: dict[str, str]) -> httpx2.Response:
        """Send what the route takes; one that never ends is not read."""
        query = QUERIES.get(route.path) if route.method == "GET" else None
        body, form = BODIES.get((route.method, route.path)), None
        if route.method == "POST" and not route.is_api:
            form = FORMS.get(route.path, {"reason": "x"})
        async with asyncio.timeout(20):
            return await self.web.request(route.method, address, params=query, json=body, data=form, headers=headers)


@pytest.fixture
async def visitor(make_sqlite_memory: MakeApp) -> AsyncIterator[Visitor]:
    app = canary_app(make_sqlite_memory)
    async with app:
        found = Visitor(app, app.asgi(ServerSettings()))
        await found.begin()
        async with found.web:
            yield found


def routes_of(visitor: Visitor, *, is_look: bool) -> list[tuple[Reached, Permission]]:
    """The routes that only look, or all others, with what the table says of each."""
    asgi = visitor.app.asgi(ServerSettings())
    every = [route for route in reached(asgi) if route.role is not None and (route.method == "GET") is is_look]
    return [(route, PERMISSIONS[route.method, route.path]) for route in every]


@pytest.mark.guards("scope-whole-routes", "scope-job", "scope-queue", "scope-filters", "scope-run", "scope-escalation")
@pytest.mark.guards("scope-queue-list", "scope-queue-stream", "scope-schedule", "scope-escalation")
async def test_each_route_that_looks_hides_other_queues_as_the_table_says(visitor: Visitor) -> None:
    seen = 0
    wrong: list[tuple[object, ...]] = []
    for route, line in routes_of(visitor, is_look=True):
        if route.is_stream and line.outside == NARROWED:
            continue  # it never ends; see test_streams
        address = route.address(**await visitor.stock.named(route.path))
        answer = await visitor.ask(route, address, visitor.narrow)
        is_hidden = not line.is_answered or CANARY not in without_question(answer.text, route, address)
        if answer.status_code not in line.statuses or not is_hidden:
            wrong.append((line, answer.status_code, answer.text[:300]))
        if not route.is_stream:
            whole = await visitor.ask(route, address, visitor.whole)
            seen += CANARY in without_question(whole.text, route, address)
            if line.outside != "403" and whole.status_code not in DONE:
                wrong.append((line, "without the scope", whole.status_code, whole.text[:300]))
    assert not wrong, "\n".join(map(str, wrong))
    assert seen > 30, "or nothing was looked for"


_ABSENT = {"id": EXAMPLES["id"], "job": EXAMPLES["id"], "group": EXAMPLES["group"], "worker": "999999"}
_ABSENT |= {
    "number": "999999",
    "operation": "999999",
    "name": "gone",
    "queue": "gone",
    "kind": "gone",
    "policy": "gone",
}


def gone(value: Any) -> Any:
    """Name in a body or form what is not there instead of what is theirs."""
    if isinstance(value, dict):
        return {key: gone(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [gone(inner) for inner in value]
    return re.sub(rf"[\w-]*{CANARY}[\w-]*", "gone", value) if isinstance(value, str) else value


async def test_what_is_in_other_queues_is_answered_as_what_is_not_there(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the status nor a word of an answer tells a caller that a name or an id is that of something."""
    wrong: list[tuple[object, ...]] = []
    for route, line in (*routes_of(visitor, is_look=True), *routes_of(visitor, is_look=False)):
        if line.is_answered or line.outside == "403" or route.is_stream:
            continue
        named = await visitor.stock.named(route.path)
        theirs = await visitor.ask(route, route.address(**named), visitor.narrow)
        with monkeypatch.context() as patch:
            tables: tuple[dict[Any, Any], ...] = (BODIES, FORMS, QUERIES)
            for table in tables:
                for key, value in list(table.items()):
                    patch.setitem(table, key, gone(value))
            absent = await visitor.ask(route, route.address(**named | _ABSENT), visitor.narrow)
        words = [plain(theirs.text, (*named.values(), FAILS, WAITS)), plain(absent.text, _ABSENT.values())]
        if theirs.status_code != absent.status_code or words[0] != words[1]:
            wrong.append((line, theirs.status_code, absent.status_code, *words))
    assert not wrong, "\n".join(map(str, wrong))


def plain(text: str, names: Iterable[str]) -> str:
    """Leave out of an answer what the question has named, and what is different in every answer."""
    named = "|".join(re.escape(name) for name in sorted({*names, "gone"}, key=len, reverse=True))
    text = re.sub(r'"request":"[0-9a-f]+"', "", text)
    return re.sub(rf"[\w-]*{CANARY}[\w-]*|(?<![\w-])(?:{named})(?![\w-])", "?", text)


def without_question(text: str, route: Reached, address: str) -> str:
    """Leave out of an answer what the question has named itself."""
    question = f"{unquote(address)} {QUERIES.get(route.path, '')}"
    for name in re.findall(rf"[\w-]*{CANARY}[\w-]*", question):
        text = text.replace(name, "")
    return text


@pytest.mark.guards("scope-whole-routes", "scope-job", "scope-queue", "scope-filters", "scope-run")
@pytest.mark.guards("scope-queue-list", "scope-schedule", "settings-scope")
@pytest.mark.guards("scope-enqueue-home", "scope-escalation", "token-gift", "token-scope")
async def test_each_route_that_changes_something_leaves_other_queues_alone_as_the_table_says(visitor: Visitor) -> None:
    app = visitor.app
    wrong: list[tuple[object, ...]] = []
    for route, line in routes_of(visitor, is_look=False):
        address = route.address(**await visitor.stock.named(route.path))
        before, runs = await contents(app, _OWN_TRACES), await app.bulk.list()
        answer = await visitor.ask(route, address, visitor.narrow)
        if answer.status_code not in line.statuses:
            wrong.append((line, answer.status_code, answer.text[:300]))
        if await contents(app, _OWN_TRACES) != before or not are_narrow(runs, await app.bulk.list()):
            wrong.append((line, "something of the other queue was changed"))
        if line.outside != "403" or "tokens" in route.path:  # what is closed as a whole needs no example that is done
            whole = await visitor.ask(route, address, visitor.whole)
            if whole.status_code not in DONE:
                wrong.append((line, "without the scope", whole.status_code, whole.text[:300]))
    assert not wrong, "\n".join(map(str, wrong))


def are_narrow(before: Sequence[BulkOperation], after: Sequence[BulkOperation]) -> bool:
    """Whether runs are as they were, and new ones are of the asker's queue or of none."""
    states = {run.id: run.state for run in before}
    new = [run for run in after if run.id not in states]
    is_unchanged = all(run.state == states[run.id] for run in after if run.id in states)
    return is_unchanged and all(THEIRS not in run.which.get("queues", [THEIRS]) for run in new)


@pytest.mark.guards("scope-chosen")
async def test_chosen_jobs_of_other_queues_stay_as_they_are(visitor: Visitor) -> None:
    job = (await visitor.app.tasks.get(WAITS).using(delay="1h").enqueue()).id
    before = await contents(visitor.app, _OWN_TRACES)
    for verb in ("cancel", "reschedule", "reprioritise", "delete"):
        form = {"verb": verb, "job": job, "priority": "1", "delay": "2h", "confirm": "delete"}
        answer = await visitor.web.post("/jobs/bulk", data=form, headers=visitor.narrow)
        assert answer.status_code == 303, answer.text
        assert await contents(visitor.app, _OWN_TRACES) == before, verb
    form = {"verb": "cancel", "job": job}
    await visitor.web.post("/jobs/bulk", data=form, headers=visitor.whole)
    assert (await visitor.app.jobs.get(job)).state == "cancelled", "without the scope it is done"
