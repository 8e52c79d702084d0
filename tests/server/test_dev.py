"""`holdfast dev`: a server and a worker side by side, begun anew when a file changes or one of them dies."""

import os
import signal
from pathlib import Path

import httpx2
import pytest

from holdfast.server.development import stamps
from tests.server.running import program
from tests.support.wait import PATIENCE_S, wait_until
from tests.support.web import PAGE, form_token

SOURCE = """
import os
from holdfast import Holdfast

app = Holdfast("sqlite:///jobs.db", synchronous="normal")

@app.task
async def shout(word: str) -> str:
    return word.upper() + "{mark}"
"""


def children(pid: int) -> dict[str, int]:
    """Name the processes that a process has started: `serve` and `worker`."""
    found: dict[str, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                status = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
                words = (folder / "cmdline").read_text(encoding="utf-8").split("\0")
            except OSError:
                continue
            if int(status[1]) == pid and status[0] != "Z":
                found |= {word: int(folder.name) for word in ("serve", "worker") if word in words}
    return found


def until_others(pid: int, before: dict[str, int]) -> dict[str, int]:
    """Wait until both processes are others."""
    now: dict[str, int] = {}

    def are_others() -> bool:
        now.clear()
        now.update(children(pid))
        return len(now) == 2 and all(now[name] != before.get(name) for name in now)

    wait_until(are_others, f"{before} are others")
    return now


def ran(web: httpx2.Client, token: str, address: str) -> str:
    """Enqueue a job and wait for its result."""
    headers = {"x-form-token": token, "origin": address}
    made = web.post("/api/v1/jobs", json={"kind": "shout", "args": {"word": "hi"}}, headers=headers)
    assert made.status_code in (200, 201), made.text
    job = made.json()
    job_id = job.get("id") or job["job"]["id"]
    path = f"/api/v1/jobs/{job_id}"
    wait_until(lambda: web.get(path).json().get("result") is not None, "the job has a result")
    return str(web.get(path).json()["result"])


def put(file: Path, text: str) -> None:
    """Save a file as a whole, as editors do: one that is empty for a moment is a change of its own."""
    new = file.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.replace(file)


@pytest.mark.real_time
def test_write_look_change_and_leave(tmp_path: Path) -> None:
    """Begin with a mistake, log in by the link, run a job, change its task, kill the server, leave with Ctrl-C."""
    file = tmp_path / "tasks.py"
    with program(tmp_path, "dev", "-A", "tasks:app", "--port", "0", "--reload") as dev:
        dev.until("the server has ended with exit code 2; it is started again when a file changes")
        put(file, SOURCE.format(mark="!"))
        address = dev.address()
        link = dev.until(r"(/login\?link=hf_\S+)")[1]
        with httpx2.Client(base_url=address) as web:
            assert web.get("/api/v1/queues").status_code == 401, "even on this machine"
            page = web.get(link, headers=PAGE)
            fields = {"form_token": form_token(page), "link": link.partition("link=")[2]}
            assert web.post("/login", data=fields, headers={"origin": address}).status_code == 303
            assert ran(web, form_token(web.get("/queues", headers=PAGE)), address) == "HI!"
            cookies = dict(web.cookies)
            for method, path, headers, status in (
                ("GET", "/", {"host": "evil.example"}, 421),
                ("GET", "/api/v1/stream", {"origin": "null"}, 403),
                ("POST", "/logout", {"origin": "http://evil.example"}, 403),
            ):
                assert web.request(method, path, headers=headers).status_code == status, path
        before = children(dev.process.pid)
        for pid in (dev.process.pid, *before.values()):
            assert fields["link"].encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
            assert fields["link"].encode() not in Path(f"/proc/{pid}/environ").read_bytes()
        put(file, SOURCE.format(mark="?"))
        dev.until("has changed")
        now = until_others(dev.process.pid, before)
        address = dev.address()
        with httpx2.Client(base_url=address, cookies=cookies) as web:
            assert ran(web, form_token(web.get("/queues", headers=PAGE)), address) == "HI?", "the login still holds"
        os.kill(now["serve"], signal.SIGKILL)
        dev.until("the server has ended with exit code -9; it is started again in 0.5 s")
        dev.address()
        last = children(dev.process.pid)
        assert dev.end(signal.SIGINT) == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in last.values())


def test_a_mistake_ends_it(tmp_path: Path) -> None:
    with program(tmp_path, "dev", "-A", "tasks:app", "--port", "0") as dev:
        dev.until("there is no module tasks")
        assert dev.process.wait(PATIENCE_S) == 2


def test_files_that_count(tmp_path: Path) -> None:
    for name in ("a.py", "b/c.py", "holdfast.yaml", ".venv/x.py", "b/__pycache__/c.py", "notes.txt", "jobs.db"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x", encoding="utf-8")
    assert {str(Path(file).relative_to(tmp_path)) for file in stamps([tmp_path])} == {"a.py", "b/c.py", "holdfast.yaml"}
