"""From a job to those that came of it and back, as far as somebody may look: on its page and over HTTP."""

import re
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from holdfast import Fatal, Holdfast, Job, public_id
from tests.support.builders import new_jobs
from tests.support.web import bearing, made_token, visit
from tests.support.workers import MakeApp, drained, ran

JOBS = "/api/v1/jobs"


@pytest.fixture
async def family(make_sqlite_memory: MakeApp) -> AsyncIterator[Holdfast]:
    """An app with a task that enqueues jobs in two queues."""
    app = make_sqlite_memory()

    @app.task(queue="mine", max_attempts=1)
    async def greet(name: str) -> None:
        if name == "nobody":
            message = "there is nobody"
            raise Fatal(message)

    @app.task(queue="theirs")
    async def audit(name: str) -> None: ...

    @app.task(queue="mine")
    async def invite(names: list[str]) -> None:
        await app.enqueue_many([*(greet.call(name) for name in names), *(audit.call(name) for name in names)])

    @app.task(queue="theirs")
    async def order() -> None:
        await greet.enqueue("ann")

    async with app:
        yield app


@pytest.fixture
async def web(family: Holdfast) -> AsyncIterator[httpx2.AsyncClient]:
    """Somebody who may do everything."""
    async with visit(family) as asking:
        asking.headers.update(bearing(await made_token(family)))
        yield asking


async def done(app: Holdfast, kind: str, **args: Any) -> Job:
    """Enqueue a job, and let it and what it enqueues run."""
    (job,) = await ran(app, await app.tasks.get(kind).enqueue(**args))
    return job


async def listed(web: httpx2.AsyncClient, q: str, **headers: str) -> list[dict[str, Any]]:
    answer = await web.get(JOBS, params={"q": q}, headers=headers)
    assert answer.status_code == 200, answer.text
    jobs: list[dict[str, Any]] = answer.json()["jobs"]
    return jobs


def panel(page: str, title: str) -> str:
    """Cut the part of a page under a heading."""
    found = re.search(rf"<h2 [^>]*>{title}</h2>.*?</section>", page, re.DOTALL)
    return "" if found is None else found[0]


async def test_children_and_parent_lead_to_each_other(family: Holdfast, web: httpx2.AsyncClient) -> None:
    parent = await done(family, "invite", names=["ann", "nobody"])
    children = await listed(web, f"parent:{parent.id}")
    assert sorted((job["kind"], job["state"]) for job in children) == [
        ("audit", "completed"),
        ("audit", "completed"),
        ("greet", "completed"),
        ("greet", "failed"),
    ]
    assert {job["parent"] for job in children} == {parent.id}
    shown = panel((await web.get(f"/jobs/{parent.id}")).text, "Children")
    assert "4 (3 completed, 1 failed)" in shown
    assert f'href="/jobs?q=parent%3A{parent.id}"' in shown
    for child in children:
        assert f'href="/jobs/{child["id"]}">{child["kind"]}</a>' in shown
        page = (await web.get(f"/jobs/{child['id']}")).text
        assert re.search(
            rf'<dt>Parent</dt><dd><span class="state s-completed">.*</span> invite <a href="/jobs/{parent.id}">',
            page,
        )
        assert panel(page, "Children") == ""
        assert (await web.get(f"{JOBS}/{child['id']}")).json()["parent"] == parent.id
    everything = (await web.get("/jobs", params={"q": f"parent:{parent.id}"})).text
    assert all(child["id"] in everything for child in children)
    part = (await web.get(f"/jobs/{parent.id}", headers={"x-part": "offspring"})).text
    assert 'data-part="offspring"' in part
    assert "<html" not in part


async def test_of_many_children_the_newest_are_shown(family: Holdfast, web: httpx2.AsyncClient) -> None:
    parent = await done(family, "invite", names=[f"n{number}" for number in range(11)])
    shown = panel((await web.get(f"/jobs/{parent.id}")).text, "Children")
    assert "20+ (of the newest: 20 completed)" in shown
    assert shown.count("<li>") == 20


async def test_a_replay_and_what_it_replays_lead_to_each_other_as_long_as_they_are_kept(
    family: Holdfast, web: httpx2.AsyncClient
) -> None:
    old = await done(family, "greet", name="nobody")
    answer = await web.post(f"{JOBS}/{old.id}/clone", json={"args": {"name": "bob"}})
    new = answer.json()
    assert (answer.status_code, new["origin"], new["parent"]) == (201, old.id, None)
    assert [job["id"] for job in await listed(web, f"origin:{old.id}")] == [new["id"]]
    shown = panel((await web.get(f"/jobs/{old.id}")).text, "Cloned as")
    assert "1 (1 queued)" in shown
    assert f'href="/jobs/{new["id"]}">greet</a>' in shown
    assert f'href="/jobs?q=origin%3A{old.id}"' in shown
    page = (await web.get(f"/jobs/{new['id']}")).text
    assert re.search(
        rf'<dt>Copy of</dt><dd><span class="state s-failed">.*</span> greet <a href="/jobs/{old.id}">', page
    )
    await family.jobs.delete(old.id)
    page = (await web.get(f"/jobs/{new['id']}")).text
    assert f"<dt>Copy of</dt><dd>{old.id} " in page
    assert "not kept any more" in page
    again = await family.enqueue(family.tasks.get("greet").call(name="nobody"))
    await drained(family)
    second = (await web.post(f"{JOBS}/{again.id}/clone", json={"args": {"name": "eve"}})).json()
    await drained(family)
    await family.jobs.delete(second["id"])
    assert panel((await web.get(f"/jobs/{again.id}")).text, "Cloned as") == ""


async def test_relatives_in_queues_of_others_are_neither_shown_nor_counted_nor_named(
    family: Holdfast, web: httpx2.AsyncClient
) -> None:
    parent = await done(family, "invite", names=["ann", "bob"])
    order = await done(family, "order")
    (ordered,) = await listed(web, f"parent:{order.id}")
    assert ordered["parent"] == order.id
    strangers = [job["id"] for job in await listed(web, f"parent:{parent.id} queue:theirs")]
    assert len(strangers) == 2
    mine = bearing(await made_token(family, "operator", queues=("mine",)))
    page = (await web.get(f"/jobs/{parent.id}", headers=mine)).text
    assert "2 (2 completed)" in panel(page, "Children")
    assert [job["kind"] for job in await listed(web, f"parent:{parent.id}", **mine)] == ["greet"] * 2
    assert not any(stranger in page for stranger in strangers)
    for path in (f"/jobs/{ordered['id']}", f"{JOBS}/{ordered['id']}", f"{JOBS}?q=kind:greet", f"{JOBS}?whole=true"):
        answer = await web.get(path, headers=mine)
        assert answer.status_code == 200
        assert ordered["id"] in answer.text, path
        assert order.id not in answer.text, path
    known = await listed(web, f"parent:{parent.id}", **mine)
    assert {job["parent"] for job in known} == {parent.id}, "which is theirs"
    theirs = bearing(await made_token(family, "viewer", queues=("theirs",)))
    (stranger,) = await listed(web, f"id:{strangers[0]}", **theirs)
    assert stranger["parent"] is None
    assert panel((await web.get(f"/jobs/{order.id}", headers=theirs)).text, "Children") == ""


@pytest.mark.guards("scope-kinship")
async def test_what_came_of_a_job_of_others_is_not_found_by_trying_ids(
    family: Holdfast, web: httpx2.AsyncClient
) -> None:
    order = await done(family, "order")
    (child,) = await listed(web, f"parent:{order.id}")
    mine = bearing(await made_token(family, "operator", queues=("mine",)))
    preview = {"verb": "delete", "q": f"parent:{order.id}"}
    for term in ("parent", "origin"):
        assert await listed(web, f"{term}:{order.id}", **mine) == []
    assert (await web.post("/api/v1/bulk/preview", json=preview)).json()["jobs"] == 1
    assert (await web.post("/api/v1/bulk/preview", json=preview, headers=mine)).json()["jobs"] == 0
    for path in (f"/jobs?q=parent:{order.id}", f"/jobs/bulk?verb=retry&all=1&q=parent:{order.id}"):
        assert child["id"] not in (await web.get(path, headers=mine)).text
    assert [one["id"] for one in await listed(web, "kind:greet", **mine)] == [child["id"]]


@pytest.mark.guards("scope-origins")
async def test_what_a_job_replays_in_a_queue_of_others_is_not_named(family: Holdfast, web: httpx2.AsyncClient) -> None:
    """It was there before its kind was moved."""
    old = await done(family, "audit", name="ann")
    (new,) = await new_jobs(family.store, 1, kind="greet", queue="mine", payload='{"name": "ann"}')
    await family.store.insert_replay(new, old.number)
    path = f"{JOBS}/{public_id.encode(new.id)}"
    assert (await web.get(path)).json()["origin"] == old.id
    mine = bearing(await made_token(family, "operator", queues=("mine",)))
    for one in (path, f"/jobs/{public_id.encode(new.id)}", f"{JOBS}?q=kind:greet"):
        answer = await web.get(one, headers=mine)
        assert answer.status_code == 200
        assert public_id.encode(new.id) in answer.text
        assert old.id not in answer.text, one
