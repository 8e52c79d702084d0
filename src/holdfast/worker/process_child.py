"""The other side of a process task: a spawned process that runs one job at a time for its worker."""

import asyncio
import contextlib
import logging
import os
import socket
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from holdfast import failure, moments
from holdfast.client.lock_keeper import LockKeeper
from holdfast.config import Settings
from holdfast.context import Context, LockBlock, TransactionBlock, running_job
from holdfast.delivery.in_store import InStore
from holdfast.duration import Duration
from holdfast.errors import ArgumentError, ClaimLost, ConfigError, DataRefused
from holdfast.journal import Entry
from holdfast.policies.allowance import Allowance
from holdfast.policies.money import Amount
from holdfast.services.secrecy import keep_secrets
from holdfast.stores import make_store
from holdfast.stores.store import Store
from holdfast.telemetry import logs, tracing
from holdfast.transitions import Transition
from holdfast.worker import classify, forks, kernel, lines, marks
from holdfast.worker.handler import call_handler, make_context
from holdfast.worker.locking import block_of
from holdfast.worker.marks import UNMARKED, Marks
from holdfast.worker.parts import HasParts, Parts
from holdfast.worker.pipe import Begun, Boot, Committed, Ended, Kept, Noted, Order, Pipe, Spent, Stop, Unable
from holdfast.worker.run import Run
from holdfast.worker.stepping import Stepping
from holdfast.worker.threads import Threads
from holdfast.worker.transaction import Block
from holdfast.worker.whereabouts import Whereabouts, find

T = TypeVar("T")

_logger = logging.getLogger("holdfast")


def main() -> None:
    """Serve the worker at the other end of the pipe until it is gone."""
    moments.role = "process"
    pipe, parent = int(sys.argv[1]), int(sys.argv[2])
    kernel.die_with(parent)
    end = socket.socket(fileno=pipe)
    end.set_inheritable(False)  # or what a handler starts would hold the pipe open
    asyncio.run(_serve(end))
    os._exit(0)  # threads of handlers that do not end must not keep the process


async def _serve(end: socket.socket) -> None:
    pipe = await Pipe.open(end)
    boot = await pipe.receive()
    if not isinstance(boot, Boot):
        return
    async with contextlib.AsyncExitStack() as stack:
        try:
            parts = _parts_of(boot)
            state = await stack.enter_async_context(parts.lifespan())
        except BaseException as error:  # noqa: BLE001 - importing and starting run the user's code
            pipe.send(Unable(failure.from_exception(error)))
            await pipe.drain()
            return
        server = _Server(pipe, parts, state)
        stack.push_async_callback(server.close)
        stack.enter_context(lines.captured(is_wanted=parts.settings.worker.logs == "all"))
        await server.serve()


def _parts_of(boot: Boot) -> Parts:
    sys.path[:], sys.argv[:] = boot.path, boot.arguments
    parts = _app_at(boot.place).parts
    if boot.store not in (None, (parts.settings.url, parts.settings.schema)):  # guard: same-store
        message = "the app has another store here than in the program that it was imported from"
        raise ConfigError(message)
    if boot.logs is not None:
        logs.set_up(*boot.logs)
    keep_secrets(parts.settings)
    return parts


def _app_at(place: Whereabouts) -> HasParts:
    task = find(place)
    app = None if task is None else task.enqueuer
    if not isinstance(app, HasParts):
        message = f"the task {place.name} was not found in {place.module} by a spawned process"
        raise ConfigError(message)
    return app


class _Server:
    """Runs the jobs that come through the pipe, one after the other."""

    def __init__(self, pipe: Pipe, parts: Parts, state: Any) -> None:
        self.settings: Settings = parts.settings
        self._pipe = pipe
        self._parts = parts
        self._state = state
        self.threads = Threads()
        self._asked: dict[int, asyncio.Future[str | None]] = {}
        self._questions = 0
        self._marks = Marks.create(None, 0)
        self._store: Store | None = None
        self._locks: LockKeeper | None = None
        self._run: Run | None = None
        self._generation = forks.generation

    async def serve(self) -> None:
        """Serve until the worker is gone."""
        while (message := await self._pipe.receive()) is not None:
            if isinstance(message, Stop) and self._run is not None:
                self._run.stop(message.why)
            elif isinstance(message, Kept):
                answer = self._asked.pop(message.number, None)
                if self._run is not None and message.allowance is not None:
                    self._run.allowance = message.allowance
                if answer is not None and not answer.done():
                    answer.set_result(message.refused)
            elif isinstance(message, Order):
                if message.mark is not None:  # guard: process-mark
                    marks.begin_at(message.mark)
                self._pipe.send(Begun())
                self._run = run = Run(message.job)
                run.stored, run.allowance = message.stored, message.allowance
                run.parent_span = message.parent
                # Stepping, because a copy that a handler forks must not go on here.
                coroutine = Stepping(self._perform(run), self._marks, lambda: UNMARKED)
                run.handler = asyncio.get_running_loop().create_task(coroutine)

    async def kept(self, entry: Entry) -> str | None:
        """Have something stored; the answer is why it was refused, if it was."""
        return await self._answer(lambda number: Noted(entry, number))

    async def spent(self, amount: Amount, note: str | None) -> str | None:
        """Have an amount written down; the answer is why it was refused, if it was."""
        return await self._answer(lambda number: Spent(amount, note, number))

    async def _answer(self, message: Callable[[int], Noted | Spent]) -> str | None:
        self._questions += 1
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._asked[self._questions] = answer
        self._pipe.send(message(self._questions))
        return await answer

    async def close(self) -> None:
        """Let go of the store."""
        self.threads.close()
        if self._locks is not None:
            await self._locks.close()
        if self._store is not None:
            await self._store.close()

    async def open_store(self) -> Store:
        """Open a connection of this process's own, for transactions."""
        if self._store is None:
            store = make_store(self.settings)
            await store.open()
            self._store = store
        return self._store

    async def keeper(self) -> LockKeeper:
        """Keep the locks of this process: they end with it, and their worker frees what it leaves behind."""
        store = await self.open_store()
        if self._locks is None:
            self._locks = LockKeeper(store, InStore(store))
        return self._locks

    async def _perform(self, run: Run) -> None:
        transition = await self._outcome(run)
        if forks.generation != self._generation:  # the handler forked, and this is the copy: the original answers
            os._exit(0)
        run.is_ended = True
        if run.is_committed:
            self._pipe.send(Committed())
        elif run.journal is not None:  # said in a transaction that was rolled back
            for entry in run.journal.entries():
                self._pipe.send(Noted(entry))
        self._pipe.send(Ended(transition))
        with contextlib.suppress(ConnectionError):
            await self._pipe.drain()

    async def _outcome(self, run: Run) -> Transition:
        try:
            run.task = self._parts.tasks.get(run.job.kind)
            run.started_at = run.claimed_at
            run.make_context = self._make_context
            run.arguments = run.task.decode(run.job.payload_json)
            is_capturing = self.settings.worker.logs == "all"
            running_job.set(run.job.id)
            if logs.names_jobs():
                logs.current.set(run.job)
            with tracing.beneath(run.parent_span):
                value = await call_handler(run, self._parts.arounds, self._in_thread, is_capturing=is_capturing)
        except ArgumentError as error:
            if not run.arguments and run.job.payload != {}:
                return classify.refused(run, error)
            return classify.raised(run, error, self.settings)
        except BaseException as error:  # noqa: BLE001 - a handler may raise anything, SystemExit too
            if run.is_committed:
                _logger.warning("job %s was completed by its transaction, and then raised %r", run.job.public_id, error)
            return classify.raised(run, error, self.settings)
        return classify.returned(run, value, self.settings)

    def _make_context(self, run: Run) -> Context[Any]:
        return make_context(run, _Verbs(run, self, self._pipe), self.settings, self._state)

    async def _in_thread(self, _run: Run, function: Callable[[], Any]) -> Any:
        return await self.threads.run(function)


class _Verbs:
    """The verbs of a context on this side of the pipe."""

    def __init__(self, run: Run, server: _Server, pipe: Pipe) -> None:
        self._run = run
        self._server = server
        self._pipe = pipe
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop."""
        return self._run.why is not None

    def note(self, entry: Entry) -> None:
        """Pass on what is said; while a transaction is open it stays here, and goes with that."""
        if self._run.is_committing:
            self._run.say(entry)
        elif threading.get_ident() == self._thread:
            self._pipe.send(Noted(entry))  # at once, or the end of the job could overtake it
        else:
            self._loop.call_soon_threadsafe(self._pipe.send, Noted(entry))

    async def keep(self, entry: Entry) -> None:
        """Pass on what is said, and wait until it is stored."""
        refused = await self._server.kept(entry)
        if refused is not None:
            raise ClaimLost(refused)

    @property
    def allowance(self) -> Allowance | None:
        """How far the budget of the job has come."""
        return self._run.allowance

    async def spend(self, amount: Amount, note: str | None) -> None:
        """Have what was spent written down, and wait until it is."""
        refused = await self._server.spent(amount, note)
        if refused is not None:
            raise DataRefused(refused)

    def wait_for(self, verb: Coroutine[Any, Any, T]) -> T:
        """Run a verb on the event loop of this process, for a handler in a thread."""
        return asyncio.run_coroutine_threadsafe(verb, self._loop).result()

    async def in_thread(self, function: Callable[[], Any]) -> Any:
        """Run a function in a thread."""
        return await self._server.threads.run(function)

    def transaction(self) -> TransactionBlock:
        """Open the transaction in which the job completes, on a connection of this process."""
        return Block(self._run, self._server.open_store, self._server.settings)

    def lock(self, name: str, timeout: Duration | None) -> LockBlock:
        """Hold a lock for the job, kept by this process."""
        return block_of(self._run, self._server.keeper, name, timeout)
