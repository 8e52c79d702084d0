"""Who may see one queue: every page and every answer is the same, whatever goes on in the queues beside it."""

import re
from typing import Any
from weakref import WeakKeyDictionary

import httpx2
import pytest

from holdfast import Budget, Escalation, Holdfast, Limit, Queue
from holdfast.client.definitions import read_definitions
from holdfast.client.settling import publish
from holdfast.failure import Failure
from holdfast.policies.channels import Slack
from holdfast.server.settings import ServerSettings
from holdfast.stores.access import NewAuditEntry
from holdfast.stores.alarms import Alarm
from holdfast.stores.values import JobFilter, WorkerProcess
from holdfast.transitions import failed as ended_failed
from tests.server.reaching import Reached, reached
from tests.support import raw
from tests.support.builders import claim, lane
from tests.support.web import bearing, made_token
from tests.support.workers import MakeApp

pytestmark = pytest.mark.timeout(300)

SECRET = "xsecretx"
MINE, THEIRS = "mine", f"theirs-{SECRET}"
_PASSING = (
    r"<time.*?</time>",
    r"\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|\+00:00)",
    r"\d\d:\d\d(?::\d\d)?",
    r"\d+(?:\.\d+)? ?(?:ms|s|min)\b",
    r' (?:x|width)="[0-9.]+"',  # of what is drawn along time
    r"\b[0-9a-f]{64}\b",  # the token of forms
    r'"request":"[0-9a-f]{16}"',
)
_ASKED = {
    "/jobs/bulk": "?verb=cancel&q=&all=1",
    "/failures/{verb}": "?kind=sink&fingerprint=SomeError@x",
    "/dead-letters/replay": "?kind=sink",
}


def town(make: MakeApp) -> Holdfast:
    """Make an app with two queues that share a limit, a budget, a kind, workers and who is called."""
    app = make(
        queues=[Queue(MINE, sla="1m"), Queue(THEIRS, sla="1m", description=SECRET)],
        limits=[Limit(name="hosts", kinds=["waits", f"waits-{SECRET}"], concurrency=50, scope="cluster")],
        budgets=[Budget(name="ai", amount="$10", period="month", kinds=["sink", f"waits-{SECRET}"])],
        channels={"chat": Slack(url="http://127.0.0.1:9/hook")},
        escalations=[Escalation(name="ops", channels=["chat"])],
    )
    for kind, queue in (("waits", MINE), (f"waits-{SECRET}", THEIRS)):

        @app.task(kind=kind, queue=queue)
        async def waits(word: str) -> None:
            assert word

    @app.task(queue=MINE, queue_override=True, max_attempts=1)
    async def sink(word: str) -> None:
        assert word

    return app


async def furnish(app: Holdfast, queue: str, word: str, shared: int) -> dict[str, str]:
    """Let something of everything be in one queue, all of it with a word; the answer is what paths name of it."""
    store, name = app.store, f"s-{word}"
    waits = app.tasks.get("waits" if queue == MINE else f"waits-{SECRET}")
    info = WorkerProcess(instance=word, host=word, pid=1, version="1", queues=(queue,), concurrency=4)
    worker = await store.register_worker(info, 600_000)
    failed = await app.tasks.get("sink").using(queue=queue, tags={"a": word}, actor=word).enqueue(word)
    (taken,) = await claim(store, worker, lane(queue))
    await store.finish_jobs([ended_failed(taken.id, taken.claim, Failure("SomeError", word, None, "SomeError@x"))])
    await store.fold_failures(100)
    running = [await waits.using(tags={"a": word}).enqueue(f"{word}-{taker}") for taker in (shared, worker)]
    for taker in (shared, worker):
        assert await claim(store, taker, lane(queue), limit=1)
    await waits.using(tags={"a": word}).enqueue(f"{word}-ready")
    await waits.using(delay="1h", tags={"a": word}, unique=word).enqueue(word)
    await app.schedules.create(name, waits.call(word), cron="0 3 * * *")
    await app.schedules.run(name)
    alarm = Alarm(source="failed", title=word, policy="ops", queue=queue, kind=word, job_id=failed.number)
    await raw.raise_alarm(store, alarm)
    await store.fold_alarms({"ops": ("failed",)}, 100)
    (escalation, *_) = (await app.escalations.list(limit=1)).escalations
    run = await app.client.bulk.start("cancel", JobFilter(queues=(queue,), kinds=("nothing",)), reason=word, actor=word)
    deed = NewAuditEntry(
        actor=word, role="", action="a", target=word, queue=queue, status=200, detail="{}", request="r"
    )
    await store.add_audit(deed)
    await app.queues.pause(queue, actor=word, reason=word)
    await made_token(app, "viewer", queues=(queue,), name=word)
    await store.lead(f"lease-{word}", f"{word}/1/x", None, 600_000)
    (group,) = (await app.dead_letters.list(queue=queue)).groups
    given = {"id": failed.id, "job": failed.id, "group": group.id, "queue": queue, "kind": waits.name}
    given |= {"name": name, "worker": str(worker), "escalation": escalation.id, "operation": run.id}
    return given | {"running": running[0].id}


def address(route: Reached, given: dict[str, str]) -> str:
    """Where a route is asked for what there is."""
    parts = set(route.path.split("/"))
    named = {"name": given["queue"]} if "queues" in parts else {}
    number = given["escalation"] if "escalations" in parts else given["worker"]
    given = {**given, **named, "number": number, "verb": "retry", "resource": "jobs"}
    return route.address(**given) + _ASKED.get(route.path, "")


def still(text: str) -> str:
    """Leave out what changes with time alone."""
    for passing in _PASSING:
        text = re.sub(passing, "-", text, flags=re.DOTALL)
    return text


async def answers(asgi: Any, given: dict[str, str], headers: dict[str, str]) -> dict[str, httpx2.Response]:
    """Ask every route that only looks."""
    transport = httpx2.ASGITransport(app=asgi)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as web:
        asked = [route for route in reached(asgi) if route.method == "GET" and route.role and not route.is_stream]
        found = {route.path: await web.get(address(route, given)) for route in asked}
        found["/jobs/{running}"] = await web.get(f"/jobs/{given['running']}")
        return found | {f"/jobs {part}": await web.get("/jobs", headers={"x-part": part}) for part in ("tabs", "jobs")}


async def test_nothing_that_one_is_shown_depends_on_the_queues_of_others(
    make_sqlite_memory: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = town(make_sqlite_memory)
    asgi = app.asgi(ServerSettings())
    async with app:
        both = WorkerProcess(instance="both", host="both", pid=1, version="1", queues=(MINE, THEIRS), concurrency=9)
        shared = await app.store.register_worker(both, 600_000)
        await publish(app.store, app.config, read_definitions(app.config, app.tasks, []))
        await app.store.define_escalations(["ops"])
        given = await furnish(app, MINE, "mine", shared)
        mine = bearing(await made_token(app, "admin", queues=(MINE,), name="me"))
        everybody = bearing(await made_token(app, "admin", name="all"))
        before = await answers(asgi, given, mine)
        theirs = await furnish(app, THEIRS, SECRET, shared)
        monkeypatch.setattr("holdfast.server.recent._of", WeakKeyDictionary())  # what is kept for seconds
        after = await answers(asgi, given, mine)
        whole = await answers(asgi, given, everybody)
        assert before.keys() == after.keys()
        closed = {path for path, answer in before.items() if answer.status_code == 403}
        assert sum(answer.status_code == 200 for answer in before.values()) > 40
        assert "a slot of hosts" in before["/jobs/{running}"].text
        for path in before.keys() - closed:
            assert before[path].status_code == after[path].status_code == 200, (path, before[path].text)
            assert still(before[path].text) == still(after[path].text), path
            assert SECRET not in after[path].text, path
        assert sum(SECRET in answer.text for answer in whole.values()) > 20, "or nothing was looked for"
        foreign = await answers(asgi, theirs, mine)
        shared_by_both = {
            path for path in foreign if re.search(r"{(group|resource|verb)}", path) and "{job}" not in path
        }
        for path in foreign.keys() - closed - shared_by_both:
            assert SECRET not in still(foreign[path].text).replace(theirs["name"], "").replace(THEIRS, ""), path
            assert foreign[path].status_code == 404 or "{" not in path, (path, foreign[path].text)
