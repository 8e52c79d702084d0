"""Real worker processes: started as a user starts them, found, stopped, continued and killed."""

import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.wait import PATIENCE_S, until

ROOT = Path(__file__).parents[2]


class Group:
    """One `holdfast worker`: a supervisor and its children."""

    def __init__(
        self,
        env: dict[str, str],
        log: Path,
        *options: str,
        app: str = "tests.support.ledger_app:app",
        before: Sequence[str] = (),
        stdin: int | None = None,
    ) -> None:
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [*before, sys.executable, "-m", "holdfast", "-A", app, "worker", *options],
                env={**os.environ, "PYTHONPATH": str(ROOT), **env},
                cwd=ROOT,
                stdin=stdin,
                stdout=output,
                stderr=output,
            )
        self.pid = self.process.pid

    @property
    def children(self) -> list[int]:
        """The worker processes that run now."""
        try:
            text = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        except OSError:
            return []
        return [int(pid) for pid in text.split()]

    def kill_child(self) -> int | None:
        """Kill one child, whichever."""
        children = self.children
        if not children:
            return None
        pid = random.choice(children)
        return pid if send(pid, signal.SIGKILL) else None

    def kill_all(self) -> None:
        """Kill the supervisor and its children at one stroke."""
        for pid in (self.pid, *self.children):
            send(pid, signal.SIGKILL)
        self.process.wait()

    def signal(self, number: int) -> None:
        """Send a signal to the supervisor."""
        send(self.pid, number)

    async def started(self) -> None:
        """Wait until the supervisor has a child: from then on it handles signals."""
        await until(lambda: self.children, "the worker has started a process")

    async def ended(self, patience_s: float = PATIENCE_S) -> int:
        """Wait for the end of the supervisor; its exit code."""
        await until(lambda: self.process.poll() is not None, "the worker has ended", patience_s)
        return int(self.process.returncode)

    def said(self) -> str:
        """What it logged."""
        return self.log.read_text(errors="replace")

    def close(self) -> None:
        """End it, however it stands."""
        children = self.children
        for pid in (*children, self.pid):
            send(pid, signal.SIGCONT)
            send(pid, signal.SIGKILL)
        self.process.wait()


def send(pid: int, number: int) -> bool:
    """Send a signal; False when the process is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False


def is_running(pid: int) -> bool:
    """Whether a process is there and not merely waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
