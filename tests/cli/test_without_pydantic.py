"""pydantic belongs to the server: everything else starts and works where nobody has installed it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.running import program

HIDDEN = """
import sys

for name in ("pydantic", "pydantic_core", "fastapi", "starlette"):
    sys.modules[name] = None  # an import of it fails, as if it were not installed
"""
APP = """
from holdfast import Holdfast

app = Holdfast("sqlite:///jobs.db")

@app.task
async def double(number: int) -> int:
    return 2 * number
"""
CLIENT = """
import asyncio
import holdfast.remote.client
import holdfast.testing
from shop import app, double

async def main():
    async with app:
        handle = await double.enqueue(number=4)
        await app.run_worker(until="empty")
        print(await handle.result(timeout=20))

asyncio.run(main())
"""


@pytest.fixture
def hidden(tmp_path: Path) -> dict[str, str]:
    """An environment in which no program finds pydantic, worker processes included."""
    (tmp_path / "sitecustomize.py").write_text(HIDDEN, encoding="utf-8")
    (tmp_path / "shop.py").write_text(APP, encoding="utf-8")
    return {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}


def run(folder: Path, environment: dict[str, str], *args: str) -> str:
    result = subprocess.run(
        [sys.executable, *args], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_a_client_and_a_worker_need_no_pydantic(tmp_path: Path, hidden: dict[str, str]) -> None:
    blocked = "import pydantic"
    assert subprocess.run([sys.executable, "-c", blocked], env=hidden, stderr=subprocess.PIPE, check=False).returncode
    assert run(tmp_path, hidden, "-c", CLIENT) == "8\n"
    job = run(tmp_path, hidden, "-m", "holdfast", "enqueue", "-A", "shop:app", "double", "number:=3").strip()
    run(tmp_path, hidden, "-m", "holdfast", "worker", "-A", "shop:app", "--drain")
    shown = run(tmp_path, hidden, "-m", "holdfast", "jobs", "show", "-A", "shop:app", job, "--json")
    assert re.search(r'"result": ?6\b', shown)


def test_a_remote_client_needs_no_pydantic(tmp_path: Path, hidden: dict[str, str]) -> None:
    run(tmp_path, hidden, "-c", CLIENT)
    with program(tmp_path, "serve", "-A", "shop:app", "--port", "0") as server:
        listed = run(tmp_path, hidden, "-m", "holdfast", "--server", server.address(), "jobs", "list", "--json")
    assert '"double"' in listed


def test_a_server_says_which_packages_it_needs(tmp_path: Path, hidden: dict[str, str]) -> None:
    command = [sys.executable, "-m", "holdfast", "serve", "-A", "shop:app", "--port", "0"]
    result = subprocess.run(command, cwd=tmp_path, env=hidden, capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert "the server needs packages that are not installed" in result.stderr
