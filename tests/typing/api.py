"""How the public interface is typed: mypy must refuse exactly the lines that end in `# E: code`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, assert_type

from holdfast import (
    BlockingHandle,
    Call,
    Cancel,
    Context,
    Fatal,
    Holdfast,
    Job,
    JobFilter,
    JobHandle,
    JobPage,
    JobState,
    Pipeline,
    Queue,
    Retry,
    Skip,
    Snooze,
    WorkerSettings,
    backoff,
    phase,
)

app = Holdfast("sqlite://", queues=[Queue("bulk", priority=8, retention={"failed": "forever"})])
Holdfast("sqlite://", poolsize=3)  # E: call-arg
Holdfast("sqlite://", synchronous="off")  # E: arg-type
Queue("bulk", retention={"lost": "7d"})  # E: dict-item


@app.task
async def send_email(to: str, subject: str = "hi") -> str:
    return f"{subject} to {to}"


@app.task(queue="high", max_attempts=3, timeout=None, retry=backoff("fixed", "5s"), aliases=["add"])
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task
async def resize(ctx: Context, url: str, *, width: int) -> bytes:
    return f"{ctx.job.number} {url} {width}".encode()


@app.task(kind="blocking-resize", queue_override=True)
def resize_here(ctx: Context, url: str) -> None:
    assert ctx.job.args == {"url": url}


@app.task(queue="bulk")
class Transcode(Pipeline):
    url: str
    height: int = 720

    @phase
    async def download(self, ctx: Context) -> dict[str, str]:
        return {"path": f"{self.url} {ctx.job.number}"}

    @phase(weight=3)
    def encode(self, ctx: Context) -> int:
        return self.height


app.task(queues="high")  # E: call-overload
app.task(priority="high")  # E: call-overload


class Wrong(Pipeline):
    @phase  # E: type-var
    def without_context(self) -> None: ...


async def enqueue() -> None:
    assert_type(await send_email.enqueue("a@example.org"), JobHandle[str])
    assert_type(await send_email.enqueue(to="a@example.org", subject="hi"), JobHandle[str])
    await send_email.enqueue(to=1)  # E: arg-type
    await send_email.enqueue("a@example.org", body="x")  # E: call-arg
    await send_email.enqueue()  # E: call-arg

    assert_type(await total.enqueue([1, 2]), JobHandle[int])
    await total.enqueue(["1"])  # E: list-item

    assert_type(await resize.enqueue("https://example.org", width=3), JobHandle[bytes])
    await resize.enqueue("https://example.org", 3)  # E: call-arg
    await resize.enqueue("https://example.org", width="3")  # E: arg-type
    await resize_here.enqueue(1)  # E: arg-type
    assert_type(await resize_here.enqueue("https://example.org"), JobHandle[None])


async def call_directly(ctx: Context) -> None:
    assert_type(await send_email("a@example.org"), str)
    assert_type(total([1]), int)
    assert_type(await resize(ctx, "https://example.org", width=3), bytes)
    await resize("https://example.org", width=3)  # E: arg-type call-arg
    await send_email(1)  # E: arg-type


async def use() -> None:
    later = send_email.using(
        delay="5m", priority=0, unique="a", unique_for=60, key="k", tags={"tenant": "a"}, actor="me", timeout=None
    )
    assert_type(await later.enqueue("a@example.org"), JobHandle[str])
    assert_type(later.call("a@example.org"), Call[str])
    send_email.using(run_at=datetime.now(UTC), connection=object(), queue="high", max_attempts=1, max_crashes=1)
    await later.enqueue(1)  # E: arg-type
    send_email.using(run_at="tomorrow")  # E: arg-type
    send_email.using(later=5)  # E: call-arg
    send_email.using(priority="first")  # E: arg-type


async def pipeline() -> None:
    assert_type(await Transcode(url="x").enqueue(), JobHandle[Any])
    assert_type(await Transcode(url="x", height=2).using(priority=1).enqueue(), JobHandle[Any])
    assert_type(Transcode(url="x").call(), Call[Any])
    Transcode("x")  # E: call-arg
    Transcode(url=1)  # E: arg-type
    Transcode(height=2)  # E: call-arg
    Transcode(url="x").using(later=5)  # E: call-arg
    Transcode(url="x").url = "y"  # E: misc


async def verbs() -> None:
    async with app as opened:
        assert_type(opened, Holdfast)
        job = await app.enqueue(total.call([1]))
        assert_type(job, JobHandle[int])
        assert_type(await job.result(timeout="30s"), int)
        assert_type(await job.get(), Job)
        assert_type(await job.cancel(actor="me", reason="no"), JobState)
        assert_type(await app.enqueue_many(send_email.call(to) for to in "ab"), list[JobHandle[str]])
        assert_type(await app.jobs.get("htcx-2s16-z48b-09"), Job)
        assert_type(await app.jobs.list(JobFilter(queues=("high",)), limit=10), JobPage)
        assert_type([found async for found in app.jobs.iterate()], list[Job])
        assert_type(await app.jobs.retry(1), Job)
        await app.jobs.get(1.5)  # E: arg-type
        await app.jobs.cancel(1, who="me")  # E: call-arg
        await app.enqueue(send_email)  # E: arg-type


def block() -> None:
    with app.blocking() as queue:
        job = queue.enqueue(total.call([1]))
        assert_type(job, BlockingHandle[int])
        assert_type(job.result(timeout=3), int)
        assert_type(queue.jobs.get(1), Job)
        assert_type(queue.jobs.list(limit=3), JobPage)
        assert_type(queue.jobs.cancel(1, actor="me"), Job)
        queue.jobs.cancel(1, who="me")  # E: call-arg
        queue.enqueue(total.call(["1"]))  # E: list-item


# ---- workers ---------------------------------------------------------------------------------------------------------


@dataclass
class State:
    name: str


@asynccontextmanager
async def lifespan(app: Holdfast) -> AsyncIterator[State]:
    yield State(repr(app))


@asynccontextmanager
async def without_app() -> AsyncIterator[State]:
    yield State("")


working = Holdfast(
    "sqlite://",
    lifespan=lifespan,
    on_error="fatal",
    worker=WorkerSettings(concurrency=4, embedded_lease="30s", poll=0.5),
)
Holdfast("sqlite://", lifespan=without_app)  # E: arg-type
Holdfast("sqlite://", on_error="ignore")  # E: arg-type
WorkerSettings(concurrency="many")  # E: arg-type
WorkerSettings(leases="30s")  # E: call-arg


@working.task(executor="process", on_error="retry", retry_on=[OSError, TimeoutError], fatal_on=LookupError)
async def with_state(ctx: Context[State], number: int) -> str:
    assert_type(ctx.state, State)
    assert_type(ctx.cancelled, bool)
    assert_type(await ctx.progress(50, "half way", done=3), None)
    ctx.log.info("%d", number)
    assert_type(ctx.state.missing, Any)  # E: attr-defined
    await ctx.progress("half")  # E: arg-type
    return ctx.state.name


@working.task
def in_a_thread(ctx: Context[State]) -> str:
    ctx.progress(50)
    with ctx.transaction() as tx:
        tx.connection.execute("SELECT 1")
        tx.result = 3
    return ctx.state.name


@working.task
async def in_a_transaction(ctx: Context) -> None:
    assert_type(ctx.state, object)  # to be used it has to be named: Context[State]
    async with ctx.transaction() as tx:
        await tx.connection.execute("SELECT 1")
        tx.result = {"any": "thing"}
        tx.connection = None  # E: misc


working.task(executor="thread")  # E: call-overload
working.task(on_error="ignore")  # E: call-overload
working.task(retry_on=[3])  # E: list-item


@working.around
async def logged(ctx: Context, call: Callable[[], Awaitable[Any]]) -> Any:
    return await call()


@working.around  # E: type-var
async def wrong(call: Callable[[], Awaitable[Any]]) -> Any:
    return await call()


def outcomes(which: int) -> None:
    for outcome in (Retry(), Retry("5m", "reason"), Fatal("reason"), Snooze(60), Cancel("reason"), Skip("reason")):
        assert_type(outcome.reason, str)
    Snooze()  # E: call-arg
    Retry(object())  # E: arg-type
    raise Retry(which)


async def work() -> None:
    assert_type(await with_state.enqueue(number=1), JobHandle[str])
    await with_state.enqueue("1")  # E: arg-type
    await working.run_worker(queues=["high"], concurrency=2, until="empty", stop=asyncio.Event())
    await working.run_worker(until=3)  # E: arg-type
    with working.worker_thread(concurrency=2) as worker:
        assert_type(worker.is_running, bool)
