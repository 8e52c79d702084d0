"""The worker processes of one run: started, watched and stopped by their own handles."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks import tree
from benchmarks.entrant import RunFailed, last_line
from benchmarks.environments import ROOT

_GOODBYE_S = 15.0


class Workers:
    """Commands that run jobs until they are told to leave."""

    def __init__(self, commands: Sequence[Sequence[str]], environment: Mapping[str, str], log: Path) -> None:
        self._commands = commands
        self._environment = environment
        self._log = log
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        with self._log.open("ab") as said:
            for command in self._commands:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    env=self._environment,
                    cwd=ROOT,
                    start_new_session=True,  # Ctrl-C is for the harness, and a group can be killed as a whole
                )
                self._running.append(process)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._running:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        for process in self._running:
            try:
                process.wait(timeout=_GOODBYE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)  # what a worker left behind

    def check(self) -> None:
        """Fail when one of them has ended by itself."""
        for process in self._running:
            if process.poll() is not None:
                said = self._log.read_text(encoding="utf-8", errors="replace")
                message = f"a worker ended with {process.returncode}: {last_line(said)}"
                raise RunFailed(message)

    def cpu_s(self) -> float:
        """CPU seconds of all of them and what they started."""
        return tree.cpu_s(process.pid for process in self._running)
