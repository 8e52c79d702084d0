"""Children to be killed, forked so that what they import is imported once."""

import os
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

Say = Callable[[str], None]


class Ended(NamedTuple):
    """What a child said line by line, and whether a signal ended it."""

    lines: list[str]
    was_killed: bool

    def rest(self, word: str) -> list[str]:
        """What stands behind a word at the start of lines."""
        return [line.removeprefix(f"{word} ") for line in self.lines if line.startswith(f"{word} ")]


def run_child(work: Callable[[Say], None], killed_after_ms: float | None) -> Ended:
    """Run `work` in a child; SIGKILL comes so long after its first line, unless it is to end by itself."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _work(work, writing)
    os.close(writing)
    said = os.read(reading, 65_536)
    if killed_after_ms is not None:
        time.sleep(killed_after_ms / 1_000)  # the fault strikes at any moment of the work
        os.kill(pid, signal.SIGKILL)  # nobody has waited for it yet, so the number is still its own
    while more := os.read(reading, 65_536):
        said += more
    os.close(reading)
    _, status = os.waitpid(pid, 0)
    return Ended(said.decode(errors="replace").splitlines(), os.WIFSIGNALED(status))


def die() -> None:
    """End this process as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)


def _work(work: Callable[[Say], None], writing: int) -> None:
    def say(line: str) -> None:
        os.write(writing, f"{line}\n".encode())

    try:
        work(say)
    except BaseException as error:  # noqa: BLE001 - the parent reports it
        say(f"failure {type(error).__name__}: {error}".replace("\n", " "))
        os._exit(1)
    os._exit(0)
