"""Handlers in processes of their own: `executor="process"`."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import ConfigError, Holdfast, JobState
from holdfast.worker import marks
from tests.support import raw
from tests.support.effects import Effects
from tests.support.wait import until
from tests.support.workers import MakeApp, drained, ended, ran, until_state, working
from tests.worker import errands

MakeErrands = Callable[[], Any]


@pytest.fixture
def no_leftovers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the search path be as before when the test is over."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


@pytest.fixture
async def module(make_shared_app: MakeApp, tmp_path: Path, no_leftovers: None) -> AsyncIterator[Any]:
    """Give the module of errands on each store that other processes can reach, its app open."""
    settings = make_shared_app().config
    found: Any = errands.write(tmp_path, settings.url, settings.schema, os.getpid())
    async with found.app:
        yield found


@pytest.fixture
async def in_memory(tmp_path: Path, no_leftovers: None) -> AsyncIterator[Any]:
    """Give the module of errands with an app in memory, for what no store decides."""
    found: Any = errands.write(tmp_path, "sqlite://", "holdfast", os.getpid())
    async with found.app:
        yield found


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


# ---- what comes back -------------------------------------------------------------------------------------------------


async def test_results_states_and_context_variables_come_from_another_process(module: Any) -> None:
    handles = [await module.add.enqueue(1, 2), await module.add_in_a_thread.enqueue(3, 4)]
    handles.append(await module.Steps(n=5).enqueue())
    one, two, steps = await ran(module.app, *handles)
    for job, total, kind in ((one, 3, "add"), (two, 7, "add_in_a_thread")):
        assert job.state is JobState.COMPLETED, job.error
        assert job.result["sum"] == total
        assert job.result["pid"] == job.result["state"] != os.getpid()
        assert job.result["tenant"] == f"tenant of {kind}"
        assert job.started_at is not None
    assert steps.result[0] == 6
    assert steps.result[1] != os.getpid()


async def test_what_is_enqueued_in_another_process_names_its_parent(module: Any) -> None:
    (job,) = await ran(module.app, await module.ask_others.enqueue())
    assert (await module.app.jobs.get(job.result)).parent == job.id, job.error


async def test_outcomes_pass_through_the_pipe(in_memory: Any) -> None:
    ways = ("raise", "fatal", "snooze", "cancel", "exit", "skip", "group")
    jobs = await ran(in_memory.app, *[await in_memory.fail.enqueue(how) for how in ways])
    found = {how: (job.state, job.attempt, job.error) for how, job in zip(ways, jobs, strict=True)}
    assert found == {
        "raise": (JobState.SCHEDULED, 1, "no such thing"),
        "fatal": (JobState.FAILED, 1, "give up"),
        "snooze": (JobState.SCHEDULED, 0, None),
        "cancel": (JobState.CANCELLED, 1, "unwanted"),
        "exit": (JobState.SCHEDULED, 1, "3"),
        "skip": (JobState.COMPLETED, 1, None),
        "group": (JobState.FAILED, 1, "give up"),
    }
    assert jobs[5].progress is not None
    assert jobs[5].progress.message == "skipped: nothing new"
    assert all(job.crashes == 0 for job in jobs)
    assert "errands_" in (jobs[0].attempts[0].traceback or "")


async def test_results_that_cannot_be_kept_fail_the_job(in_memory: Any) -> None:
    jobs = await ran(in_memory.app, *[await in_memory.odd_result.enqueue(which) for which in ("object", "huge", "nan")])
    assert {(job.state, job.attempt) for job in jobs} == {(JobState.FAILED, 1)}
    assert all("the result of odd_result" in (job.error or "") for job in jobs)


async def test_progress_passes_through_the_pipe_and_the_last_one_is_kept(in_memory: Any) -> None:
    """Each process does one job after the other: a report must not arrive with the next one's."""
    app = in_memory.app
    async with working(app, concurrency=1):
        for task in (in_memory.report, in_memory.report_in_a_thread):
            reporting, quiet = await task.enqueue(200), await in_memory.add.enqueue(1, 1)
            job, other = await ended(reporting), await ended(quiet)
            assert (job.state, job.progress is None) == (JobState.COMPLETED, False)
            progress: Any = job.progress
            assert (progress.percent, progress.data) == (100, {"number": 200})
            assert progress.message.startswith("step 200")
            assert (other.result["sum"], other.progress) == (2, None)
        assert (await ended(await in_memory.report_badly.enqueue())).result == "ArgumentError"


async def test_a_process_is_used_again(in_memory: Any) -> None:
    app = in_memory.app
    async with working(app, concurrency=2):
        pids = [(await ended(await in_memory.add.enqueue(1, number))).result["pid"] for number in range(5)]
        assert len(set(pids)) == 1
        assert is_alive(pids[0])
    assert not is_alive(pids[0])


async def test_an_import_that_fails_elsewhere_is_a_failed_attempt(
    in_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ERRANDS_BROKEN", "1")
    async with working(in_memory.app, concurrency=1):
        handles = [await in_memory.add.enqueue(1, 2) for _ in range(3)]
        jobs = [await until_state(handle, JobState.SCHEDULED) for handle in handles]
        for job in jobs:
            assert (job.attempt, job.crashes, job.error_class) == (1, 0, "ImportError")
            assert job.error == "this module cannot be imported elsewhere"
        monkeypatch.delenv("ERRANDS_BROKEN")
        assert (await ended(await in_memory.add.enqueue(1, 2))).result["sum"] == 3


async def test_a_task_that_nobody_else_can_find_is_refused_before_anything_is_claimed(memory_app: Holdfast) -> None:
    @memory_app.task(executor="process")
    async def hidden() -> None: ...

    handle = await hidden.enqueue()
    with pytest.raises(ConfigError, match="at the top of a module"):
        await memory_app.run_worker(until="empty")
    assert (await handle.get()).claim == 0


# ---- stopping --------------------------------------------------------------------------------------------------------


def started(folder: Path) -> list[tuple[int, int]]:
    """Which processes run long, and which ones they have started."""
    found = [(int(path.stem), path.read_text()) for path in folder.glob("*.started")]
    return [(pid, int(text)) for pid, text in found if text]


@pytest.mark.real_time  # processes that are killed
@pytest.mark.parametrize("name", ["deaf", "polite"])
async def test_at_the_timeout_the_process_ends_with_everything_it_started(
    in_memory: Any, tmp_path: Path, name: str
) -> None:
    handle = await getattr(in_memory, name).enqueue()
    async with working(in_memory.app, concurrency=1) as work:
        await until(lambda: len(started(tmp_path)) == 1, "it runs")
        work.time_out()
        job = await until_state(handle, JobState.SCHEDULED)
        assert (job.attempt, job.crashes, job.error_class) == (1, 0, "holdfast.errors.TimedOut")
        ((pid, grandchild),) = started(tmp_path)
        await until(lambda: not is_alive(pid) and not is_alive(grandchild), "both are gone")
        assert (await ended(await in_memory.add.enqueue(1, 2))).result["pid"] != pid


@pytest.mark.usefixtures("brisk")
@pytest.mark.real_time  # a process that is killed
async def test_a_cancelled_job_is_asked_and_then_killed(in_memory: Any, tmp_path: Path) -> None:
    handle = await in_memory.deaf_for_ever.enqueue()
    async with working(in_memory.app):
        await until(lambda: len(started(tmp_path)) == 1, "it runs")
        await handle.cancel()
        assert (await ended(handle)).state is JobState.CANCELLED
        ((pid, grandchild),) = started(tmp_path)
        await until(lambda: not is_alive(pid) and not is_alive(grandchild), "both are gone")


@pytest.mark.real_time  # processes that are killed
async def test_a_worker_that_is_cancelled_leaves_no_process(in_memory: Any, tmp_path: Path) -> None:
    handle = await in_memory.deaf_for_ever.enqueue()
    worker = asyncio.create_task(in_memory.app.run_worker())
    await until(lambda: len(started(tmp_path)) == 1, "it runs")
    worker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await worker
    ((pid, grandchild),) = started(tmp_path)
    await until(lambda: not is_alive(pid) and not is_alive(grandchild), "both are gone")
    job = await handle.get()
    assert (job.state, job.attempt) == (JobState.QUEUED, 0)


# ---- dying -----------------------------------------------------------------------------------------------------------


@pytest.mark.real_time  # processes that die
async def test_a_process_that_dies_is_a_crash_and_its_neighbours_are_untouched(module: Any) -> None:
    app = module.app
    neighbours = [await module.add.enqueue(number, 1) for number in range(6)]
    poison, once = await module.die.enqueue(99), await module.die.enqueue(1, "exit")
    async with working(app, concurrency=3):
        assert (await ended(once)).result == "alive after 1"
        job = await until_state(poison, JobState.SCHEDULED)  # the second crash, which it had alone
        assert (job.crashes, job.attempt) == (2, 0)
        await app.jobs.reschedule(job.id, delay=0)
        job = await ended(poison)
        jobs = [await ended(handle) for handle in neighbours]
    assert (job.state, job.crashes, job.error_class) == (JobState.FAILED, 3, "ProcessDied")
    assert job.error == "the process of its handler was killed by signal 9"
    assert {(found.state, found.crashes, found.attempt) for found in jobs} == {(JobState.COMPLETED, 0, 1)}
    # A crash and a run alone end a process; what ran alone was not beside another in it.
    assert (await once.get()).crashes == 1


@pytest.mark.real_time  # a process that dies
async def test_a_crashed_process_task_does_not_keep_the_others_waiting(in_memory: Any, tmp_path: Path) -> None:
    """It has a process of its own already, so that nothing else has to stand still for it."""
    app = in_memory.app
    long_one = await in_memory.deaf_for_ever.enqueue()
    worker = asyncio.create_task(app.run_worker(concurrency=2))
    await until(lambda: len(started(tmp_path)) == 1, "it runs")
    assert (await ended(await in_memory.die.enqueue(1))).result == "alive after 1"
    assert (await long_one.get()).state is JobState.RUNNING
    worker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await worker


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # Python warns of what is tried here
async def test_the_copy_of_a_forked_process_answers_nobody(in_memory: Any, tmp_path: Path) -> None:
    app = in_memory.app
    async with working(app, concurrency=1) as work:
        for call in (
            in_memory.fork.call("returning"),
            in_memory.fork.call("waiting"),
            in_memory.fork_in_a_thread.call(),
        ):
            job = await ended(await app.enqueue(call))
            assert (job.state, job.result, job.claim) == (JobState.COMPLETED, "the original", 1)
            assert (await ended(await in_memory.add.enqueue(2, 2))).result["sum"] == 4
        assert work.refused == 0
    assert not (tmp_path / "went on").exists()


async def test_what_is_spent_in_another_process_is_written_down(in_memory: Any) -> None:
    (job,) = await ran(in_memory.app, await in_memory.spend.enqueue())
    assert job.result == ["ai: $0.00 of $10.00 spent (normal)", "ai: $1.75 of $10.00 spent (normal)"]
    entries = (await in_memory.app.budgets.ledger("ai")).entries
    assert [(entry.amount, entry.note) for entry in entries] == [(0.25, None), (1.5, "from afar")]
    state = await in_memory.app.budgets.get("ai")
    assert (state.spent, state.reserved, state.lost) == (1.75, 0, 0)


# ---- transactions ----------------------------------------------------------------------------------------------------


async def test_a_transaction_in_another_process_is_one_commit_with_the_job(module: Any) -> None:
    effects = Effects(module.app.store)
    await effects.make()
    ways = ("return", "inside", "after")
    handles = [await module.pay.enqueue(number, how) for number, how in enumerate(ways)]
    kept, rolled_back, late = await ran(module.app, *handles)
    assert (kept.state, kept.result) == (JobState.COMPLETED, "paid 0")
    assert (rolled_back.state, rolled_back.error) == (JobState.FAILED, "no")
    assert (late.state, late.result, late.error) == (JobState.COMPLETED, "paid 2", None)
    assert await effects.numbers() == [0, 2]


@pytest.mark.real_time  # a process that dies
@pytest.mark.parametrize("crashes, says", [(0, "crash 1 of 3 is counted"), (2, "crash 3 of 3: it has failed")])
async def test_the_log_says_what_follows_a_crash(
    in_memory: Any, caplog: pytest.LogCaptureFixture, crashes: int, says: str
) -> None:
    handle = await in_memory.die.enqueue(crashes + 1)
    await raw.execute(in_memory.app.store, f"UPDATE holdfast.jobs SET crashes = {crashes}")
    await drained(in_memory.app)
    (line, *_) = [record for record in caplog.records if "ProcessDied" in record.getMessage()]
    assert line.levelname == "ERROR"
    assert handle.id in line.getMessage()
    assert says in line.getMessage()


@pytest.mark.guards("last-chance")
async def test_no_two_jobs_whose_next_crash_fails_them_run_at_once(in_memory: Any, tmp_path: Path) -> None:
    """If everything were brought down, one of them would be innocent."""
    handles = [await in_memory.deaf_for_ever.enqueue() for _ in range(2)]
    await raw.execute(in_memory.app.store, "UPDATE holdfast.jobs SET crashes = 2")
    other = await in_memory.add.enqueue(1, 2)
    async with working(in_memory.app) as work:
        await until(lambda: len(started(tmp_path)) == 1, "one of them runs")
        await ended(other)

        async def is_turned_away() -> bool:
            found = [await handle.get() for handle in handles]
            return any(attempt.outcome == "snooze" for job in found for attempt in job.attempts)

        await until(is_turned_away, "the other one waits")
        assert [(await handle.get()).crashes for handle in handles] == [2, 2]
        work.stop()
        await asyncio.wait([work.task])
    assert len(started(tmp_path)) == 1


@pytest.mark.real_time  # a process that dies
async def test_a_process_that_dies_after_its_commit_has_completed_its_job(module: Any) -> None:
    effects = Effects(module.app.store)
    await effects.make()
    (job,) = await ran(module.app, await module.pay.enqueue(1, "die"))
    assert (job.state, job.result, job.claim, job.crashes) == (JobState.COMPLETED, "paid 1", 1, 0)
    assert await effects.numbers() == [1]


@pytest.mark.guards("process-mark")
async def test_a_process_marks_that_a_handler_begins_before_it_does(module: Any, tmp_path: Path) -> None:
    """It may bring everything down with its first line."""
    await module.deaf_for_ever.enqueue()
    async with working(module.app) as work:
        await until(lambda: started(tmp_path), "it runs")
        assert [begun.way for begun in work.worker.marks.begun()] == [marks.Way.PROCESS]
        work.stop()
        await asyncio.wait([work.task])
    await drained(module.app, queues=["nothing"])


async def test_marks_name_the_process_of_a_handler(in_memory: Any, tmp_path: Path) -> None:
    await in_memory.deaf_for_ever.enqueue()
    worker_ = None
    async with working(in_memory.app) as work:
        worker_ = work
        await until(lambda: len(started(tmp_path)) == 1, "it runs")
        (begun,) = work.worker.marks.begun()
        assert (begun.way, begun.pid) == (marks.Way.PROCESS, started(tmp_path)[0][0])
        work.stop()
        await asyncio.wait([work.task])
    assert worker_.task.done()
    await drained(in_memory.app, queues=["nothing"])
