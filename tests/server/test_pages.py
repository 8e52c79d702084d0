"""The overview, the jobs and one job, as pages without a script."""

import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime

import httpx2
import pytest
from pydantic import SecretStr

from holdfast import Context, Fatal, Holdfast, Job, JobHandle, JobState, Queue, Retry
from holdfast.stores.access import AuditFilter
from tests.server.hostile import HOSTILE, TOGETHER
from tests.server.markup import raw, shape
from tests.support.web import bearing, form_token, made_token, visit
from tests.support.workers import MakeApp, drained

HIDDEN = "correct horse battery staple"


@pytest.fixture
async def shop(make_sqlite_memory: MakeApp) -> AsyncIterator[Holdfast]:
    """An app with tasks that end in different ways."""
    app = make_sqlite_memory(
        queues=[Queue("high", priority=0, colour="salmon", sla="30s"), Queue("bulk", colour="blue")]
    )

    stumbled: list[int] = []

    @app.task(queue="high")
    async def greet(ctx: Context, name: str) -> str:
        async with ctx.phase("write"):
            await ctx.progress(50, f"half of {name}")
        ctx.log.info("wrote to %s, see https://example.org/a?b=1&c=2.", name)
        return f"hello {name}"

    @app.task(queue="high", max_attempts=2)
    async def stumble(ctx: Context) -> None:
        ctx.log.info("walked")
        if not stumbled:
            stumbled.append(1)
            raise Retry(0)

    @app.task(queue="bulk", max_attempts=1)
    async def break_down(text: str) -> None:
        raise Fatal(text)

    @app.task(queue="bulk", max_attempts=1)
    async def tell(ctx: Context, password: SecretStr, note: str) -> None:
        ctx.log.info("opening with %s", password.get_secret_value())
        await ctx.progress(10, f"knocked with {password.get_secret_value()}", word=password.get_secret_value())
        message = f"refused {password.get_secret_value()} of {note}"
        raise RuntimeError(message)

    @app.task(queue="bulk", max_attempts=1)
    async def spread(ctx: Context, text: str) -> None:
        async def fail(key: str) -> None:
            if key == text:
                raise RuntimeError(key)

        ctx.log.warning("%s", text)
        await ctx.progress(10, text, note=text)
        async with ctx.items("parts", ["fine", text]) as items:
            await items.each(fail)
        raise Fatal(text)

    async with app:
        yield app


@pytest.fixture
async def web(shop: Holdfast) -> AsyncIterator[httpx2.AsyncClient]:
    """Somebody who may do everything."""
    async with visit(shop) as asking:
        asking.headers.update(bearing(await made_token(shop)))
        yield asking


async def enqueued(app: Holdfast, kind: str, **args: object) -> JobHandle[object]:
    return await app.enqueue(app.tasks.get(kind).call(**args))


async def test_empty_pages_teach(web: httpx2.AsyncClient) -> None:
    overview = (await web.get("/")).text
    assert "No job is in the dead letters" in overview
    jobs = (await web.get("/jobs")).text
    assert "holdfast enqueue" in jobs
    hidden = (await web.get("/jobs", params={"q": "kind:nothing"})).text
    assert "may be hidden by it" in hidden
    assert "holdfast enqueue" not in hidden


async def test_the_overview_shows_queues_counts_and_what_needs_a_person(
    shop: Holdfast, web: httpx2.AsyncClient
) -> None:
    await enqueued(shop, "greet", name="ann")
    await enqueued(shop, "break_down", text="no more paper")
    stumbling = await enqueued(shop, "stumble")
    await drained(shop)
    while not (await stumbling.get()).is_finished:
        await drained(shop)
    await enqueued(shop, "greet", name="bob")
    await shop.queues.pause("bulk", actor="carol", reason="too loud")
    await enqueued(shop, "break_down", text="later")
    page = (await web.get("/")).text
    assert re.search(r"<dt>ready</dt><dd>1</dd>", page)
    assert 'fill="salmon"' in page
    assert "bulk is paused" in page
    assert "by carol" in page
    assert "too loud" in page
    assert "Dead letters grew: 1 group within the hour" in page
    assert "no more paper" in page
    assert "1 failed" in page
    assert "2 finished, 1 tried again" in page
    assert re.search(r">P50 \S+ m?s, P95 \S+ m?s<", page)
    assert "high is stuck: no worker takes its jobs" in page  # and bulk is paused, which is another thing
    assert "bulk is stuck" not in page
    counts = (await web.get("/counts")).text
    assert re.search(r'id="count-dead-letters" hx-swap-oob="true">1<', counts)
    for within in ("24h", "7d", "nonsense"):
        assert (await web.get("/", params={"within": within})).status_code == 200


async def test_who_sees_one_queue_sees_nothing_of_others(shop: Holdfast) -> None:
    mine = await enqueued(shop, "greet", name="ann")
    other = await enqueued(shop, "break_down", text="none of your business")
    await drained(shop)
    await shop.queues.pause("bulk", reason="none of your business")
    async with visit(shop) as web:
        web.headers.update(bearing(await made_token(shop, "operator", queues=("high",))))
        for address in ("/", "/jobs", "/counts", "/jobs?q=state:failed"):
            page = (await web.get(address)).text
            assert "none of your business" not in page
            assert "break_down" not in page
            assert "bulk" not in page.replace('id="bulk"', "").replace("/jobs/bulk", "")
        assert "data-row" not in (await web.get("/jobs?q=queue:bulk")).text
        nav = (await web.get("/")).text.split("<nav", 1)[1].split("</nav>")[0]
        links = re.findall(r'href="([^"]+)"', nav)
        assert {link: (await web.get(link)).status_code for link in links} == dict.fromkeys(links, 200)
        assert (await web.get(f"/jobs/{mine.id}")).status_code == 200
        assert (await web.get(f"/jobs/{other.id}")).status_code == 404
        assert (await web.post(f"/jobs/{other.id}/retry")).status_code == 404
        answer = await web.post("/jobs/bulk", data={"verb": "retry", "job": [other.id]})
        assert answer.status_code == 303
        await web.post("/jobs/bulk", data={"verb": "retry", "q": "", "all": "yes"})
    assert (await other.get()).run == 1


async def test_jobs_are_filtered_paged_and_found_by_id(shop: Holdfast, web: httpx2.AsyncClient) -> None:
    jobs = await shop.enqueue_many(shop.tasks.get("greet").call(name=f"n{number}") for number in range(60))
    failed = await enqueued(shop, "break_down", text="x")
    seen: list[str] = []
    address: str | None = "/jobs"
    while address is not None:
        page = (await web.get(address)).text
        seen += re.findall(r'data-row="([^"]+)"', page)
        found = re.search(r'rel="next" href="([^"]+)"', page)
        address = None if found is None else found[1].replace("&amp;", "&")
    assert seen == [failed.id, *(job.id for job in reversed(jobs))]
    page = (await web.get("/jobs", params={"q": "kind:break_down"})).text
    assert re.findall(r'data-row="([^"]+)"', page) == [failed.id]
    assert "holdfast jobs list kind:break_down" in page
    answer = await web.get("/jobs", params={"q": failed.id})
    assert (answer.status_code, answer.headers["location"]) == (303, f"/jobs/{failed.id}")
    wrong = await web.get("/jobs", params={"q": "sate:failed color:red"})
    assert wrong.status_code == 422
    assert "sate" in wrong.text
    assert "color" in wrong.text
    tabs = (await web.get("/jobs", params={"q": "kind:greet"}, headers={"x-part": "tabs"})).text
    assert "<html" not in tabs
    assert re.search(r'queued <span class="count">60</span>', tabs)


async def test_a_part_comes_alone(shop: Holdfast, web: httpx2.AsyncClient) -> None:
    job = await enqueued(shop, "greet", name="ann")
    for address, parts in {
        "/": ("attention", "series", "cards", "failures"),
        "/jobs": ("rows", "operations", "tabs"),
        f"/jobs/{job.id}": (
            "header",
            "progress",
            "flow",
            "attempts",
            "values",
            "logs",
            "facts",
            "offspring",
            "events",
            "webhooks",
        ),
    }.items():
        for part in parts:
            text = (await web.get(address, headers={"x-part": part})).text
            assert "<html" not in text
            assert f'data-part="{part}"' in text or part == "tabs"


async def test_a_job_tells_everything_but_its_secrets(shop: Holdfast, web: httpx2.AsyncClient) -> None:
    job = await enqueued(shop, "tell", password=SecretStr(HIDDEN), note="ann")
    done = await enqueued(shop, "greet", name="ann")
    twice = await enqueued(shop, "stumble")
    while not (await twice.get()).is_finished:
        await drained(shop)
    page = (await web.get(f"/jobs/{job.id}")).text
    assert HIDDEN not in page
    assert "**********" in page
    assert "RuntimeError" in page
    assert "opening with **********" in page
    assert 'class="own"' in page
    assert HIDDEN not in (await web.get("/jobs")).text
    assert HIDDEN not in (await web.get("/")).text
    assert HIDDEN not in (await web.get(f"/jobs/{job.id}/clone")).text
    page = (await web.get(f"/jobs/{done.id}")).text
    for expected in ("hello ann", "wrote to ann", "Completed", "attempt 1", "waited", "write"):
        assert expected in page, expected
    link = '<a href="https://example.org/a?b=1&amp;c=2" rel="noopener noreferrer nofollow" target="_blank">'
    assert f"{link}https://example.org/a?b=1&amp;c=2</a>." in page
    assert "<h3>attempt" not in page
    assert re.findall(r"<h3>(attempt .)</h3>", (await web.get(f"/jobs/{twice.id}")).text) == [
        "attempt 1",
        "attempt 2",
    ]


async def test_acting_on_one_job(shop: Holdfast, web: httpx2.AsyncClient) -> None:
    job = await enqueued(shop, "break_down", text="x")
    await drained(shop)
    assert (await web.post(f"/jobs/{job.id}/retry")).status_code == 303
    assert (await job.get()).run == 2
    answer = await web.post(f"/jobs/{job.id}/retry")
    assert "Not%20done" in answer.headers["set-cookie"]
    said = await web.get(f"/jobs/{job.id}")
    assert re.search(r'class="mistake" role="alert">Not done: ', said.text)
    assert "Not done" not in (await web.get(f"/jobs/{job.id}")).text  # it is said once
    await web.post(f"/jobs/{job.id}/cancel", data={"reason": "enough"})
    assert (await job.get()).state is JobState.CANCELLED
    later = await shop.enqueue(shop.tasks.get("greet").using(delay="1h").call(name="late"))
    await web.post(f"/jobs/{later.id}/run")
    assert (await later.get()).run_at <= datetime.now(UTC)
    await web.post(f"/jobs/{job.id}/delete")
    assert (await web.get(f"/jobs/{job.id}")).status_code == 404
    deeds = await shop.store.list_audit(AuditFilter(), limit=9)
    assert [(deed.action, deed.queue) for deed in reversed(deeds)] == [
        ("retry_job_here", "bulk"),
        ("retry_job_here", "bulk"),
        ("cancel_job_here", "bulk"),
        ("run_job_here", "high"),
        ("delete_job_here", "bulk"),
    ]


async def test_clone_and_edit_keeps_covered_secrets(shop: Holdfast, web: httpx2.AsyncClient) -> None:
    job = await enqueued(shop, "tell", password=SecretStr(HIDDEN), note="ann")
    await drained(shop)
    args = '{"password": "**********", "note": "bob"}'
    answer = await web.post(f"/jobs/{job.id}/clone", data={"args": args})
    assert answer.status_code == 303
    new = await shop.jobs.get(answer.headers["location"].rpartition("/")[2])
    assert (new.origin, new.args) == (job.id, {"password": {"$secret": HIDDEN}, "note": "bob"})
    for wrong in ("{", "[1]", '{"note": "bob"}', '{"password": "**********", "note": 7}'):
        answer = await web.post(f"/jobs/{job.id}/clone", data={"args": wrong})
        assert answer.status_code == 422, wrong
        assert 'class="mistake"' in answer.text
        assert HIDDEN not in answer.text


async def test_many_jobs_at_once(shop: Holdfast, web: httpx2.AsyncClient) -> None:
    jobs = await shop.enqueue_many(shop.tasks.get("greet").call(name=f"n{number}") for number in range(5))
    chosen = [job.id for job in jobs[:2]]
    ask = await web.get("/jobs/bulk", params={"verb": "cancel", "job": chosen, "q": "kind:greet"})
    assert "Cancel 2 jobs" in ask.text
    answer = await web.post(
        "/jobs/bulk", data={"verb": "cancel", "job": chosen, "q": "kind:greet", "reason": "why not"}
    )
    assert answer.headers["location"] == "/jobs?q=kind%3Agreet", "the filter is kept"
    assert [(await job.get()).state.value for job in jobs] == ["cancelled"] * 2 + ["queued"] * 3
    await web.post("/jobs/bulk", data={"verb": "reprioritise", "job": [jobs[2].id], "priority": "9"})
    assert (await jobs[2].get()).priority == 9
    await web.post("/jobs/bulk", data={"verb": "reschedule", "job": [jobs[2].id], "delay": "1h"})
    assert (await jobs[2].get()).state is JobState.SCHEDULED

    for asked, expected in {"args.name=n4": "1 job<", "n3 state:queued": "1 job<", "kind:nothing": "0 jobs<"}.items():
        ask = await web.get("/jobs/bulk", params={"verb": "cancel", "q": asked, "all": "yes"})
        assert f"Cancel {expected}" in ask.text, asked

    later = {"verb": "reschedule", "q": "kind:greet", "all": "yes"}
    assert "Reschedule 3 jobs" in (await web.get("/jobs/bulk", params=later)).text
    assert (await web.post("/jobs/bulk", data=later | {"delay": "soon"})).status_code == 422
    ask = await web.get("/jobs/bulk", params={"verb": "delete", "q": "kind:greet", "all": "yes"})
    assert "Delete 2 jobs" in ask.text
    refused = await web.post("/jobs/bulk", data={"verb": "delete", "q": "kind:greet", "all": "yes", "confirm": "yes"})
    assert refused.status_code == 422
    assert await shop.bulk.list() == []
    await web.post("/jobs/bulk", data={"verb": "delete", "q": "kind:greet", "all": "yes", "confirm": "delete"})
    (run,) = await shop.bulk.list()
    assert (run.verb.value, run.expected.jobs, run.which["kinds"]) == ("delete", 2, ["greet"])
    page = (await web.get("/jobs")).text
    assert f"Bulk operation {run.id}: delete" in page
    answer = await web.post(f"/jobs/bulk/{run.id}/pause", data={"q": "kind:greet"})
    assert answer.headers["location"] == "/jobs?q=kind%3Agreet"  # the filter is not lost
    assert (await shop.bulk.get(run.id)).state.value == "paused"
    await web.post("/jobs/bulk", data=later | {"delay": "1h"})
    assert [(run.verb.value, run.expected.jobs) for run in await shop.bulk.list()] == [("reschedule", 3), ("delete", 2)]
    for wrong in (
        {"verb": "explode"},
        {"verb": "retry", "q": "sate:x", "all": "yes"},
        {"verb": "cancel", "q": "kind:greet"},
    ):
        assert (await web.post("/jobs/bulk", data=wrong)).status_code == 422
    async with visit(shop) as operator:
        operator.headers.update(bearing(await made_token(shop, "operator")))
        data = {"verb": "delete", "q": "", "all": "yes", "confirm": "delete"}
        assert (await operator.post("/jobs/bulk", data=data)).status_code == 403
    async with visit(shop) as viewer:
        viewer.headers.update(bearing(await made_token(shop, "viewer")))
        assert "to the selected" not in (await viewer.get("/jobs")).text
        assert (await viewer.get("/jobs/bulk", params={"verb": "retry"})).status_code == 403


async def test_forms_of_a_browser_work_and_others_do_not(shop: Holdfast) -> None:
    job = await enqueued(shop, "greet", name="ann")
    async with visit(shop) as browser:
        browser.cookies.set("holdfast_session", await made_token(shop, "operator", kind="session", lasts_ms=60_000))
        token = form_token(await browser.get(f"/jobs/{job.id}"))
        assert (await browser.post(f"/jobs/{job.id}/cancel")).status_code == 403
        answer = await browser.post(f"/jobs/{job.id}/cancel", data={"form_token": token})
        assert answer.status_code == 303
    assert (await job.get()).state is JobState.CANCELLED


async def test_every_address_knows_the_path_it_is_mounted_under(shop: Holdfast) -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    job = await enqueued(shop, "break_down", text="x")
    await drained(shop)
    outer = Starlette(routes=[Mount("/tools/jobs", app=shop.asgi())])
    transport = httpx2.ASGITransport(app=outer)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as web:
        web.headers.update(bearing(await made_token(shop)))
        for address in (
            "/",
            "/jobs",
            f"/jobs/{job.id}",
            "/jobs/bulk?verb=retry&all=yes",
            f"/jobs/{job.id}/clone",
        ):
            page = (await web.get(f"/tools/jobs{address}")).text
            links = re.findall(r'(?:href|src|action|hx-get|data-root)="(/[^"]*)"', page)
            assert links
            assert [link for link in links if not link.startswith("/tools/jobs/")] == []


async def _spread(app: Holdfast, texts: Iterable[str]) -> dict[str, Job]:
    """Make jobs that hold a text wherever a job can hold one."""
    task = app.tasks.get("spread")
    handles = {
        text: await app.enqueue(task.using(tags={"customer": text}, actor=text, unique=text).call(text=text))
        for text in texts
    }
    await drained(app)
    return {text: await handle.get() for text, handle in handles.items()}


def _fixed(html: str) -> Counter[tuple[str, tuple[str, ...]]]:
    """What a page of a job is made of, without what depends on how long things took."""
    return Counter({tag: count for tag, count in shape(html).items() if tag[0] not in {"line", "path"}})


async def test_hostile_texts_stay_texts(shop: Holdfast, web: httpx2.AsyncClient) -> None:
    plain, *jobs = (await _spread(shop, ("nothing but words", *HOSTILE))).items()
    shapes = {}
    for address in ("", "/clone"):
        shapes[address] = _fixed((await web.get(f"/jobs/{plain[1].id}{address}")).text)
    for text, job in jobs:
        for address, expected in shapes.items():
            page = (await web.get(f"/jobs/{job.id}{address}")).text
            assert _fixed(page) == expected, text
            assert raw(page) == [], text
        answer = await web.get("/jobs", params={"q": text})
        assert raw(answer.text) == [], text
    await shop.queues.pause("bulk", actor=HOSTILE[3], reason=TOGETHER[0][:900])
    for address in ("/", "/jobs", "/jobs/bulk?verb=retry&all=yes"):
        page = (await web.get(address)).text
        assert raw(page) == []
        assert {tag for tag, _ in shape(page)} <= {tag for tag, _ in shape((await web.get("/")).text)} | _JOB_TAGS
    asked = await web.get("/jobs/bulk", params={"verb": "retry", "q": HOSTILE[3], "job": list(HOSTILE)})
    assert raw(asked.text) == []


_JOB_TAGS = {"datalist", "select", "option", "progress", "textarea", "strong", "code", "small", "br"}
