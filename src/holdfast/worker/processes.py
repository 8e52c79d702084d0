"""Handlers in processes of their own: spawned, with one pipe each, and killable with everything they started.

Nothing is shared but the pipe: no lock that a killed process could leave behind, no connection, no pickled object.
"""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from holdfast import failure
from holdfast import transitions as ends
from holdfast.config import Settings
from holdfast.errors import ClaimLost, ConfigError, HoldfastError
from holdfast.tasks.registry import AnyTask
from holdfast.telemetry import logs, tracing
from holdfast.transitions import Transition
from holdfast.worker import classify, groups
from holdfast.worker.isolation import NoProcess
from holdfast.worker.marks import Marks, Way
from holdfast.worker.parts import Parts
from holdfast.worker.pipe import Begun, Boot, Committed, Ended, Kept, Noted, Order, Pipe, Spent, Stop, Unable
from holdfast.worker.run import Run, Why
from holdfast.worker.verbs import Spoken
from holdfast.worker.whereabouts import find, place_of

_FAREWELL_S = 1.0
BOOT_S = 30.0  # within which a process begins with a job that never asked for one
_COMMAND = "from holdfast.worker.process_child import main; main()"


class _Process:
    """One spawned process."""

    def __init__(self, process: asyncio.subprocess.Process, pipe: Pipe) -> None:
        self.pid = process.pid
        self.pipe = pipe
        self.has_served = False
        self.is_spent = False  # it can run no other job
        self._process = process

    @property
    def is_alive(self) -> bool:
        """Whether it can be given another job."""
        return self._process.returncode is None and not self.pipe.is_broken and not self.is_spent

    async def ended(self) -> int:
        """Wait for its end; the answer is its exit code, negative for a signal."""
        return await self._process.wait()

    async def kill(self) -> None:
        """Kill it with everything it started, and wait until it is gone."""
        groups.kill(self.pid)
        await self._process.wait()
        self.pipe.close()
        await groups.emptied(self.pid)


class ProcessPool:
    """The processes of one worker: one per job at a time, kept for the next one."""

    def __init__(self, parts: Parts, marks: Marks) -> None:
        self._settings: Settings = parts.settings
        self._marks = marks
        self._idle: list[_Process] = []
        self._all: set[_Process] = set()
        self._keeping: set[asyncio.Future[None]] = set()

    def can_run(self, task: AnyTask) -> bool:
        """Whether another process can find the code of a task."""
        place = place_of(task)
        return place is not None and find(place) is task

    async def perform(self, run: Run, spoken: Spoken, *, alone: bool) -> Transition:
        """Run a job in a process; one that runs alone gets a fresh one, which ends with it."""
        process = await self._process_for(run, fresh=alone)
        self._marks.set_process(run.mark, process.pid)
        is_reusable = False
        try:
            parent = tracing.carried(is_wanted=self._settings.telemetry.traces)
            place = self._marks.place_of(run.mark)
            process.pipe.send(Order(run.job, run.stored, parent, run.allowance, place))
            if place is None:  # no other process reads the marks
                self._marks.set_way(run.mark, Way.PROCESS)
            if not _is_asked_for(run):  # guard: isolated-begin
                await _begun(process)
            transition = await self._outcome(run, spoken, process)
            # What a handler that was told to stop had started must not outlive it: its process ends with it.
            is_reusable = process.is_alive and not alone and run.why is None
            return transition
        finally:
            if is_reusable:
                self._idle.append(process)
            else:
                self._all.discard(process)
                await asyncio.shield(self._end(process, run, spoken))

    async def _end(self, process: _Process, run: Run, spoken: Spoken) -> None:
        await process.kill()
        spoken.vanished(run)

    async def close(self) -> None:
        """End every process that is left: idle ones see the end of their pipe and may clean up, then all are killed."""
        processes, self._all = self._all, set()
        for process in self._idle:
            process.pipe.close()
        if self._idle:
            farewells = [asyncio.ensure_future(process.ended()) for process in self._idle]
            await asyncio.wait(farewells, timeout=_FAREWELL_S)
        for process in processes:
            await process.kill()

    # ---- one job ---------------------------------------------------------------------------------------------------

    async def _outcome(self, run: Run, spoken: Spoken, process: _Process) -> Transition:
        """Follow a job to its end; a request to stop is passed on, and after a grace the process is killed."""
        following = asyncio.ensure_future(self._follow(run, spoken, process))
        try:
            try:
                return await asyncio.shield(following)
            except asyncio.CancelledError:
                process.pipe.send(Stop(run.why or Why.LEAVING))
            try:
                async with asyncio.timeout(self._settings.worker.kill_grace_s):
                    return await asyncio.shield(following)
            except (TimeoutError, asyncio.CancelledError):
                return self._stopped(run)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    def _stopped(self, run: Run) -> Transition:
        if run.why is Why.TIMED_OUT:
            return classify.timed_out(run, self._settings)
        if run.why is Why.CANCELLED:
            return ends.cancelled(*run.key, started_ago_ms=run.started_ago_ms)
        return ends.interrupted(*run.key)

    async def _follow(self, run: Run, spoken: Spoken, process: _Process) -> Transition:
        has_begun = not process.has_served  # one that dies before its first job is the fault of the code it imports
        process.has_served = True
        while (message := await process.pipe.receive()) is not None:
            if isinstance(message, Ended):
                return message.transition
            if isinstance(message, Unable):
                process.is_spent = True
                return classify.failed_attempt(run, message.failure, self._settings, fatal=False)
            if isinstance(message, Begun):
                has_begun = True
            elif isinstance(message, Committed):
                run.is_committed = True
            elif isinstance(message, Noted):
                self._note(run, spoken, process, message)
            elif isinstance(message, Spent):
                self._keep_going(self._spend(run, spoken, process, message))
        code = await process.ended()
        if run.why is not None:
            return self._stopped(run)
        if not has_begun:  # it died while it waited for an order
            return ends.interrupted(*run.key)
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return ends.crashed(*run.key, failure.from_text("ProcessDied", f"the process of its handler {how}"))

    def _note(self, run: Run, spoken: Spoken, process: _Process, noted: Noted) -> None:
        """Take what the handler said; one that waits is answered when it is stored."""
        run.say(noted.entry)
        if noted.number is None:
            spoken.reported(run)
            return
        self._keep_going(self._keep(run, spoken, process, noted.number))

    def _keep_going(self, writing: Coroutine[Any, Any, None]) -> None:
        keeping = asyncio.ensure_future(writing)
        self._keeping.add(keeping)
        keeping.add_done_callback(self._keeping.discard)

    async def _keep(self, run: Run, spoken: Spoken, process: _Process, number: int) -> None:
        refused = None
        try:
            await spoken.kept(run)
        except ClaimLost as error:
            refused = str(error)
        process.pipe.send(Kept(number, refused))

    async def _spend(self, run: Run, spoken: Spoken, process: _Process, spent: Spent) -> None:
        refused = None
        try:
            await spoken.spend(run, spent.amount, spent.note)
        except HoldfastError as error:
            refused = str(error)
        process.pipe.send(Kept(spent.number, refused, run.allowance))

    # ---- spawning --------------------------------------------------------------------------------------------------

    async def _process_for(self, run: Run, *, fresh: bool) -> _Process:
        while self._idle and not fresh:
            process = self._idle.pop()
            if process.is_alive:
                return process
            self._all.discard(process)
            await process.kill()
        place = None if run.task is None else place_of(run.task)
        if place is None:
            message = f"another process cannot find the task {run.job.kind}: define it at the top of a module"
            raise ConfigError(message)
        if _is_asked_for(run):
            return await self._spawn(Boot(sys.path, sys.argv, place, logs.chosen))
        store = (self._settings.url, self._settings.schema)
        try:
            return await self._spawn(Boot(sys.path, sys.argv, place, logs.chosen, store))
        except (OSError, RuntimeError) as error:  # no memory, no file, an event loop that starts no processes
            message = f"none could be started: {error!r}"
            raise NoProcess(message) from error

    async def _spawn(self, boot: Boot) -> _Process:
        ours, theirs = socket.socketpair()
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                _COMMAND,
                str(theirs.fileno()),
                str(os.getpid()),
                pass_fds=(theirs.fileno(),),
                stdin=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            theirs.close()
        spawned = _Process(process, await Pipe.open(ours))
        self._all.add(spawned)
        spawned.pipe.send(boot)
        return spawned


def _is_asked_for(run: Run) -> bool:
    """Whether the task of a job wants a process, and not only its crashes."""
    return run.task is not None and run.task.policy.executor == "process"


async def _begun(process: _Process) -> None:
    """Wait until a fresh process begins with its job: before that nothing can be the fault of the handler."""
    try:
        async with asyncio.timeout(BOOT_S):
            message = await process.pipe.receive()
    except TimeoutError:
        reason = f"it has not begun within {BOOT_S:g} s"
        raise NoProcess(reason) from None
    if isinstance(message, Unable):
        reason = f"{message.failure.error_class}: {message.failure.message}"
        raise NoProcess(reason)
    if message is None:
        reason = f"it ended while it imported the app, with exit code {await process.ended()}"
        raise NoProcess(reason)


@asynccontextmanager
async def make_processes(parts: Parts, marks: Marks) -> AsyncIterator[ProcessPool | None]:
    """Give a pool where processes can be spawned with a pipe; refuse tasks that need one and could not be found."""
    if sys.platform == "win32":
        yield None
        return
    pool = ProcessPool(parts, marks)
    for task in parts.tasks:
        if task.policy.executor == "process" and not pool.can_run(task):
            message = f'task {task.source}: executor="process" needs a task that another process can import: define it'
            message += " at the top of a module"
            raise ConfigError(message)
    try:
        yield pool
    finally:
        await pool.close()
