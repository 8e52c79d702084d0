"""Policies end to end: what a worker publishes, what an enqueue is told, and what holds for jobs by their queue."""

import pytest

from holdfast import Holdfast, Kind, Limit, Queue, RateLimited, backoff
from holdfast.client.making import new_job
from holdfast.job import JobState
from tests.support.workers import MakeApp, drained

CALLS = Limit(name="calls", key="args.tenant", rate="2/h")


def with_task(app: Holdfast, **options: object) -> Holdfast:
    """Give an app the task `call`."""

    async def call(tenant: str) -> str:
        return tenant

    app.task(**options)(call)  # type: ignore[call-overload] # options are given by name
    return app


async def test_a_worker_publishes_before_it_claims(make_app: MakeApp) -> None:
    app = with_task(make_app(limits=[CALLS], queues=[Queue("low", sla="1m")]), queue="low", limits="calls")
    async with app:
        await drained(app)
        (kind,) = await app.kinds.list()
        assert (kind.name, kind.queue) == ("call", "low")
        assert [limit.kinds for limit in await app.store.list_limits()] == [("call",)]
        assert set(await app.store.list_queue_policies()) == {"low"}


async def test_too_many_are_refused_with_the_time_to_wait(make_app: MakeApp) -> None:
    app = with_task(make_app(limits=[CALLS]), limits="calls")
    call = app.tasks.get("call").call
    async with app:
        await drained(app)
        with pytest.raises(RateLimited, match="so many never fit at once") as never:
            await app.enqueue_many([call("a"), call("b"), call("a"), call("a")])
        assert never.value.retry_after is None
        handles = await app.enqueue_many(
            [call("a"), call("b"), call("a")]
        )  # nothing of the first was stored or counted
        assert all(handle.created for handle in handles)
        with pytest.raises(RateLimited, match="was refused by the rate limit 'calls' for 'a'") as refused:
            await app.enqueue(call("a"))
        error = refused.value
        assert (error.limit, error.key) == ("calls", "a")
        assert error.retry_after is not None
        assert 1_790 < error.retry_after <= 1_800
        await app.enqueue(call("b"))
        assert sum(count.jobs for counts in (await app.jobs.counts()).values() for count in counts.values()) == 4


async def test_a_debounced_call_gives_the_handle_of_the_job_that_waits(make_app: MakeApp) -> None:
    app = with_task(make_app(), debounce="1h")
    call = app.tasks.get("call").call
    async with app:
        await drained(app)
        first, second = await app.enqueue(call("a")), await app.enqueue(call("b"))
        assert (first.created, second.created, second.number) == (True, False, first.number)
        job = await first.get()
        assert (job.state, job.args) == (JobState.SCHEDULED, {"tenant": "b"})


def test_a_queue_says_what_its_tasks_leave_out(make_sqlite_memory: MakeApp) -> None:
    slow = backoff("fixed", "7s")
    queue = Queue("low", timeout="2m", max_attempts=9, retry=slow, priority=8, poll="20ms")
    app = with_task(make_sqlite_memory(queues=[queue]), queue="low")
    job = new_job(app.tasks.get("call").call("a"), 1, app.config)
    assert (job.timeout_ms, job.max_attempts, job.priority) == (120_000, 9, 8)
    assert app.config.retry_of("low") is slow
    assert app.config.poll_s_of(["default", "low"]) == 0.02
    own = with_task(make_sqlite_memory(queues=[queue]), queue="low", timeout=None, max_attempts=2)
    job = new_job(own.tasks.get("call").call("a"), 1, own.config)
    assert (job.timeout_ms, job.max_attempts) == (None, 2)


def test_configuration_of_a_kind_lies_over_its_task(make_sqlite_memory: MakeApp) -> None:
    kind = Kind(name="Call", queue="low", timeout="5s", max_attempts=3, estimate="$0.50")
    app = with_task(make_sqlite_memory(kinds=[kind]), queue="high", max_attempts=1)
    task = app.tasks.get("call")
    job = new_job(task.call("a"), 1, app.config)
    assert (job.queue, job.timeout_ms, job.max_attempts) == ("low", 5_000, 3)
    assert task.policy.estimate is not None
    assert task.policy.estimate.micro == 500_000
