"""Other processes, spoken with line by line."""

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

ROOT = Path(__file__).parents[2]
T = TypeVar("T")


class Program:
    """A module of the tests as a process of its own; it is killed at the end if it still runs."""

    def __init__(self, module: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            cwd=ROOT,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()

    def say(self, what: Any = None) -> None:
        """Send a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(what) + b"\n")
        self.process.stdin.flush()

    def hear(self, kind: type[T]) -> T:
        """Wait for a line."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the program ended with {self.process.wait()}"
        return msgspec.json.decode(line, type=kind)


def tell(what: Any) -> None:
    """Inside a program: send a line."""
    sys.stdout.write(msgspec.json.encode(what).decode() + "\n")
    sys.stdout.flush()


def wait_for_go() -> None:
    """Inside a program: say that it is ready, and wait until all others are."""
    tell("ready")
    sys.stdin.readline()
