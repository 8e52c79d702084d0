"""A child process as its supervisor sees it."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from holdfast.telemetry.meter import Gauge
from holdfast.transitions import Transition
from holdfast.worker import groups, orders
from holdfast.worker.marks import Marks
from holdfast.worker.orders import FromChild, Marking, ToChild

_LARGEST = 64 * 1024 * 1024
_LAST_WORDS_S = 0.1  # for what a dead child had said; a program that it started may keep the line open


class Offspring:
    """One child: its process, its line, its marks, and what became of it."""

    def __init__(
        self, process: subprocess.Popen[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.pid = process.pid
        self.index = 0  # its place in the instance
        self.worker: int | None = None
        self.entered_at = 0  # when that id was got, in monotonic nanoseconds
        self.marks: Marks | None = None
        self.gauges: list[Gauge] = []  # what it said last of what it is busy with
        self.is_unresponsive = False
        self.is_hopeless = False  # another one would end in the same way
        self.is_recycling = False
        self.is_readopted = False  # a fresh id is being asked for
        self.has_left = False  # it said goodbye
        self.is_killed = False  # by us, and through no fault of its jobs
        self.is_accused = False  # a handler of it ignores its timeout
        self.sentence: tuple[str, list[Transition]] | None = None  # why it was killed, and who answers for it
        self.exit_code: int | None = None
        self._marks_file: Path | None = None
        self._process = process
        self._reader = reader
        self._writer = writer
        self._ended = asyncio.Event()

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self.exit_code is None

    @property
    def has_worked(self) -> bool:
        """Whether it has finished a job."""
        return self.marks is not None and self.marks.finished > 0

    @property
    def how_it_ended(self) -> str:
        """What its exit code says."""
        code = self.exit_code
        if code is None:
            return "is running"
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    # ---- the line --------------------------------------------------------------------------------------------------

    def send(self, order: ToChild) -> None:
        """Tell the child something; one that is gone does not hear it."""
        if not self._writer.is_closing():
            self._writer.write(orders.write(order))

    async def receive(self) -> FromChild | None:
        """Wait for the next word of the child; None when it is gone."""
        while True:
            try:
                line = await self._reader.readline()
            except (ConnectionError, ValueError):
                line = b""
            answer = orders.read_answer(line) if line.endswith(b"\n") else None
            if not isinstance(answer, Marking):
                return answer
            self._marks_file = Path(answer.path)

    async def receive_or(self, event: asyncio.Event) -> FromChild | None:
        """Wait for the next word of the child, or for an event, which is answered with None."""
        word, other = asyncio.ensure_future(self.receive()), asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait({word, other}, return_when=asyncio.FIRST_COMPLETED)
            return word.result() if word.done() else None
        finally:
            other.cancel()
            word.cancel()

    # ---- its end ---------------------------------------------------------------------------------------------------

    def has_ended(self, exit_code: int) -> None:
        """Take note of its end."""
        self.exit_code = self._process.returncode = exit_code
        self._ended.set()

    async def ended(self) -> int | None:
        """Wait for its end."""
        await self._ended.wait()
        return self.exit_code

    def kill(self) -> None:
        """Kill it, and what it started."""
        groups.kill(self.pid)

    def kill_acquitted(self) -> None:
        """Kill it through no fault of its jobs; another instance of this host may find it before we give them back."""
        if self.marks is not None:
            self.marks.acquit()
        self.kill()

    async def end_all(self, others: Iterable[int]) -> None:
        """Kill its process group, and those of the processes that it had spawned for jobs, and wait until all are gone.

        The numbers of the latter come from a file, and it may say anything: 1 would mean all processes of this user.
        """
        for group in (self.pid, *others):
            if group == self.pid or groups.has_child_in(group):  # guard: foreign-group
                groups.kill(group)
                await groups.emptied(group)

    async def close(self) -> None:
        """Wait for its end, then let go of its line and remove its marks, even those of which nothing was heard yet."""
        await self.ended()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                while await self.receive() is not None:
                    pass
        self._writer.close()
        if self.marks is not None:
            self.marks.close()
            self.marks = None
        if self._marks_file is not None:  # guard: marks-removal
            self._marks_file.unlink(missing_ok=True)


async def spawn(command: Sequence[str]) -> Offspring:
    """Start a child by exec, in a session of its own, so that signals of a terminal reach the supervisor alone."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(  # noqa: ASYNC220, S603 - this project's own program; exec takes a millisecond
            [sys.executable, *command, str(theirs.fileno()), str(os.getpid())],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    ours.settimeout(0)
    return Offspring(process, *await asyncio.open_connection(sock=ours, limit=_LARGEST))
