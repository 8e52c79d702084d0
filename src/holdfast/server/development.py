"""A server and a worker for whoever writes tasks: two processes, begun anew when a file changes or one of them dies.

Two, because a handler that blocks would otherwise freeze the dashboard; and the parent imports no code of the user, so
that a mistake in it can be mended while this runs.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

_LOOK_S = 0.5
_DRAIN_S = 2.0
_LEAVE_S = 5.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 10.0
_WELL_S = 10.0  # whoever lived for so long was well
_MOST_FILES = 20_000
_USAGE = 2
_NOT_COME_UP = (1, _USAGE)
_KINDS = (".py", ".yaml", ".yml", ".toml")
_NOT_OURS = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "build", "dist"})


class Child:
    """One of the processes: its name and its command, of which the first that comes up is told more."""

    def __init__(self, name: str, command: Sequence[str], first: Sequence[str] = ()) -> None:
        self.name = name
        self._command = (*command,)
        self._first = (*first,)
        self._process: asyncio.subprocess.Process | None = None
        self._begun_at = 0.0
        self._wait_s = _FIRST_WAIT_S

    @property
    def pid(self) -> int | None:
        """Its process, while there is one."""
        return None if self._process is None or self._process.returncode is not None else self._process.pid

    async def begin(self) -> None:
        """Start it, away from the terminal: a Ctrl-C there is for the parent alone."""
        self._begun_at = time.monotonic()
        self._process = await asyncio.create_subprocess_exec(
            *self._command, *self._first, stdin=asyncio.subprocess.DEVNULL, start_new_session=True
        )

    async def ended(self) -> int:
        """Wait for its end; the answer is its exit code."""
        code = 0 if self._process is None else await self._process.wait()
        if code not in _NOT_COME_UP:
            self._first = ()
        return code

    def patience_s(self) -> float:
        """How long to wait before it is begun again: longer each time it dies soon."""
        is_well = time.monotonic() - self._begun_at > _WELL_S
        wait_s, self._wait_s = (_FIRST_WAIT_S, _FIRST_WAIT_S) if is_well else (self._wait_s, self._wait_s * 2)
        self._wait_s = min(self._wait_s, _LONGEST_WAIT_S)
        return wait_s

    async def leave(self) -> None:
        """Let it end: at first as it likes, then giving back what it runs, then at once."""
        for number, wait_s in ((signal.SIGTERM, _DRAIN_S), (signal.SIGTERM, _LEAVE_S), (signal.SIGKILL, None)):
            if self._process is None or self._process.returncode is not None:
                return
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._process.wait()


class Development:
    """The parent of both."""

    def __init__(self, children: Sequence[Child], watched: Sequence[Path] | None, say: Callable[[str], None]) -> None:
        self._children = children
        self._watched = watched  # None: files may change as they like
        self._say = say
        self._told = asyncio.Event()
        self._changed = asyncio.Event()
        self._code = 0

    async def run(self) -> int:
        """Keep both running until told to stop; the answer is the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._told.set)
        tasks = [asyncio.create_task(self._keep(child), name=f"holdfast dev {child.name}") for child in self._children]
        if self._watched is not None:
            tasks.append(asyncio.create_task(self._watch(self._watched), name="holdfast dev files"))
        try:
            await self._told.wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*(child.leave() for child in self._children))
        return self._code

    async def _keep(self, child: Child) -> None:
        """Keep one of them running."""
        while True:
            changed = self._changed
            await child.begin()
            ended = asyncio.ensure_future(child.ended())
            changing = asyncio.ensure_future(changed.wait())
            try:
                await asyncio.wait((ended, changing), return_when=asyncio.FIRST_COMPLETED)
                if not ended.done():
                    await child.leave()
                    continue
                await self._after(child, ended.result(), changed)
            finally:
                changing.cancel()
                ended.cancel()

    async def _after(self, child: Child, code: int, changed: asyncio.Event) -> None:
        """Decide what comes after an end that nobody asked for."""
        if code == _USAGE and self._watched is None:
            self._code = code  # nothing will be different the next time, and it has said why
            self._told.set()
        wait_s = None if code == _USAGE else child.patience_s()
        when = "when a file changes" if wait_s is None else f"in {wait_s:g} s"
        self._say(f"the {child.name} has ended with exit code {code}; it is started again {when}")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await changed.wait()

    async def _watch(self, folders: Sequence[Path]) -> None:
        """Look at the files twice a second: no system tells of changes everywhere, in containers least of all."""
        before = await asyncio.to_thread(stamps, folders)
        while True:
            await asyncio.sleep(_LOOK_S)
            now = await asyncio.to_thread(stamps, folders)
            if now != before:
                name = next(iter(sorted(str(file) for file, _ in now.items() ^ before.items())))
                self._say(f"{name} has changed: server and worker are started again")
                changed, self._changed, before = self._changed, asyncio.Event(), now
                changed.set()


def stamps(folders: Sequence[Path]) -> dict[str, tuple[int, int]]:
    """Read when each file that an app may consist of was written, and how large it is."""
    found: dict[str, tuple[int, int]] = {}
    for folder in folders:
        for place, below, files in os.walk(folder):
            below[:] = [name for name in below if name not in _NOT_OURS and not name.startswith(".")]
            for name in files:
                if name.endswith(_KINDS) and len(found) < _MOST_FILES:
                    file = os.path.join(place, name)  # noqa: PTH118 - twice a second for every file
                    with contextlib.suppress(OSError):
                        state = os.stat(file)  # noqa: PTH116 - the same
                        found[file] = (state.st_mtime_ns, state.st_size)
    return found
