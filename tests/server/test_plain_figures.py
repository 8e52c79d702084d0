"""What pages tell at a glance is what happened: the same figures on every page, and no word that says another thing."""

import re
from datetime import UTC, datetime, timedelta

import httpx2

from holdfast import Holdfast
from holdfast.policies.money import MICRO
from holdfast.resources.budget import BudgetInfo
from holdfast.server.pages.budgets import course
from holdfast.server.pages.rendering import span
from holdfast.stores.budgets import SpendPoint
from holdfast.stores.values import JobFilter
from tests.support.web import PAGE, visit
from tests.support.workers import drained

START = datetime(2026, 11, 1, tzinfo=UTC)


def test_a_budget_stays_level_while_nothing_is_spent() -> None:
    budget = BudgetInfo(
        name="ai",
        key="",
        unit="usd",
        level="normal",
        share=0.8,
        spent=80,
        reserved=0,
        lost=0,
        ceiling=100,
        period="month",
        tz="UTC",
        starts_at=START,
        ends_at=START + timedelta(days=30),
    )
    step = timedelta(hours=12)
    points = [SpendPoint(START + timedelta(days=3), 20 * MICRO), SpendPoint(START + timedelta(days=12), 60 * MICRO)]
    drawn = course(points, budget, step, START + timedelta(days=15))
    expected = [(0, 1), (3, 1), (3.5, 0.8), (12, 0.8), (12.5, 0.2), (15, 0.2)]
    assert [(round(at * 30, 6), round(left, 6)) for at, left in drawn] == expected


def test_long_spans_are_told_in_plain_figures() -> None:
    assert span(timedelta(days=1_096)) == "1,096 d"
    assert span(timedelta(days=999)) == "999 d"
    assert span(timedelta(days=12, hours=12)) == "12.5 d"
    assert span(999.7) == "1 s"


async def test_the_overview_counts_what_ended_as_the_page_of_queues_does(web: httpx2.AsyncClient) -> None:
    card = re.search(r"(\d+) finished, <a[^>]*>(\d+) failed</a>", (await web.get("/")).text)
    row = re.search(
        r'data-label="Finished, 1 h">(\d+)<br><small class="bad">(\d+) failed', (await web.get("/queues")).text
    )
    assert card is not None
    assert row is not None
    assert card.groups() == row.groups() == ("2", "1")


async def test_a_job_that_waits_for_its_next_attempt_says_when_it_comes(web: httpx2.AsyncClient) -> None:
    page = (await web.get("/jobs?q=kind:stumble")).text
    assert re.search(r"due <time [^>]*>[^<]* UTC</time>: Retry: plain words", page)


async def test_a_worker_is_found_by_the_number_that_jobs_tell(town: Holdfast, web: httpx2.AsyncClient) -> None:
    (job,) = (await town.jobs.list(JobFilter(kinds=("sink",)))).jobs
    assert f'href="/workers#worker-{job.worker}"' in (await web.get(f"/jobs/{job.id}")).text
    page = (await web.get("/workers")).text
    for worker in await town.workers.list():
        assert f'id="worker-{worker.id}"' in page
        assert f"worker&nbsp;{worker.id}, process&nbsp;{worker.pid}" in page


async def test_failures_tell_apart_what_was_and_what_will_be_tried_again(web: httpx2.AsyncClient) -> None:
    assert '<th class="n">Tried again</th>' in (await web.get("/queues/high")).text  # how often, within the hour
    assert '<th class="n">Retrying</th>' in (await web.get("/failures")).text  # jobs that wait for it now


async def test_jobs_that_have_ended_are_seen_where_no_queue_is_defined(memory_app: Holdfast) -> None:
    @memory_app.task
    async def count() -> None: ...

    await memory_app.enqueue(count.call())
    await drained(memory_app)
    async with visit(memory_app, is_open=True) as asked:
        asked.headers.update(PAGE)
        page = (await asked.get("/")).text
        assert 'aria-label="1 succeeded, 0 failed"' in page
        assert "No queue yet" not in page
        assert "No queue yet" not in (await asked.get("/queues")).text
