"""Jobs whose process died under them, in a worker inside a program: what they cost the others."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, JobState, Limit
from holdfast.worker import processes, starting
from tests.support.effects import Effects
from tests.support.programs import ROOT
from tests.support.wait import PATIENCE_S, until
from tests.support.workers import MakeApp, ended, ran, until_state, working
from tests.worker import suspects
from tests.worker.suspects import charge


@pytest.fixture
async def module(make_shared_app: MakeApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """Give the module of plain tasks on each store that other processes can reach, its app open."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    settings = make_shared_app().config
    found: Any = suspects.write(tmp_path, settings.url, settings.schema)
    monkeypatch.setattr(processes, "BOOT_S", 3_600.0)  # however busy the machine is
    async with found.app:
        yield found


@pytest.fixture
async def program(make_shared_app: MakeApp) -> AsyncIterator[Holdfast]:
    """Give an app whose tasks are closures, which no other process can import."""
    async with make_shared_app() as app:
        yield app


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a job that must run alone wait for as long as the test takes."""
    monkeypatch.setattr(starting, "PATIENCE_S", 3_600.0)


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


async def begun_by(folder: Path, job: int) -> int:
    """Wait until the handler of a job that holds has begun, and say in which process."""
    file = folder / f"{job}.begun"
    await until(lambda: file.exists() and file.read_text(), "it runs")
    return int(file.read_text())


# ---- a process of its own --------------------------------------------------------------------------------------------


async def test_other_jobs_begin_beside_one_that_has_a_process_of_its_own(module: Any, tmp_path: Path) -> None:
    suspects_ = [await module.hold.enqueue() for _ in range(2)]
    await charge(module.app, *suspects_)
    async with working(module.app, concurrency=3):
        pids = [await begun_by(tmp_path, handle.id) for handle in suspects_]
        assert len({os.getpid(), *pids}) == 3
        for _ in range(3):
            assert (await ended(await module.where.enqueue())).result == os.getpid()
        for handle in suspects_:
            assert (await handle.get()).state is JobState.RUNNING
            (tmp_path / f"{handle.id}.go").touch()
        jobs = [await ended(handle) for handle in suspects_]
    assert [(job.result, job.claim, job.attempt, job.crashes) for job in jobs] == [(pid, 2, 1, 1) for pid in pids]
    assert not any(is_alive(pid) for pid in pids)


@pytest.mark.real_time  # a program that is killed
async def test_a_program_goes_on_when_another_one_is_killed(module: Any, tmp_path: Path) -> None:
    handle = await module.hold.enqueue()
    code = f"import asyncio, {module.__name__} as m\nasync def main():\n    async with m.app:\n"
    code += "        await m.app.run_worker()\nasyncio.run(main())"
    with subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(tmp_path)}) as other:
        try:
            assert await begun_by(tmp_path, handle.id) == other.pid
        finally:
            other.kill()
    (tmp_path / f"{handle.id}.begun").unlink()
    async with working(module.app, concurrency=2):
        pid = await begun_by(tmp_path, handle.id)
        assert (await ended(await module.where.enqueue())).result == os.getpid()
        assert (await handle.get()).state is JobState.RUNNING
        (tmp_path / f"{handle.id}.go").touch()
        job = await ended(handle)
    assert (job.result, job.claim, job.attempt, job.crashes) == (pid, 2, 1, 1)
    assert pid not in (os.getpid(), other.pid)


async def test_what_a_handler_is_given_is_there_in_a_process_of_its_own(module: Any) -> None:
    effects = Effects(module.app.store)
    await effects.make()
    handles = [await module.where_in_a_thread.enqueue(), await module.Steps(n=5).enqueue(), await module.pay.enqueue(7)]
    await charge(module.app, *handles)
    state, steps, paid = await ran(module.app, *handles)
    assert {job.state for job in (state, steps, paid)} == {JobState.COMPLETED}, (state.error, steps.error, paid.error)
    assert steps.result[0] == 6
    assert os.getpid() not in (state.result, steps.result[1])
    assert paid.result.startswith("paid by ")
    assert paid.result != f"paid by {os.getpid()}"
    assert await effects.numbers() == [7]


@pytest.mark.real_time  # a process that dies
async def test_a_job_that_kills_its_own_process_leaves_the_program_alive(module: Any) -> None:
    handle = await module.die.enqueue()
    await charge(module.app, handle)
    async with working(module.app, concurrency=2):
        job = await until_state(handle, JobState.SCHEDULED)
        assert (await ended(await module.where.enqueue())).result == os.getpid()
    assert (job.crashes, job.attempt, job.error_class) == (2, 0, "ProcessDied")


@pytest.mark.parametrize("how", ["cancel", "timeout", "shutdown"])
@pytest.mark.real_time  # processes that are killed
async def test_a_process_of_its_own_ends_with_its_job(module: Any, tmp_path: Path, how: str) -> None:
    handle = await module.hold.enqueue()
    await charge(module.app, handle)
    async with working(module.app, concurrency=2) as work:
        pid = await begun_by(tmp_path, handle.id)
        if how == "cancel":
            await handle.cancel()
        elif how == "timeout":
            work.time_out()
        else:
            work.stop()
            async with asyncio.timeout(PATIENCE_S):
                await work.task
        state = {"cancel": JobState.CANCELLED, "timeout": JobState.SCHEDULED, "shutdown": JobState.QUEUED}[how]
        job = await until_state(handle, state)
        await until(lambda: not is_alive(pid), "its process is gone")
    assert (job.crashes, job.attempt) == (1, 0 if how == "shutdown" else 1)


@pytest.mark.guards("isolated-begin", "same-store")
@pytest.mark.parametrize("trouble", ["import", "lifespan", "death", "store", "time"])
async def test_a_job_that_cannot_get_a_process_runs_in_the_program_uncharged(
    module: Any, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    monkeypatch.setenv("SUSPECTS_TROUBLE", trouble)
    if trouble == "time":
        monkeypatch.setattr(processes, "BOOT_S", 0.0)
    handle = await module.where.enqueue()
    await charge(module.app, handle)
    (job,) = await ran(module.app, handle)
    assert (job.state, job.result) == (JobState.COMPLETED, os.getpid()), job.error
    assert (job.attempt, job.crashes) == (1, 1)


@pytest.mark.guards("survived-run")
async def test_what_fails_for_want_of_the_program_is_tried_again_in_it(module: Any) -> None:
    handle = await module.need_the_program.enqueue()
    await charge(module.app, handle)
    (job,) = await ran(module.app, handle)
    assert (job.state, job.attempt, job.error) == (JobState.SCHEDULED, 1, "the pool of the program is not open")
    await module.app.jobs.reschedule(job.id, delay=0)
    (job,) = await ran(module.app, handle)
    assert (job.state, job.attempt, job.result) == (JobState.COMPLETED, 2, os.getpid())


# ---- alone -----------------------------------------------------------------------------------------------------------


@pytest.mark.guards("room-beside-aside")
@pytest.mark.usefixtures("patient")
async def test_other_jobs_begin_while_those_wait_that_must_run_alone(program: Holdfast) -> None:
    """There are as many of them as slots."""
    release, running, beside = asyncio.Event(), list[str](), list[list[str]]()

    @program.task
    async def work(name: str) -> None:
        running.append(name)
        if name == "suspect":
            beside.append(list(running))
        if name == "long":
            await release.wait()
        running.remove(name)

    waiting = [await work.enqueue("suspect") for _ in range(3)]
    await charge(program, *waiting)
    long_one = await work.using(priority=0).enqueue("long")
    async with working(program, concurrency=3) as worker:
        for handle in waiting:
            await worker.moments.wait("set_aside", worker=worker.id, job=handle.number)
        for number in range(4):
            await ended(await work.enqueue(f"{number}"))
        assert beside == []
        release.set()  # and nothing runs any more
        jobs = [await ended(handle) for handle in (long_one, *waiting)]
    assert beside == [["suspect"]] * 3
    assert [(job.claim, job.attempt, job.crashes) for job in jobs] == [(1, 1, 0)] + [(2, 1, 1)] * 3


@pytest.mark.guards("solitude", "patience-end")
@pytest.mark.usefixtures("patient")
async def test_after_the_longest_wait_nothing_begins_before_the_one_that_must_run_alone(
    program: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs end and others wait to begin, but there is always one that runs."""
    order, is_set_aside, is_over = list[str](), asyncio.Event(), asyncio.Event()

    @program.task
    async def work(name: str) -> None:
        order.append(name)
        if name == "long":
            await is_set_aside.wait()
            monkeypatch.setattr(starting, "PATIENCE_S", 0.0)
            await work.enqueue("later")
            is_over.set()
            await worker.moments.wait("ended", job=other.number)  # and its slot is free
            await worker.moments.next("promoted", times=3)  # the worker has looked for more
        if name == "other":
            await is_over.wait()
        order.append(f"{name} ends")

    suspect = await work.enqueue("suspect")
    await charge(program, suspect)
    await work.using(priority=0).enqueue("long")
    other = await work.using(priority=0).enqueue("other")
    async with working(program, concurrency=4) as worker:
        await worker.moments.wait("set_aside", worker=worker.id, job=suspect.number)
        is_set_aside.set()
        job = await ended(suspect)
        await until(lambda: "later ends" in order, "the others go on")
    both = ["long", "other", "other ends", "long ends"]
    assert order == [*both, "suspect", "suspect ends", "later", "later ends"]
    assert (job.claim, job.crashes) == (2, 1)


@pytest.mark.usefixtures("patient")
async def test_what_must_run_alone_gets_another_time_from_its_throttle(make_shared_app: MakeApp) -> None:
    """The one that it got with its claim is over when it can have the worker for itself."""
    release, beside, running = asyncio.Event(), list[list[str]](), list[str]()
    async with make_shared_app(limits=[Limit(name="pace", throttle="20/s")]) as app:

        @app.task(limits=["pace"])
        async def work() -> None:
            running.append("suspect")
            beside.append(list(running))
            await asyncio.sleep(0)
            running.remove("suspect")

        @app.task
        async def long_one() -> None:
            running.append("long")
            await release.wait()
            running.remove("long")

        waiting = [await work.enqueue() for _ in range(3)]
        await charge(app, *waiting)
        await long_one.using(priority=0).enqueue()
        async with working(app, concurrency=3) as worker:
            for handle in waiting:
                await worker.moments.wait("set_aside", job=handle.number)
            await worker.moments.next("promoted", times=4)
            release.set()
            jobs = [await ended(handle) for handle in waiting]
    assert beside == [["suspect"]] * 3
    assert {(job.state, job.attempt, job.crashes) for job in jobs} == {(JobState.COMPLETED, 1, 1)}


@pytest.mark.usefixtures("patient")
async def test_a_worker_that_leaves_gives_back_what_waits_to_run_alone(program: Holdfast) -> None:
    release = asyncio.Event()

    @program.task
    async def work(name: str) -> None:
        if name == "long":
            await release.wait()

    suspect, cancelled = [await work.enqueue("suspect") for _ in range(2)]
    await charge(program, suspect, cancelled)
    long_one = await work.using(priority=0).enqueue("long")
    async with working(program, concurrency=2) as worker:
        for handle in (suspect, cancelled):
            await worker.moments.wait("set_aside", worker=worker.id, job=handle.number)
        await cancelled.cancel()
        await until_state(cancelled, JobState.CANCELLED)
        worker.drain()
        await until_state(suspect, JobState.QUEUED)
        release.set()
    assert (await long_one.get()).state is JobState.COMPLETED
    job = await suspect.get()
    assert (job.state, job.attempt, job.crashes, job.claim) == (JobState.QUEUED, 0, 1, 2)
    (job,) = await ran(program, suspect)
    assert (job.state, job.attempt, job.claim) == (JobState.COMPLETED, 1, 3)


@pytest.mark.usefixtures("patient")
async def test_a_store_in_memory_has_nothing_to_wait_for(memory_app: Holdfast) -> None:
    """It ends with its program: others cannot have the jobs sooner."""
    order: list[str] = []

    @memory_app.task
    async def work(name: str) -> None:
        order.append(name)

    suspect = await work.enqueue("suspect")
    await charge(memory_app, suspect)
    handles = [await work.enqueue(f"{number}") for number in range(3)]
    await ran(memory_app, suspect, *handles)
    assert order[0] == "suspect"


# ---- which code can be imported --------------------------------------------------------------------------------------

PROGRAM = """
import asyncio, os, sys
from pathlib import Path
from holdfast import Holdfast
from holdfast.worker import processes
from tests.worker.suspects import charge

processes.BOOT_S = 3_600.0
folder = Path(sys.argv[1])
with (folder / "started").open("a") as file:
    file.write("once\\n")
app = Holdfast(f"sqlite:///{folder}/jobs.db", synchronous="normal")

@app.task
async def where() -> int:
    return os.getpid()

async def main() -> None:
    async with app:
        handle = await where.enqueue()
        await charge(app, handle)
        await app.run_worker(until="empty")
        job = await handle.get()
        print(job.state, job.attempt, "here" if job.result == os.getpid() else "elsewhere")
"""
START = "asyncio.run(main())\n"
GUARD = f'if __name__ == "__main__":\n    {START}'


@pytest.mark.guards("guarded-program")
@pytest.mark.parametrize(
    "how, last, where, times",
    [
        pytest.param("file", GUARD, "elsewhere", 2, id="file"),
        pytest.param("file", START, "here", 1, id="unguarded-file"),
        pytest.param("module", GUARD, "elsewhere", 2, id="module"),
        pytest.param("module", START, "here", 1, id="unguarded-module"),
        pytest.param("stdin", GUARD, "here", 1, id="interactive"),
    ],
)
async def test_a_program_is_imported_only_if_that_does_not_start_it(
    tmp_path: Path, how: str, last: str, where: str, times: int
) -> None:
    (tmp_path / "shop.py").write_text(PROGRAM + last, encoding="utf-8")
    given = {"file": [str(tmp_path / "shop.py")], "module": ["-m", "shop"], "stdin": ["-"]}[how]
    path = os.pathsep.join([str(ROOT), str(tmp_path)])
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, *given, str(tmp_path)],
        input=PROGRAM + last if how == "stdin" else None,
        env={**os.environ, "PYTHONPATH": path},
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.stdout.splitlines() == [f"completed 1 {where}"], done.stderr
    assert (tmp_path / "started").read_text().splitlines() == ["once"] * times
