"""What a worker inside a program shows, and that the store's numbers come from the leader alone."""

import asyncio
import contextlib
import re
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import ConfigError, Fatal, Holdfast, Queue, Retry, Service, Snooze
from holdfast.job import JobState
from holdfast.policies.limits import Limit
from holdfast.services.exporter import of_lanes
from holdfast.stores.values import LaneGauge, QueueRow
from holdfast.telemetry.settings import TelemetrySettings
from tests.support.wait import until

ON = TelemetrySettings(metrics=True)


def make_app(url: str, **more: Any) -> Holdfast:
    app = Holdfast(
        url,
        synchronous="normal",
        telemetry=ON,
        queues=[Queue("shots", workers=2)],
        limits=[Limit(name="shots", queue="shots", concurrency=2, scope="instance", metric="shots_in_use")],
        services={"lane_counts": Service(interval="50ms")},
        **more,
    )

    @app.task(max_attempts=2)
    async def work(how: str) -> None:
        if how == "retry":
            raise Retry(0)
        if how == "fatal":
            raise Fatal(how)
        if how == "snooze":
            raise Snooze(3600)

    @app.task(queue="shots")
    async def shoot() -> None:
        await asyncio.Event().wait()

    return app


@pytest.fixture(params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Holdfast:
    if request.param == "sqlite":
        return make_app(f"sqlite:///{tmp_path}/jobs.db")
    return make_app(request.getfixturevalue("dsn"), schema=request.getfixturevalue("schema"))


def counted(text: str, name: str) -> dict[str, float]:
    found = re.findall(rf"^{name}(?:\{{(.*)\}})? (\S+)$", text, re.MULTILINE)
    return {labels: float(value) for labels, value in found}


async def until_shown(app: Holdfast, name: str, expected: dict[str, float]) -> str:
    async def is_shown() -> bool:
        return counted(await app.metrics(), name) == expected

    await until(is_shown, f"{name} is {expected}")
    return await app.metrics()


async def test_ends_retries_and_waits_are_counted_as_the_store_has_them(app: Holdfast) -> None:
    work = app.tasks.get("work")
    began = time.monotonic()
    async with app:
        for how in ("return", "return", "retry", "fatal", "snooze"):
            await app.enqueue(work.call(how=how))
        await app.run_worker(until="empty")
        text = await app.metrics()
    labels = 'job_type="work",queue="default"'
    ends = {"completed": 2.0, "failed": 2.0, "retried": 1.0, "snoozed": 1.0}
    assert counted(text, "job_execution_duration_seconds_count") == {
        f'{labels},status="{status}"': times for status, times in ends.items()
    }
    assert counted(text, "job_retry_total") == {labels: 1.0}
    assert counted(text, "job_queue_latency_seconds_count") == {labels: 6.0}
    assert counted(text, "holdfast_claim_duration_seconds_count")[""] >= 1
    sums = counted(text, "job_execution_duration_seconds_sum")
    assert 0 < sums[f'{labels},status="completed"'] < 2 * (time.monotonic() - began)


async def test_the_leader_shows_the_store_and_each_worker_its_own_slots(app: Holdfast) -> None:
    shoot = app.tasks.get("shoot")
    async with app:
        for _ in range(5):
            await app.enqueue(shoot.call())
        await app.queues.pause("default")
        working = asyncio.create_task(app.run_worker())
        try:
            await until_shown(app, "holdfast_running_jobs", {'queue="shots"': 2.0})
            await until_shown(app, "job_queue_backlog_total", {'queue="default"': 0.0, 'queue="shots"': 3.0})
            text = await until_shown(app, "holdfast_queue_backlog", {'queue="default"': 0.0, 'queue="shots"': 5.0})
            assert counted(text, "shots_in_use") == {"": 2.0}
            assert counted(text, "holdfast_limit_slots") == {
                'limit="shots",state="taken"': 2.0,
                'limit="shots",state="total"': 2.0,
            }
            assert counted(text, "holdfast_running_jobs") == {'queue="shots"': 2.0}
            assert counted(text, "holdfast_leader") == {"": 1.0}
            assert counted(text, "holdfast_queue_paused")['queue="default"'] == 1.0
            assert counted(text, "holdfast_service_rounds_total")['service="lane_counts"'] >= 1
        finally:
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working


async def test_two_workers_of_one_store_show_its_numbers_once(tmp_path: Path) -> None:
    one, two = (make_app(f"sqlite:///{tmp_path}/jobs.db") for _ in range(2))
    async with one, two:
        tasks = [asyncio.create_task(app.run_worker()) for app in (one, two)]
        try:
            texts, leads = list[str](), list[float]()

            async def is_shown() -> bool:
                texts[:] = [await one.metrics(), await two.metrics()]
                leads[:] = [counted(text, "holdfast_leader").get("", 0.0) for text in texts]
                both = all(counted(text, "holdfast_slots") for text in texts)
                return both and sum(leads) == 1 and bool(counted(texts[leads.index(1.0)], "job_queue_backlog_total"))

            await until(is_shown, "both show their slots, and one leads")
            assert [bool(counted(text, "job_queue_backlog_total")) for text in texts] == [lead == 1 for lead in leads]
            assert [counted(text, "holdfast_slots") for text in texts] == [{"": 10.0}] * 2
            memory = [counted(text, "holdfast_worker_memory_bytes") for text in texts]
            assert all(found[""] > 5_000_000 for found in memory) == (sys.platform == "linux")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def test_nothing_is_counted_unless_somebody_wants_it() -> None:
    app = Holdfast("sqlite://")
    assert app.parts.exporter is None
    with pytest.raises(ConfigError, match=r"telemetry=TelemetrySettings\(metrics=True\)"):
        await app.metrics()


def test_settings_say_what_they_expect() -> None:
    with pytest.raises(ConfigError, match="traces: expected True or False, got 'yes'"):
        TelemetrySettings(traces="yes")  # type: ignore[arg-type]  # the mistake itself


def test_lanes_become_gauges_of_queues() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    lanes = [
        LaneGauge("a", 0, JobState.QUEUED, 2, False, now - timedelta(seconds=5), now),
        LaneGauge("a", 5, JobState.QUEUED, 1, False, now - timedelta(seconds=9), now),
        LaneGauge("a", 5, JobState.HELD, 4, False, None, now),
        LaneGauge("a", 5, JobState.RUNNING, 1, False, None, now),
        LaneGauge("a", 5, JobState.SCHEDULED, 7, False, None, now),
        LaneGauge("b", 5, JobState.QUEUED, 3, False, now, now),
    ]
    found = dict(of_lanes([QueueRow("b", now, None, None), QueueRow("c", None, None, None)], lanes))
    backlog = {name: found["job_queue_backlog_total", name] for name in "abc"}
    in_hand = {name: found["holdfast_queue_backlog", name] for name in "abc"}
    assert backlog == {"a": 7.0, "b": 3.0, "c": 0.0}
    assert in_hand == {"a": 4.0, "b": 0.0, "c": 0.0}, "what is paused asks for no worker"
    assert found["holdfast_oldest_wait_seconds", "a"] == 9.0
    assert found["holdfast_jobs", "a", "scheduled"] == 7.0
