"""Prometheus from Debian's package, for a while, on a port of its own."""

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.support import debian
from tests.support.ports import free_port
from tests.support.wait import PATIENCE_S, wait_until


class Prometheus:
    """A running server."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def ask(self, path: str, **parameters: str) -> dict[str, Any]:
        """Ask its API."""
        url = f"{self._url}{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:  # noqa: S310 - the server started here
            found: dict[str, Any] = json.load(answer)
        assert found["status"] == "success", found
        return found

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Evaluate an expression now."""
        found: list[dict[str, Any]] = self.ask("/api/v1/query", query=expression)["data"]["result"]
        return found

    def value(self, expression: str) -> float | None:
        """Evaluate an expression that gives one number, or none yet."""
        found = self.query(expression)
        assert len(found) < 2, found
        return float(found[0]["value"][1]) if found else None

    def wait_until_ready(self, process: subprocess.Popen[bytes], log: Path) -> None:
        """Wait until it answers."""

        def is_ready() -> bool:
            try:
                self.ask("/api/v1/status/buildinfo")
            except OSError:
                assert process.poll() is None, log.read_text()
                return False
            return True

        wait_until(is_ready, "Prometheus answers")


@contextmanager
def scraping(folder: Path, targets: Sequence[int], rules: Path) -> Iterator[Prometheus]:
    """Let Prometheus scrape processes of this host, once a second."""
    port = free_port()
    settings = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [
            {"job_name": "holdfast", "static_configs": [{"targets": [f"127.0.0.1:{target}" for target in targets]}]}
        ],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
    log = folder / "prometheus.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [
                debian.program("prometheus"),
                f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/tsdb",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    try:
        prometheus = Prometheus(port)
        prometheus.wait_until_ready(process, log)
        yield prometheus
    finally:
        process.kill()
        process.wait()
