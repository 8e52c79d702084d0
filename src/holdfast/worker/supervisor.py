"""The parent of worker processes: it imports no code of the user, so nothing that handlers do can stop it.

It renews the lease of all its children, watches them through their marks, gives back what a dead one held, kills one
that ignores a timeout, starts new ones, and passes on what it is told.
"""

import asyncio
import contextlib
import functools
import logging
import os
import signal
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from holdfast import moments
from holdfast.config import Settings
from holdfast.errors import HoldfastError, OutcomeUnknown, StoreUnavailable
from holdfast.locations import SqliteLocation
from holdfast.services.exporter import Exporter
from holdfast.services.secrecy import keep_secrets
from holdfast.stores import make_store
from holdfast.stores.store import LeaseStore, Store
from holdfast.telemetry import endpoint
from holdfast.worker import kernel, orders
from holdfast.worker.instance import Instance
from holdfast.worker.leaving import Until
from holdfast.worker.offspring import Offspring, spawn
from holdfast.worker.orders import Hello, Start, Unable
from holdfast.worker.term import Term

_logger = logging.getLogger("holdfast")

EXIT_DRAINED, EXIT_ERROR, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 124
_RETRY_S = 0.5
_ONE_SIGNAL_S = 0.1
_CLOSING_S = 0.1  # for each of the connections


class Supervisor:
    """One worker instance: a parent and its children."""

    def __init__(self, start: Start, command: Sequence[str], *, metrics: str | None = None) -> None:
        self._start = start
        self._start.instance = uuid.uuid4().hex
        self._command = command
        self._metrics = metrics  # where they are to be seen
        self._exporter = None if metrics is None else Exporter()
        self._children: set[Offspring] = set()
        self._told = asyncio.Event()
        self._halted = asyncio.Event()
        self._reread = asyncio.Event()
        self._next: tuple[Offspring, Hello] | None = None  # who has read the app anew
        self._signals: list[int] = []
        self._signalled_at = 0.0
        self._is_interrupted = False
        self._problem: str | None = None
        self._problem_code = EXIT_ERROR

    # ---- life ------------------------------------------------------------------------------------------------------

    async def run(self) -> int:
        """Work until told to leave; the answer is the exit code."""
        moments.role = "supervisor"
        kernel.adopt_orphans()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled, number)
        if os.isatty(0):  # the terminal is closed: whoever started this is gone
            loop.add_signal_handler(signal.SIGHUP, self._signalled, signal.SIGHUP)
        else:
            loop.add_signal_handler(signal.SIGHUP, self._reread.set)
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        try:
            async with self._shown():
                return await self._serve()
        except HoldfastError as error:
            self._problem = str(error)
            return self._exit_code()
        finally:
            await self._dismiss(*self._children)
            moments.reach("left")

    def _shown(self) -> contextlib.AbstractAsyncContextManager[None]:
        if self._metrics is None or self._exporter is None:
            return contextlib.nullcontext()
        return endpoint.serving(self._metrics, self._exporter.text)

    async def _serve(self) -> int:
        while not self._told.is_set():
            first, others, hello = await self._begun()
            if isinstance(hello, Hello):
                code = await self._work(first, others, hello)
                if self._next is None:
                    return code
                continue
            await self._dismiss(first, *others)
            if first.is_hopeless:
                self._problem = hello
                break
            await self.sleep(_RETRY_S)
        return self._exit_code()

    async def _begun(self) -> tuple[Offspring, list[Offspring], Hello | str]:
        """Give the first child and its greeting: the one that has read the app anew, or a fresh one."""
        if self._next is not None:
            (first, hello), self._next = self._next, None
            return first, [], hello
        # All at once where the command line says how many; else the first one tells, when it knows the app.
        first, *others = [await self.spawn() for _ in range(self._start.processes or 1)]
        return first, others, await self.greeted(first)

    async def _work(self, first: Offspring, others: Sequence[Offspring], hello: Hello) -> int:
        if hello.processes > hello.concurrency:
            message = f"--processes: expected at most --concurrency ({hello.concurrency}), got {hello.processes}; each"
            self._problem, self._problem_code = f"{message} process needs a slot", EXIT_USAGE
            await self._dismiss(first, *others)
            return self._exit_code()
        settings = orders.settings_of(hello.wire)
        keep_secrets(settings)
        is_file = isinstance(settings.location, SqliteLocation)
        held = contextlib.AsyncExitStack()
        try:
            opening = asyncio.ensure_future(self._open_store(settings, held))
            if not is_file:
                await self._told_or(opening)
            opened = await opening if is_file or opening.done() else None
            if opened is None:
                await self._dismiss(first, *others)
            else:
                term = Term(self)
                instance = Instance(
                    term, *opened, settings=settings, hello=hello, start=self._start, exporter=self._exporter
                )
                rereading = asyncio.create_task(self._read_again(term), name="holdfast reread")
                held.callback(rereading.cancel)
                await instance.run(first, others)
        finally:
            await held.aclose()
        return self._exit_code()

    async def _read_again(self, term: Term) -> None:
        """On SIGHUP have the app and its file read again; what is wrong changes nothing, else another term begins."""
        while self._next is None:
            await self._reread.wait()
            self._reread.clear()
            _logger.info("SIGHUP: the app and its configuration are read again")
            child = await self.spawn()
            hello = await self.greeted(child)
            if isinstance(hello, Hello) and hello.processes > hello.concurrency:
                hello = f"expected at most {hello.concurrency} processes, one for each slot, got {hello.processes}"
            if isinstance(hello, Hello) and self._start.until is Until.TOLD:
                self._next = (child, hello)
                term.end()
                continue
            await self._dismiss(child)
            if self._told.is_set():
                return
            why = "it leaves by itself" if isinstance(hello, Hello) else hello
            _logger.error("what was read is not used, and the worker goes on as it was")
            for line in why.splitlines():  # one for each mistake in a file
                _logger.error("%s", line)

    async def _open_store(self, settings: Settings, held: contextlib.AsyncExitStack) -> tuple[Store, LeaseStore] | None:
        """Connect, for leases too; a server that is away is waited for, a file that cannot be used is not."""
        is_file = isinstance(settings.location, SqliteLocation)
        patience = None if is_file else _CLOSING_S
        level = logging.WARNING
        while not self._told.is_set():
            store = make_store(settings)
            try:
                await store.open()
                held.push_async_callback(_close, store.close, patience)
                reserved = store.reserve()
                leases = await reserved.__aenter__()
                held.push_async_callback(_close, functools.partial(reserved.__aexit__, None, None, None), patience)
            except (StoreUnavailable, OutcomeUnknown) as error:  # the latter when the link breaks half-way
                await held.aclose()
                if is_file:
                    raise
                _logger.log(level, "the store is not available yet: %s", error)
                level = logging.DEBUG  # the first line has said it
                moments.reach("store_missed")
                await self.sleep(_RETRY_S)
            else:
                return store, leases
        return None

    async def _told_or(self, opening: "asyncio.Future[Any]") -> None:
        """Wait for a server; when the instance is told to leave, not any longer."""
        told = asyncio.ensure_future(self._told.wait())
        await asyncio.wait((opening, told), return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        if not opening.done():
            opening.cancel()

    def _exit_code(self) -> int:
        if self._problem is not None:
            _logger.error("%s", self._problem)
            return self._problem_code
        if len(self._signals) > 1:
            return 128 + self._signals[-1]
        return EXIT_INTERRUPTED if self._is_interrupted else EXIT_DRAINED

    # ---- signals ---------------------------------------------------------------------------------------------------

    def _signalled(self, number: int) -> None:
        now = time.monotonic()
        if self._signals and self._signals[-1] == number and now - self._signalled_at < _ONE_SIGNAL_S:
            return  # `timeout` and some service managers send a signal to the process and to its group
        self._signalled_at = now
        self._signals.append(number)
        name = signal.Signals(number).name
        if self._told.is_set():
            _logger.warning("%s again: what runs is requeued", name)
            self._halted.set()
        else:
            _logger.info("%s: nothing more is claimed; what runs may end, a second signal gives it back", name)
        self._told.set()
        moments.reach("signalled", signal=name)

    @property
    def is_told(self) -> bool:
        """Whether the instance leaves."""
        return self._told.is_set()

    def leave(self) -> None:
        """Leave without a signal: there is nothing more to do."""
        self._told.set()

    def interrupted(self) -> None:
        """Remember that something could not end in time."""
        self._is_interrupted = True

    def failed(self, problem: str) -> None:
        """Leave because of something that starting again would not mend."""
        self._problem = problem
        self._told.set()

    async def told(self) -> None:
        """Wait until the instance is told to leave."""
        await self._told.wait()

    async def halted(self) -> None:
        """Wait until it is told again."""
        await self._halted.wait()

    async def sleep(self, seconds: float) -> None:
        """Wait a while, or until the instance is told to leave."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._told.wait()

    def _reap(self) -> None:
        """Take note of every process that has ended: children, and orphans that nobody else waits for."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for child in self._children:
                if child.pid == pid:
                    child.has_ended(os.waitstatus_to_exitcode(status))

    # ---- children --------------------------------------------------------------------------------------------------

    async def spawn(self) -> Offspring:
        """Start a child."""
        child = await spawn(self._command)
        self._children.add(child)
        self._reap()  # it may have ended before it was known
        child.send(self._start)
        return child

    async def greeted(self, child: Offspring) -> Hello | str:
        """Wait until a child has imported the app, or until it is known why there will be no greeting."""
        answer = await child.receive_or(self._told)
        if isinstance(answer, Hello):
            return answer
        if isinstance(answer, Unable):
            child.is_hopeless = True
            return answer.reason if answer.detail is None else f"{answer.reason}\n{answer.detail}"
        if self._told.is_set():
            return "the instance leaves"
        code = await child.ended()
        child.is_hopeless = code is not None and code >= 0  # a kill from outside says nothing about the app
        return f"a worker process {child.how_it_ended} before it had imported {self._start.app}"

    async def _dismiss(self, *children: Offspring) -> None:
        """End children that were never entered in the store, and so hold nothing."""
        for child in children:
            child.kill()
        for child in children:
            await child.close()
            self._children.discard(child)

    def forget(self, child: Offspring) -> None:
        """Take note that a child is gone, with everything it had started."""
        self._children.discard(child)


async def _close(close: Callable[[], Awaitable[object]], patience_s: float | None) -> None:
    """Close in order; a server that does not answer must not keep the process."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(patience_s):
            await close()
