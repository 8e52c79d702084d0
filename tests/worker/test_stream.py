"""Events as a stream for web pages: nothing twice, nothing lost without `reset`, and nothing left behind."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, cast

import msgspec
import pytest
from pydantic import SecretStr

from holdfast import Context, Fatal, Holdfast, JobHandle, JobState, Task, stream
from holdfast.client.watching import REMEMBERED, Watching
from holdfast.errors import StoreError
from holdfast.events import EventType
from holdfast.stream import MOST_SHOWN, EventResponse, EventStream
from holdfast.telemetry import redaction
from tests.support.sizes import size
from tests.support.wait import PATIENCE_S, until
from tests.support.workers import drained, working

Work = Task[[int], None]
Message = MutableMapping[str, Any]


class Frame(msgspec.Struct):
    """One server-sent event."""

    event: str
    data: dict[str, Any]
    id: str | None = None

    @property
    def job(self) -> str:
        """The job it is about."""
        return str(self.data["id"])


def read_all(chunk: bytes) -> list[Frame]:
    """Read what was written at once, as a browser does."""
    assert chunk.endswith(b"\n\n")
    frames = []
    for text in chunk.decode().removesuffix("\n\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in text.split("\n"))
        assert set(fields) <= {"id", "event", "data"}
        frames.append(Frame(fields["event"], msgspec.json.decode(fields["data"]), fields.get("id")))
    return frames


def read(chunk: bytes) -> Frame:
    """Read what is one frame."""
    (frame,) = read_all(chunk)
    return frame


class Page:
    """A page that is open in a browser."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._frames: deque[Frame] = deque()
        self.last_id: str | None = None

    async def take(self) -> Frame:
        """Take the next frame."""
        while not self._frames:
            async with asyncio.timeout(PATIENCE_S):
                self._frames.extend(read_all(await anext(self._chunks)))
        frame = self._frames.popleft()
        self.last_id = frame.id or self.last_id
        return frame

    async def frames(self, count: int) -> list[Frame]:
        """Take some frames."""
        return [await self.take() for _ in range(count)]


@asynccontextmanager
async def opened(app: Holdfast, **options: Any) -> AsyncIterator[Page]:
    """Open a page; leaving the block closes it."""
    stream = cast("Any", EventStream(app.client, **options).__aiter__())
    async with aclosing(stream) as chunks:
        yield Page(chunks)


@pytest.fixture
def work(app: Holdfast) -> Work:
    """Give a task that does nothing."""

    @app.task
    async def work(number: int) -> None: ...

    return work


def inside(app: Holdfast) -> tuple[set["asyncio.Task[Any]"], int]:
    """Everything that a client may leave behind: tasks, and subscriptions."""
    return asyncio.all_tasks(), app.client.watching.watchers


# ---- what comes ------------------------------------------------------------------------------------------------------


async def test_a_snapshot_comes_first_and_then_what_happens(app: Holdfast, work: Work) -> None:
    waiting = await work.enqueue(1)
    async with opened(app, types=["job:started", "job:completed"]) as page:
        first = await page.take()
        assert (first.event, [job["id"] for job in first.data["jobs"]]) == ("snapshot", [waiting.id])
        assert first.data["jobs"][0]["state"] == JobState.QUEUED
        assert first.id is not None
        await drained(app)
        started, completed = await page.frames(2)
    assert (started.event, completed.event) == (EventType.STARTED, EventType.COMPLETED)
    said = (completed.job, completed.data["state"], completed.data["kind"])
    assert said == (waiting.id, JobState.COMPLETED, "work")


async def test_a_snapshot_shows_the_job_that_was_asked_for_or_a_limited_number(app: Holdfast, work: Work) -> None:
    handles = await app.enqueue_many(work.call(number) for number in range(MOST_SHOWN + 5))
    async with opened(app, job=handles[3].id) as page:
        assert [job["id"] for job in (await page.take()).data["jobs"]] == [handles[3].id]
    async with opened(app) as page:
        assert len((await page.take()).data["jobs"]) == MOST_SHOWN
    async with opened(app, snapshot=False, types=["job:cancelled"], ping_s=0.1) as page:
        assert (await page.take()).event == "ping"  # a stream hears of what happens after its first frame was asked for
        await handles[0].cancel()
        while (frame := await page.take()).event == "ping":
            pass
    assert frame.event == EventType.CANCELLED


async def test_a_quiet_stream_pings(app: Holdfast, work: Work) -> None:
    async with opened(app, snapshot=False, ping_s=0.01) as page:
        assert [frame.event for frame in await page.frames(2)] == ["ping", "ping"]
        handle = await work.enqueue(1)
        frame = await page.take()
        while frame.event == "ping":
            assert frame.id is None
            frame = await page.take()
        assert frame.job == handle.id


async def test_a_busy_stream_pings_too_and_ends_when_the_check_says_no(memory_app: Holdfast) -> None:
    """However much happens: whoever may look no more sees at most what happens until the next ping."""

    @memory_app.task
    async def work(number: int) -> None: ...

    asked, answers = [], [True, True, False]

    async def check() -> bool:
        asked.append(len(seen))
        return answers[len(asked) - 1]

    seen: list[str] = []
    async with opened(memory_app, snapshot=False, ping_s=0.3, check=check) as page:
        with suppress(StopAsyncIteration):
            while len(asked) < 4:
                await work.enqueue(len(seen))
                seen.append((await page.take()).event)
    assert len(asked) == 3
    assert seen.count("ping") == 2
    assert seen.count("job:enqueued") > 2


async def test_what_happens_together_is_written_together_and_never_too_much_at_once(memory_app: Holdfast) -> None:
    @memory_app.task
    async def work(number: int) -> None: ...

    quiet = cast("Any", EventStream(memory_app.client, snapshot=False, ping_s=0.5).__aiter__())
    async with aclosing(quiet) as chunks:
        assert read(await anext(chunks)).event == "ping"
        handles = await memory_app.enqueue_many(work.call(number) for number in range(900))
        await until(lambda: memory_app.client.watching.number == 900, "all is heard of")
        sizes: list[int] = []
        jobs: list[str] = []
        while len(jobs) < len(handles):
            chunk = await anext(chunks)
            sizes.append(len(chunk))
            jobs += [frame.job for frame in read_all(chunk) if frame.event != "ping"]
    assert jobs == [handle.id for handle in handles]
    assert len(sizes) < 20
    assert max(sizes) < 66_000


async def test_secrets_are_covered_in_events_and_snapshots(memory_app: Holdfast) -> None:
    redaction.keep(["hunter22-of-the-database"])

    @memory_app.task(max_attempts=1)
    async def leak(ctx: Context, key: SecretStr) -> None:
        await ctx.progress(10, "dialled hunter22-of-the-database", key=key, at=["hunter22-of-the-database"])
        message = f"refused {key.get_secret_value()} and hunter22-of-the-database"
        raise Fatal(message)

    async with opened(memory_app) as page:
        await page.take()
        handle = await leak.enqueue(SecretStr("hunter22-of-the-user"))
        await drained(memory_app)
        frames = [await page.take()]
        while frames[-1].event != EventType.FAILED:
            frames.append(await page.take())
    async with opened(memory_app, job=handle.id) as page:
        frames.append(await page.take())
    written = msgspec.json.encode(frames).decode()
    assert "refused" in written
    assert "dialled" in written
    assert "hunter22" not in written


async def test_closing_the_app_ends_the_stream(memory_app: Holdfast) -> None:
    async with opened(memory_app) as page:
        await page.take()
        await memory_app.client.watching.close()
        with pytest.raises(StopAsyncIteration):
            await page.take()


# ---- cut off ---------------------------------------------------------------------------------------------------------


async def test_who_comes_back_gets_what_came_meanwhile_and_nothing_twice(app: Holdfast, work: Work) -> None:
    async with opened(app) as page:
        await page.take()
        before = [await work.enqueue(number) for number in range(3)]
        assert [frame.job for frame in await page.frames(3)] == [handle.id for handle in before]
    missed = [await work.enqueue(number) for number in range(5)]
    await until(lambda: app.client.watching.number >= 8, "all are heard of")
    async with opened(app, last_event_id=page.last_id) as again:
        assert [frame.job for frame in await again.frames(5)] == [handle.id for handle in missed]
        last = await work.enqueue(9)
        assert (await again.take()).job == last.id


async def test_who_was_cut_off_before_the_first_event_comes_back_to_the_snapshot(app: Holdfast, work: Work) -> None:
    async with opened(app) as page:
        await page.take()
    handle = await work.enqueue(1)
    async with opened(app, last_event_id=page.last_id) as again:
        assert (await again.take()).job == handle.id


async def test_what_happens_while_the_snapshot_is_read_is_not_taken_for_a_part_of_it(
    app: Holdfast, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshot was read before: whoever is cut off right behind it must still hear of what it does not show."""
    store: Any = app.store
    list_jobs = store.list_jobs
    created: list[JobHandle[None]] = []

    async def slowly(*args: Any, **kwargs: Any) -> Any:
        found = await list_jobs(*args, **kwargs)
        if not created:
            created.append(await work.enqueue(1))
            await until(lambda: app.client.watching.number >= 1, "it is heard of")
        return found

    monkeypatch.setattr(store, "list_jobs", slowly)
    async with opened(app) as page:
        assert (await page.take()).data["jobs"] == []
    async with opened(app, last_event_id=page.last_id) as again:
        await work.enqueue(2)
        assert (await again.take()).job == created[0].id


IDS: dict[str, Callable[[Watching], str]] = {
    "foreign": lambda watching: f"0123456789ab-{watching.number}",
    "future": lambda watching: watching.id_of(watching.number + 1),
    "garbage": lambda _: "garbage",
    "empty": lambda _: "",
    "negative": lambda watching: f"{watching.epoch}--1",
    "no number": lambda watching: f"{watching.epoch}-",
    "odd digit": lambda watching: f"{watching.epoch}-²",
    "huge": lambda watching: f"{watching.epoch}-{'9' * 5_000}",
    "nul": lambda watching: f"{watching.epoch}-\x001",
}


@pytest.mark.parametrize("which", IDS)
async def test_an_id_that_is_not_known_here_gives_reset_and_a_snapshot(memory_app: Holdfast, which: str) -> None:
    @memory_app.task
    async def work(number: int) -> None: ...

    await work.enqueue(1)
    async with memory_app.events():
        last_event_id = IDS[which](memory_app.client.watching)
        async with opened(memory_app, last_event_id=last_event_id) as page:
            reset, snapshot = await page.frames(2)
            assert (reset.event, reset.data, reset.id) == ("reset", {}, None)
            assert (snapshot.event, len(snapshot.data["jobs"])) == ("snapshot", 1)


async def test_an_id_that_is_too_old_gives_reset(memory_app: Holdfast) -> None:
    @memory_app.task
    async def work(number: int) -> None: ...

    async with opened(memory_app) as page:
        await page.take()
        for _ in range(REMEMBERED // 1_000 + 1):
            await memory_app.enqueue_many(work.call(number) for number in range(1_000))
        await until(lambda: memory_app.client.watching.number > REMEMBERED, "they are heard of")
    assert page.last_id is not None
    async with opened(memory_app, last_event_id=page.last_id) as again:
        assert [frame.event for frame in await again.frames(2)] == ["reset", "snapshot"]


async def test_a_reader_that_began_anew_resets_whoever_comes_back(memory_app: Holdfast) -> None:
    memory_app.client.watching = Watching(memory_app.store, linger_s=0.0)
    async with opened(memory_app) as page:
        await page.take()
    await until(lambda: not memory_app.client.watching.is_reading, "the reader has left")
    async with opened(memory_app, last_event_id=page.last_id, snapshot=False) as again:
        assert (await again.take()).event == "reset"


async def test_a_client_that_is_cut_again_and_again_misses_nothing_and_sees_nothing_twice(
    app: Holdfast, work: Work
) -> None:
    events, between = size(300, 1_000), size(20, 200)
    seen: list[str] = []
    last_id: str | None = None

    async def enqueue() -> list[str]:
        return [(await work.enqueue(number)).id for number in range(events)]

    async with opened(app) as page:  # from before the first event
        last_id = (await page.take()).id
    enqueuing = asyncio.create_task(enqueue())
    while len(seen) < events:
        async with opened(app, last_event_id=last_id) as page:
            seen += [frame.job for frame in await page.frames(min(between, events - len(seen)))]
            last_id = page.last_id
    assert seen == await enqueuing  # nor is there a `reset`: it never was behind by more than is remembered


# ---- many clients ----------------------------------------------------------------------------------------------------


async def test_clients_that_come_and_go_leave_nothing_behind(app: Holdfast, work: Work) -> None:
    async with app.events():  # so that the reader is there before and after
        before = inside(app)

        async def come_and_go(number: int) -> None:
            if number % 3 == 0:  # it reads one frame, and is cut off in the middle of the next
                async with opened(app, last_event_id="garbage" if number % 2 else None) as page:
                    await page.take()
            else:  # its request is cancelled, before or after the first frame
                stream = EventStream(app.client)
                reading = asyncio.create_task(_read_for_ever(stream))
                for _ in range(number % 7):
                    await app.jobs.counts()
                reading.cancel()
                await asyncio.wait([reading])

        await asyncio.gather(*(come_and_go(number) for number in range(size(40, 200))))
        await work.enqueue(1)
        await until(lambda: inside(app) == before, "nothing is left")


async def _read_for_ever(stream: EventStream) -> None:
    async for _ in stream:
        pass


async def test_clients_that_never_read_keep_no_job_from_finishing(app: Holdfast, work: Work) -> None:
    before = app.client.watching.watchers
    pages = [cast("Any", EventStream(app.client).__aiter__()) for _ in range(size(40, 200))]
    for page in pages:
        assert read(await anext(page)).event == "snapshot"
    rounds = size(2, 10)
    for _ in range(rounds):
        handles = await app.enqueue_many(work.call(number) for number in range(400))
        await drained(app)
        assert (await handles[-1].get()).state is JobState.COMPLETED
    await until(lambda: app.client.watching.number == rounds * 1_200, "all is heard of")
    assert app.client.watching.watchers == before + len(pages)
    for page in pages:
        assert read(await anext(page)).event == "reset"
        await page.aclose()
    assert app.client.watching.watchers == before


# ---- ASGI ------------------------------------------------------------------------------------------------------------


class Browser:
    """The other end of an ASGI response."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.leaves = asyncio.Event()
        self.takes = asyncio.Event()
        self.takes.set()
        self.error: Exception | None = None
        self.is_stuck = False

    async def receive(self) -> Message:
        """Tell of the request once, and of its end."""
        if not self.sent:
            return {"type": "http.request"}
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take what is sent."""
        self.is_stuck = not self.takes.is_set()
        await self.takes.wait()
        if self.error is not None and message["type"] == "http.response.body":
            raise self.error
        self.sent.append(message)

    @property
    def frames(self) -> list[Frame]:
        """What came so far."""
        return [frame for message in self.sent[1:] if message["more_body"] for frame in read_all(message["body"])]


def respond(app: Holdfast, browser: Browser, **headers: str) -> "asyncio.Task[None]":
    """Answer a request."""
    response = EventResponse(EventStream(app.client), headers)
    return asyncio.create_task(response({"type": "http"}, browser.receive, browser.send))


async def test_a_response_streams_until_the_client_leaves(app: Holdfast, work: Work) -> None:
    async with app.events():
        before, browser = inside(app), Browser()
        responding = respond(app, browser, **{"X-Own": "yes"})
        async with working(app):
            await until(lambda: len(browser.frames) == 1, "the snapshot has come")
            await work.enqueue(1)
            await until(lambda: len(browser.frames) == 4, "all has come")
        browser.leaves.set()
        await asyncio.wait_for(responding, PATIENCE_S)
        await until(lambda: inside(app) == before, "nothing is left")
    start = browser.sent[0]
    assert (start["type"], start["status"]) == ("http.response.start", 200)
    assert dict(start["headers"]) == {
        b"content-type": b"text/event-stream; charset=utf-8",
        b"cache-control": b"no-store",
        b"x-accel-buffering": b"no",
        b"x-own": b"yes",
    }
    assert all(message["more_body"] for message in browser.sent[1:])
    assert [frame.event for frame in browser.frames][1:] == ["job:enqueued", "job:started", "job:completed"]


@pytest.mark.parametrize("error", [BrokenPipeError("gone"), ConnectionResetError("gone"), RuntimeError("a bug"), None])
async def test_a_client_that_cannot_be_written_to_is_let_go(memory_app: Holdfast, error: Exception | None) -> None:
    @memory_app.task
    async def work() -> None: ...

    async with memory_app.events():
        before, browser = inside(memory_app), Browser()
        responding = respond(memory_app, browser)
        await until(lambda: len(browser.frames) == 1, "the snapshot has come")
        browser.error = error
        if error is None:  # it stops reading, and leaves while something is being sent
            browser.takes.clear()
        await work.enqueue()
        if error is None:
            await until(lambda: browser.is_stuck, "it does not read")
            browser.leaves.set()
        await asyncio.wait([responding], timeout=PATIENCE_S)
        assert responding.exception() is (error if isinstance(error, RuntimeError) else None)
        await until(lambda: inside(memory_app) == before, "nothing is left")


async def test_a_response_ends_properly_when_the_app_is_closed(memory_app: Holdfast) -> None:
    browser = Browser()
    responding = respond(memory_app, browser)
    await until(lambda: len(browser.frames) == 1, "the snapshot has come")
    await memory_app.client.watching.close()
    await asyncio.wait_for(responding, PATIENCE_S)
    last = browser.sent[-1]
    assert re.fullmatch(rb"retry: \d+\n\n", last["body"])
    assert not last["more_body"]


async def test_a_response_ends_when_it_is_told_to_even_if_nobody_reads(memory_app: Holdfast) -> None:
    """A web server that stops waits for its responses: those of clients that take nothing must not hold it up."""
    until_then, reader, stuck = asyncio.get_running_loop().create_future(), Browser(), Browser()
    async with memory_app.events():
        before = inside(memory_app)
        responding = [
            asyncio.create_task(response({"type": "http"}, browser.receive, browser.send))
            for browser in (reader, stuck)
            for response in [EventResponse(EventStream(memory_app.client), until=until_then)]
        ]
        await until(lambda: len(reader.frames) == len(stuck.frames) == 1, "both have the snapshot")
        stuck.takes.clear()
        until_then.set_result(None)
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*responding)
        await until(lambda: {task for task in inside(memory_app)[0] if task not in responding} == before[0], "no more")
    assert re.fullmatch(rb"retry: \d+\n\n", reader.sent[-1]["body"])
    assert len(stuck.sent) == 2


async def test_a_client_that_takes_nothing_for_long_is_given_up(
    memory_app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "WRITE_S", 0.01)

    @memory_app.task
    async def work() -> None: ...

    async with memory_app.events():
        before, browser = inside(memory_app), Browser()
        responding = respond(memory_app, browser)
        await until(lambda: len(browser.frames) == 1, "the snapshot has come")
        browser.takes.clear()
        await work.enqueue()
        await asyncio.wait_for(responding, PATIENCE_S)
        await until(lambda: inside(memory_app) == before, "nothing is left")


async def test_a_store_that_is_away_ends_a_response_properly(
    memory_app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any, **__: Any) -> None:
        message = "the store is away"
        raise StoreError(message)

    monkeypatch.setattr(memory_app.client.jobs, "list", away)
    browser = Browser()
    await asyncio.wait_for(respond(memory_app, browser), PATIENCE_S)
    assert [message.get("more_body") for message in browser.sent] == [None, False]
