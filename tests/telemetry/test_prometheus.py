"""A real Prometheus reads real workers: sums are those of the store, and every query of the files runs."""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast import Holdfast
from holdfast.job import JobState
from tests.support import debian
from tests.support.ports import free_port
from tests.support.sizes import size
from tests.support.wait import until, wait_until
from tests.telemetry.prometheus import Prometheus, scraping

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "alerts.yml"
BACKLOG = 'holdfast_queue_backlog{queue="bulk"}'
DASHBOARD = DEPLOY / "grafana" / "holdfast.json"

SOURCE = """
from holdfast import Context, Holdfast, Queue, Retry, Service
from holdfast.policies.limits import Limit

app = Holdfast(
    {url!r}, schema={schema!r},
    queues=[Queue("screenshot", workers=3), Queue("bulk")],
    limits=[Limit(name="screenshot", queue="screenshot", concurrency=3, scope="instance",
                  metric="screenshot_concurrency_utilization")],
    services={{"lane_counts": Service(interval="1s")}},
)

@app.task(queue="bulk")
async def tag(ctx: Context, n: int) -> None:
    if n % 10 == 0:
        await ctx.spend("$0.004")

@app.task(queue="screenshot", max_attempts=2)
async def capture(n: int) -> None:
    if n % 2:
        raise Retry("0s", reason="the page did not load")
"""

QUEUES = {"bulk", "screenshot"}

SEED = (
    "sum by (queue) (job_queue_backlog_total)",
    "histogram_quantile(0.95, sum by (queue, le) (rate(job_execution_duration_seconds_bucket[5m])))",
    "screenshot_concurrency_utilization / 3 * 100  # Percentage of 3-worker pool",
)


def dashboard_queries() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def alert_queries() -> list[str]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule["expr"] for group in groups for rule in group["rules"]]


def test_every_query_names_a_metric_that_is_exported() -> None:
    from holdfast.telemetry.metrics import METRICS

    shown = {"screenshot_concurrency_utilization"}
    for metric in METRICS.values():
        shown |= {metric.name, f"{metric.name}_total"}
        shown |= {f"{metric.name}_{part}" for part in ("bucket", "count", "sum")}
    for query in (*SEED, *dashboard_queries(), *alert_queries()):
        named = set(re.findall(r"\b(?:job|holdfast|screenshot)_[a-z_]+\b", query)) - {"job_type"}
        assert named, query
        assert named <= shown, query


def test_the_rules_are_accepted() -> None:
    done = subprocess.run(
        [debian.program("prometheus", ["promtool"]), "check", "rules", str(RULES)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
async def app(dsn: str, schema: str, tmp_path: Path) -> Holdfast:
    source = SOURCE.format(url=dsn, schema=schema)
    (tmp_path / "shop.py").write_text(source)
    names: dict[str, Any] = {"__name__": "shop"}
    exec(compile(source, "shop.py", "exec"), names)  # noqa: S102 - the text above
    found: Holdfast = names["app"]
    return found


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "HOLDFAST_APP": "shop:app", "PYTHONPATH": str(folder)}
    with (folder / f"{'-'.join(arguments[:1])}.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *arguments], cwd=folder, env=environment, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


async def ends_of(app: Holdfast) -> tuple[Counter[str], int]:
    """What the store says: how jobs ended, and how often one was tried again."""
    ends: Counter[str] = Counter()
    retries = 0
    async for job in app.jobs.iterate():
        ends[job.state.value] += 1
        retries += sum(attempt.outcome == "retry" for attempt in job.attempts)
    return ends, retries


async def enqueue(app: Holdfast, jobs: int) -> None:
    for kind in ("tag", "capture"):
        task = app.tasks.get(kind)
        await app.enqueue_many(task.call(n=n) for n in range(jobs))


def shows(prometheus: Prometheus, ends: Counter[str], retries: int) -> Callable[[], bool]:
    def is_so() -> bool:
        done = prometheus.query("sum by (status) (job_execution_duration_seconds_count)")
        found = Counter({one["metric"]["status"]: int(float(one["value"][1])) for one in done})
        return found == ends + Counter(retried=retries) and prometheus.value("sum(job_retry_total)") == retries

    return is_so


async def drained(app: Holdfast, expected: int) -> None:
    async def is_drained() -> bool:
        ends, _ = await ends_of(app)
        return sum(ends[state] for state in (JobState.COMPLETED, JobState.FAILED)) == expected

    await until(is_drained, f"{expected} jobs have ended")


@pytest.mark.real_time
@pytest.mark.timeout(180)
async def test_two_workers_and_a_server_are_scraped_and_every_query_runs(app: Holdfast, tmp_path: Path) -> None:
    jobs = size(100, 5_000)
    ports = [free_port() for _ in range(4)]
    async with app:
        await enqueue(app, jobs)
        with ExitStack() as stack:
            for port in ports[:2]:
                stack.enter_context(started(tmp_path, "worker", "--processes", "2", "--metrics", f"127.0.0.1:{port}"))
            stack.enter_context(started(tmp_path, "services", "run", "--metrics", f"127.0.0.1:{ports[2]}"))
            # A server runs no jobs and leads nothing, so it adds to no sum.
            stack.enter_context(started(tmp_path, "serve", "--port", str(ports[3]), "--metrics"))
            prometheus = stack.enter_context(scraping(tmp_path, ports, RULES))
            await drained(app, 2 * jobs)
            wait_until(shows(prometheus, *await ends_of(app)), "the sums are those of the store")

            # A child dies: what it had counted stays, and what follows is counted once.
            victim = next(row for row in await app.store.list_workers() if row.dead_at is None)
            os.kill(victim.info.pid, signal.SIGKILL)
            wait_until(lambda: not Path(f"/proc/{victim.info.pid}").exists(), "it is gone")
            wait_until(shows(prometheus, *await ends_of(app)), "what it had counted stays")
            await enqueue(app, 20)
            await drained(app, 2 * jobs + 40)
            wait_until(shows(prometheus, *await ends_of(app)), "the sums are those of the store again")

            spent = sum(entry.amount for entry in await app.store.read_ledger(None, 1_000)) / 1_000_000
            assert spent == pytest.approx((jobs // 10 + 2) * 0.004)
            # A target that answers too late once is missing until its next scrape, so all of this is waited for.
            sum_of_spent = "sum(job_budget_consumed_dollars_total)"
            wait_until(lambda: prometheus.value(sum_of_spent) == pytest.approx(spent), "so much was spent")
            wait_until(lambda: prometheus.value("sum(holdfast_leader)") == 1, "one leads")
            wait_until(lambda: prometheus.value("sum(up)") == 4, "the server is scraped too")
            wait_until(lambda: len(prometheus.query(BACKLOG)) == 1, "the leader alone tells the backlog")
            wait_until(lambda: prometheus.value(f"sum({BACKLOG})") == 0, "nothing is left")
            await until(lambda: each_queue_has_a_p95(app, prometheus), "a P95 of each queue")
            look_at_queries(prometheus)


async def each_queue_has_a_p95(app: Holdfast, prometheus: Prometheus) -> bool:
    """Look at the second query; a histogram has no rate until a job ends after its first scrape, so more are run."""
    late = {one["metric"]["queue"] for one in prometheus.query(SEED[1]) if float(one["value"][1]) > 0}
    if late >= QUEUES:
        return True
    await enqueue(app, 2)
    return False


def look_at_queries(prometheus: Prometheus) -> None:
    for query in SEED:
        wait_until(lambda: bool(prometheus.query(query)), query)  # noqa: B023 - called before the next turn
    wait_until(lambda: {one["metric"]["queue"] for one in prometheus.query(SEED[0])} >= QUEUES, "both queues")
    for query in (*dashboard_queries(), *alert_queries()):
        prometheus.query(query)
    groups = prometheus.ask("/api/v1/rules")["data"]["groups"]
    assert [rule for group in groups for rule in group["rules"] if rule["health"] == "err"] == []
