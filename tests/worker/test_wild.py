"""Handlers that do what no handler should: the worker lives, the slot comes back, the job is in the right state."""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Fatal, Holdfast, JobHandle, JobState, Task
from tests.support import raw
from tests.support.sizes import size
from tests.support.wait import PATIENCE_S, until
from tests.support.workers import MakeApp, drained, ended, ran, working

WILD: dict[str, Callable[[], Any]] = {
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "CancelledError": asyncio.CancelledError,
    "StopIteration": lambda: StopIteration(1),
    "StopAsyncIteration": StopAsyncIteration,
    "GeneratorExit": GeneratorExit,
    "MemoryError": MemoryError,
    "RecursionError": RecursionError,
}


def wild(name: str) -> BaseException:
    """Make one of them anew."""
    error: BaseException = WILD[name]()
    return error


@pytest.mark.parametrize("name", WILD)
async def test_whatever_a_handler_raises_is_a_failed_attempt(app: Holdfast, name: str) -> None:
    @app.task
    async def on_the_loop() -> None:
        raise wild(name)

    @app.task
    async def after_a_wait() -> None:
        await asyncio.sleep(0)
        raise wild(name)

    @app.task
    def in_a_thread() -> None:
        raise wild(name)

    @app.task
    async def good() -> str:
        return "fine"

    both = asyncio.Barrier(2)

    @app.task
    async def meet() -> None:
        await both.wait()

    async with working(app, concurrency=2) as work:
        tasks = (on_the_loop, after_a_wait, in_a_thread)
        handles = [await task.enqueue() for _ in range(size(3, 20)) for task in tasks]
        assert (await ended(await good.enqueue())).result == "fine"
        for handle in handles:
            await until(lambda: work.running == 0, "all have ended")
            job = await handle.get()
            assert (job.state, job.attempt) == (JobState.SCHEDULED, 1)
            expected = {"RuntimeError", name, f"asyncio.exceptions.{name}"}  # no coroutine can raise StopIteration
            assert job.error_class in expected
        for handle in [await meet.enqueue() for _ in range(2)]:
            assert (await ended(handle)).state is JobState.COMPLETED, "both slots are free"


# ---- forks -----------------------------------------------------------------------------------------------------------


async def children_are_gone(folder: Path) -> None:
    """Wait for every process that handlers have forked."""
    pids = [int(path.name) for path in folder.iterdir()]
    assert pids

    def gone() -> bool:
        for pid in list(pids):
            if os.waitpid(pid, os.WNOHANG)[0]:
                pids.remove(pid)
        return not pids

    await until(gone, "the copies have ended")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # Python warns of what is tried here
@pytest.mark.parametrize("how", ["on the loop", "after a wait", "in a thread", "raising"])
async def test_the_copy_of_a_forked_worker_finishes_nothing(app: Holdfast, tmp_path: Path, how: str) -> None:
    folder = tmp_path / "children"
    folder.mkdir()

    def fork() -> str:
        pid = os.fork()
        if pid:
            (folder / str(pid)).touch()
            return "the original"
        return "the copy"

    @app.task
    async def on_the_loop() -> str:
        return fork()

    @app.task
    async def after_a_wait() -> str:
        who = fork()
        await asyncio.sleep(0)  # the copy gets no further than here
        if who == "the copy":
            (folder.parent / "went on").touch()
        return who

    @app.task
    def in_a_thread() -> str:
        return fork()

    @app.task
    async def raising() -> str:
        if (who := fork()) == "the copy":
            raise SystemExit(who)
        return who

    tasks: dict[str, Task[[], str]] = {
        "on the loop": on_the_loop,
        "after a wait": after_a_wait,
        "in a thread": in_a_thread,
        "raising": raising,
    }

    @app.task
    async def good() -> str:
        return "fine"

    async with working(app, concurrency=2) as work:
        handles = [await tasks[how].enqueue() for _ in range(size(3, 20))]
        handles += [await good.enqueue() for _ in range(20)]
        jobs = [await ended(handle) for handle in handles]
        await children_are_gone(folder)
        assert [job.result for job in jobs] == ["the original"] * (len(jobs) - 20) + ["fine"] * 20
        assert [job.claim for job in jobs] == [1] * len(jobs)
        assert not (tmp_path / "went on").exists()
        await until(lambda: work.running == 0, "all have ended")
        assert work.refused == 0


# ---- what belongs to the whole process -------------------------------------------------------------------------------


async def test_a_changed_folder_and_changed_signal_handlers_hurt_nobody(app: Holdfast, tmp_path: Path) -> None:
    before, handler = Path.cwd(), signal.getsignal(signal.SIGTERM)
    elsewhere = tmp_path / "gone"

    @app.task
    async def change() -> None:
        elsewhere.mkdir(exist_ok=True)
        os.chdir(elsewhere)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        elsewhere.rmdir()

    @app.task
    def good() -> str:
        return "fine"

    try:
        first, second = await change.enqueue(), await good.enqueue()
        async with working(app, concurrency=1):
            assert (await ended(first)).state is JobState.COMPLETED
            assert (await ended(second)).result == "fine"
            assert (await ended(await good.enqueue())).result == "fine"
    finally:
        os.chdir(before)
        signal.signal(signal.SIGTERM, handler)


async def test_an_embedded_worker_touches_no_signal_handler(app: Holdfast) -> None:
    numbers = [signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP]
    before = [signal.getsignal(number) for number in numbers]

    @app.task
    async def look() -> list[bool]:
        return [signal.getsignal(number) is kept for number, kept in zip(numbers, before, strict=True)]

    handle = await look.enqueue()
    await drained(app)
    assert await handle.result(PATIENCE_S) == [True] * 4


async def test_closing_the_loop_is_refused_and_the_worker_goes_on(memory_app: Holdfast) -> None:
    @memory_app.task
    async def close() -> None:
        asyncio.get_running_loop().close()

    @memory_app.task
    async def cancel_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.Event().wait()

    @memory_app.task
    async def good() -> str:
        return "fine"

    handles = [await close.enqueue(), await cancel_itself.enqueue(), await good.enqueue()]
    closed, cancelled, fine = await ran(memory_app, *handles)
    assert (closed.state, closed.error_class) == (JobState.SCHEDULED, "RuntimeError")
    assert cancelled.state in {JobState.SCHEDULED, JobState.QUEUED, JobState.COMPLETED}
    assert fine.result == "fine"


async def test_a_thousand_tasks_and_threads_left_behind(memory_app: Holdfast) -> None:
    release, stop = asyncio.Event(), threading.Event()
    left: list[asyncio.Task[Any]] = []
    threads: list[threading.Thread] = []

    @memory_app.task
    async def leave_tasks() -> None:
        left.extend(asyncio.create_task(release.wait()) for _ in range(1_000))

    @memory_app.task
    def leave_threads() -> None:
        for _ in range(size(100, 1_000)):
            threads.append(threading.Thread(target=stop.wait, daemon=True))
            threads[-1].start()

    @memory_app.task
    async def good(number: int) -> int:
        return number

    try:
        handles: list[JobHandle[Any]] = [await leave_tasks.enqueue(), await leave_threads.enqueue()]
        handles += [await good.enqueue(number) for number in range(20)]
        jobs = await ran(memory_app, *handles)
    finally:
        release.set()
        stop.set()
        await asyncio.gather(*left)
        for thread in threads:
            thread.join()
    assert {job.state for job in jobs} == {JobState.COMPLETED}
    assert [job.result for job in jobs[2:]] == list(range(20))


# ---- errors that cannot be described ---------------------------------------------------------------------------------


class BrokenText(Exception):
    """An exception that cannot say what it is."""

    def __str__(self) -> str:
        message = "even this fails"
        raise ValueError(message)

    __repr__ = __str__


class BrokenGroup(ExceptionGroup[Exception]):
    """A group that cannot be looked into."""

    @property
    def exceptions(self) -> tuple[Exception | ExceptionGroup[Exception], ...]:
        message = "do not look"
        raise ZeroDivisionError(message)


def _deep() -> BaseException:
    error: Exception = ValueError("the innermost")
    for _ in range(1_000):
        error = ExceptionGroup("deeper", [error])
    return error


def _cyclic() -> BaseException:
    one, two = ValueError("one"), KeyError("two")
    one.__cause__, two.__cause__ = two, one
    return one


HOSTILE: dict[str, Callable[[], BaseException]] = {
    "nul": lambda: ValueError("a\x00b"),
    "surrogate": lambda: ValueError("a\ud800b"),
    "terminal": lambda: ValueError("\x1b]0;owned\x07\x1b[31m\x9b2J"),
    "bytes": lambda: ValueError(b"\xff\x00"),
    "huge": lambda: ValueError("x" * size(5_000_000, 50_000_000)),
    "broken text": BrokenText,
    "broken group": lambda: BrokenGroup("odd", [ValueError()]),
    "deep group": _deep,
    "cyclic cause": _cyclic,
    "hostile outcome": lambda: Fatal("a\x00b\ud800"),
    "hostile name": lambda: type("A\x00\ud800" + "x" * 500, (Exception,), {})("odd"),
    "no arguments": Exception,
}


def hostile(which: str) -> BaseException:
    """Make one of them anew."""
    return HOSTILE[which]()


@pytest.mark.parametrize("is_last", [False, True], ids=["first", "last"])
async def test_a_failure_can_always_be_recorded(app: Holdfast, is_last: bool) -> None:
    @app.task(max_attempts=1 if is_last else 5)
    async def on_the_loop(which: str) -> None:
        raise hostile(which)

    @app.task(max_attempts=1 if is_last else 5)
    def in_a_thread(which: str) -> None:
        raise hostile(which)

    handles = {
        (task.kind, which): await task.enqueue(which) for task in (on_the_loop, in_a_thread) for which in HOSTILE
    }
    await drained(app)
    for (kind, which), handle in handles.items():
        job = await handle.get()
        is_final = is_last or which == "hostile outcome"
        assert job.state is (JobState.FAILED if is_final else JobState.SCHEDULED), (kind, which)
        assert job.error is not None
        assert len(job.error.encode()) <= 1_000
        assert "\x00" not in job.error
        assert job.error_class


# ---- jobs that cannot run --------------------------------------------------------------------------------------------


async def test_a_job_of_an_unknown_kind_is_given_back_for_thirty_seconds(
    make_shared_app: MakeApp, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = make_shared_app(), make_shared_app()

    @old.task
    async def known() -> str:
        return "fine"

    @new.task
    async def added_later() -> str:
        return "by the new worker"

    async with old, new:
        await _given_back(old, new, await added_later.enqueue(), await known.enqueue(), caplog)


async def _given_back(
    old: Holdfast,
    new: Holdfast,
    handle: JobHandle[str],
    good: JobHandle[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        (job, fine) = await ran(old, handle, good)
    assert (job.state, job.attempt, job.claim) == (JobState.SCHEDULED, 0, 1)
    assert (job.run_at - job.attempts[-1].finished_at).total_seconds() == 30
    assert fine.result == "fine"
    assert f"job {job.id} was requeued for 30 s" in caplog.text
    assert "added_later" in caplog.text
    await new.jobs.reschedule(job.id, delay=0)
    (job,) = await ran(new, handle)
    assert (job.state, job.attempt, job.result) == (JobState.COMPLETED, 1, "by the new worker")


BAD_ARGUMENTS = ('{"number": "many"}', '{"other": 1}', "{}", '{"number": 1, "more": 2}', '{"number": null}')


async def test_one_bad_row_among_many_fails_alone(app: Holdfast) -> None:
    done: list[int] = []

    @app.task
    async def keep(number: int) -> int:
        done.append(number)
        return number

    good = size(50, 995)
    handles = await app.enqueue_many(keep.call(number) for number in range(good))
    bad = await app.enqueue_many(keep.call(-1) for _ in BAD_ARGUMENTS)
    for handle, payload in zip(bad, BAD_ARGUMENTS, strict=True):
        await raw.execute(app.store, f"UPDATE holdfast.jobs SET payload = '{payload}' WHERE id = {handle.number}")
    await drained(app)
    assert sorted(done) == list(range(good))
    assert {(await handle.get()).state for handle in handles} == {JobState.COMPLETED}
    for handle in bad:
        job = await handle.get()
        assert (job.state, job.attempt, job.started_at) == (JobState.FAILED, 1, None)
        assert job.error_class == "holdfast.errors.ArgumentError"
