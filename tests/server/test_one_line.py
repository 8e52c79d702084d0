"""A new field of a resource is one line in its type and one where it is built; everything that people see follows."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

import holdfast
from tests.server.running import program

TYPE = Path("resources/queue.py")
TYPE_LINE = '    name: Annotated[str, About("Name of the queue.", "high")]\n'
BUILDER = Path("client/queues.py")
BUILDER_LINE = "        name=row.name,\n"
STORE = "sqlite:///jobs.db"


def add_line(file: Path, after: str, line: str) -> None:
    """Add a line after another one, which the file has once."""
    before = file.read_text()
    assert before.count(after) == 1, f"{file} has another line now"
    file.write_text(before.replace(after, after + line))


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """Copy the package, and give queues one more field."""
    package = tmp_path / "holdfast"
    shutil.copytree(Path(holdfast.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    add_line(package / TYPE, TYPE_LINE, '    letters: Annotated[int, About("Letters of its name.", 4)]\n')
    add_line(package / BUILDER, BUILDER_LINE, "        letters=len(row.name),\n")
    return tmp_path


def test_a_new_field_is_seen_everywhere(changed: Path) -> None:
    env = {"PYTHONPATH": str(changed), "HOLDFAST_STORE": STORE}

    def run(*command: str) -> str:
        return subprocess.run(command, cwd=changed, env=env, check=True, capture_output=True, text=True).stdout

    def queue(*options: str) -> dict[str, Any]:
        (found,) = json.loads(run(sys.executable, "-m", "holdfast", *options, "queues", "list", "--json"))["queues"]
        assert isinstance(found, dict)
        return found

    run(sys.executable, "-m", "holdfast", "migrate", "up")
    run(sys.executable, "-m", "holdfast", "queues", "pause", "mail")
    local = queue()
    assert local["letters"] == 4
    with program(changed, "serve", "--port", "0", **env) as server:
        address = server.address()
        assert queue("--server", address) == local, "the remote client"
        assert httpx2.get(f"{address}/api/v1/queues").json()["queues"] == [local], "the API"
        schema = httpx2.get(f"{address}/api/v1/openapi.json").json()["components"]["schemas"]["QueueInfo"]
        assert server.end(signal.SIGTERM) == 0
    assert schema["properties"]["letters"] == {
        "type": "integer",
        "title": "Letters",
        "description": "Letters of its name.",
        "examples": [4],
    }
    catalogue = "from holdfast.resources.catalogue import describe; from holdfast import QueueInfo"
    reference = run(sys.executable, "-c", f"{catalogue}; print([field.name for field in describe(QueueInfo)])")
    assert "'name', 'letters'" in reference
