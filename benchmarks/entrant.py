"""A contestant as the harness sees it: commands that run in the contestant's own environment."""

import contextlib
import json
import os
import queue
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.contestants.contestant import LEDGER, URL
from benchmarks.environments import ROOT
from benchmarks.roster import Entry

_ANSWER_S = 30.0


class RunFailed(Exception):
    """A run gave no figure; the message says why."""


class Entrant:
    """One contestant, its interpreter and the place that a run has on its store."""

    def __init__(self, entry: Entry, python: Path, url: str = "", ledger: Path | None = None) -> None:
        self.entry = entry
        self._command = [str(python), "-m", f"benchmarks.contestants.{entry.module}"]
        # A peer's own worker command imports the module too, and not every one looks into the working directory.
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT), URL: url}
        # Beside the interpreter are the commands that a library brings.
        self.environment["PATH"] = os.pathsep.join([str(python.parent), os.environ.get("PATH", "")])
        if ledger is not None:
            self.environment[LEDGER] = str(ledger)

    def ask(self, verb: str, *options: object, within: float) -> Any:
        """Run a verb, and read the answer from the last line that it printed."""
        command = [*self._command, verb, *map(str, options)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, env=self.environment, cwd=ROOT, timeout=within
            )
        except subprocess.TimeoutExpired:
            message = f"{verb} took longer than {within:.0f} s"
            raise RunFailed(message) from None
        lines = done.stdout.split("\n")
        if done.returncode != 0 or len(lines) < 2:
            message = f"{verb} ended with {done.returncode}: {last_line(done.stderr)}"
            raise RunFailed(message)
        return json.loads(lines[-2])

    @contextmanager
    def watched(self) -> Iterator[Callable[[], int]]:
        """Give a function that asks a waiting process how many jobs are open in the store."""
        with subprocess.Popen(
            [*self._command, "watch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            cwd=ROOT,
            start_new_session=True,
        ) as process:
            answers: queue.SimpleQueue[str] = queue.SimpleQueue()
            reading = threading.Thread(target=_read, args=(process, answers), daemon=True)
            reading.start()
            try:
                yield lambda: _asked(process, answers)
            finally:
                with contextlib.suppress(OSError):
                    if process.stdin is not None:
                        process.stdin.close()
                try:
                    process.wait(timeout=_ANSWER_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                reading.join()


def _read(process: "subprocess.Popen[str]", answers: "queue.SimpleQueue[str]") -> None:
    for line in process.stdout or ():
        answers.put(line)
    answers.put("")


def _asked(process: "subprocess.Popen[str]", answers: "queue.SimpleQueue[str]") -> int:
    try:
        if process.stdin is not None:
            process.stdin.write("\n")
            process.stdin.flush()
        answer = answers.get(timeout=_ANSWER_S)
    except (OSError, queue.Empty):
        answer = ""
    if answer.strip().isdecimal():
        return int(answer)
    process.kill()
    said = process.stderr.read() if process.stderr is not None else ""
    message = f"watch gave no answer: {last_line(said)}"
    raise RunFailed(message)


def last_line(said: str) -> str:
    """Pick the line that most likely says what went wrong."""
    lines = [line for line in said.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"
