"""Programs that run beside a test: started, read line by line, and gone at its end."""

import os
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.wait import PATIENCE_S

ADDRESS = re.compile(r"Holdfast is at (http://\S+)")


class Program:
    """One `holdfast` command."""

    def __init__(self, folder: Path, *args: str, **env: str) -> None:
        self.lines: list[str] = []
        self._new: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *args],
            cwd=folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self._new.put(line)

    def until(self, pattern: str) -> re.Match[str]:
        """Read on until a line fits."""
        end = time.monotonic() + PATIENCE_S
        while (left := end - time.monotonic()) > 0:
            try:
                line = self._new.get(timeout=min(left, 0.2))
            except queue.Empty:
                if self.process.poll() is not None and self._new.empty() and not self._reader.is_alive():
                    break
                continue
            self.lines.append(line)
            if found := re.search(pattern, line):
                return found
        message = f"no line fits {pattern!r}: {''.join(self.lines)}"
        raise AssertionError(message)

    def address(self) -> str:
        """Where it serves."""
        return self.until(ADDRESS.pattern)[1].rstrip("/")

    def rest(self) -> list[str]:
        """The lines that have not been read, once the program has ended."""
        self._reader.join(PATIENCE_S)
        return [self._new.get() for _ in range(self._new.qsize())]

    def end(self, number: int) -> int:
        """Send a signal and give the exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


@contextmanager
def program(folder: Path, *args: str, **env: str) -> Iterator[Program]:
    """Run a command while a block runs."""
    running = Program(folder, *args, **env)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.kill()
        running.process.wait()
        if running.process.stdout is not None:
            running._reader.join(5)
            running.process.stdout.close()


def fields(**given: Any) -> str:
    """Write the section `server` of a configuration file."""
    return "store: sqlite:///jobs.db\nserver:\n" + "".join(f"  {name}: {value}\n" for name, value in given.items())
