"""`jobs wait` and `enqueue --wait`: how jobs ended, what is drawn meanwhile, and which exit code it is."""

import asyncio
import io
import itertools
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from rich.console import Console

from holdfast import public_id, transitions
from holdfast.cli import bars, waiting
from holdfast.errors import StoreUnavailable
from holdfast.resources.job import Job
from tests.cli import working
from tests.cli.conftest import Shop
from tests.cli.test_output import ACTING

NOBODY = public_id.encode(7)

Happening = Callable[[Any], Awaitable[Any]]


async def complete_with_errors(store: Any) -> None:
    (job,) = await working.claim(store, "bulk")
    await store.finish_jobs([transitions.completed(job.id, job.claim, "null", with_errors=True)])


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """Let things happen in the store, one after each look of a command that waits; the answer lists the looks."""

    def arrange(*happenings: Happening) -> list[int]:
        looks: list[int] = []
        look = waiting.Watch.look

        async def watched(self: waiting.Watch, client: Any) -> None:
            await look(self, client)
            looks.append(len(self.awaited))
            if len(looks) <= len(happenings):
                await happenings[len(looks) - 1](client.store)

        monkeypatch.setattr(waiting.Watch, "look", watched)
        return looks

    return arrange


# ---- how jobs ended ------------------------------------------------------------------------------------------------


def test_a_job_that_has_ended(shop: Shop) -> None:
    job_id = shop.enqueue("transcode", "url=a")
    shop.on_store(lambda store: working.complete(store, "bulk"))
    result = shop("jobs", "wait", job_id)
    assert (result.exit_code, result.stdout, result.stderr) == (0, f'{job_id} completed {{"rows": 3}}\n', "")


def test_it_waits_for_the_end(shop: Shop, meanwhile: Callable[..., list[int]]) -> None:
    job_id = shop.enqueue("transcode", "url=a")
    looks = meanwhile(lambda store: working.complete(store, "bulk"))
    result = shop("jobs", "wait", job_id, "--timeout", "30s")
    assert (result.exit_code, result.stdout, result.stderr) == (0, f'{job_id} completed {{"rows": 3}}\n', "")
    assert looks == [1, 0]


def test_a_retry_while_it_waits_is_no_end(shop: Shop, meanwhile: Callable[..., list[int]]) -> None:
    job_id = shop.enqueue("transcode", "url=a")
    meanwhile(
        lambda store: working.retry_later(store, "bulk"),
        lambda store: store.reschedule_jobs([public_id.decode(job_id)], run_at=None, delay_ms=0),
        lambda store: working.complete(store, "bulk"),
    )
    assert shop.ok("jobs", "wait", job_id).startswith(f"{job_id} completed")


def test_a_failed_job_is_5_and_says_why(shop: Shop) -> None:
    job_id = shop.enqueue("transcode", "url=a")
    shop.on_store(lambda store: working.fail(store, "bulk"))
    result = shop("jobs", "wait", job_id)
    assert result.exit_code == 5
    assert result.stdout.startswith(f"{job_id} failed ValueError: no codec ")
    assert (result.stdout.count("\n"), result.stderr) == (1, "")
    assert not ACTING.search(result.stdout)


def test_a_cancelled_job_is_5_and_says_by_whom(shop: Shop) -> None:
    job_id = shop.enqueue("transcode", "url=a")
    shop.ok("jobs", "cancel", job_id, "--actor", "alice", "--reason", "wrong film")
    result = shop("jobs", "wait", job_id)
    assert (result.exit_code, result.stdout) == (5, f"{job_id} cancelled by alice: wrong film\n")


def test_a_cancelled_job_says_why_without_saying_who(shop: Shop) -> None:
    job_id = shop.enqueue("transcode", "url=a")
    shop.ok("jobs", "cancel", job_id, "--reason", "late")
    assert shop("jobs", "wait", job_id).stdout == f"{job_id} cancelled late\n"


def test_completed_with_errors_is_0(shop: Shop) -> None:
    job_id = shop.enqueue("transcode", "url=a")
    shop.on_store(complete_with_errors)
    assert shop.ok("jobs", "wait", job_id) == f"{job_id} completed_with_errors\n"


def test_no_such_job_is_3(shop: Shop) -> None:
    result = shop("jobs", "wait", NOBODY)
    assert (result.exit_code, result.stdout) == (3, "")
    assert "there is no such job" in result.stderr


def test_a_job_that_is_deleted_meanwhile_is_3(shop: Shop, meanwhile: Callable[..., list[int]]) -> None:
    job_id = shop.enqueue("transcode", "url=a")

    async def delete(store: Any) -> None:
        await working.complete(store, "bulk")
        await store.delete_jobs([public_id.decode(job_id)])

    meanwhile(delete)
    assert shop("jobs", "wait", job_id).exit_code == 3


def test_several_jobs_give_the_highest_code(shop: Shop, meanwhile: Callable[..., list[int]]) -> None:
    good, bad = shop.enqueue("transcode", "url=a"), shop.enqueue("resize", "path=a", "width=1")
    looks = meanwhile(
        lambda store: working.complete(store, "bulk"),
        lambda store: working.fail(store, "default"),
    )
    result = shop("jobs", "wait", good, NOBODY, bad, good)
    assert result.exit_code == 5
    assert [line.split()[:2] for line in result.stdout.splitlines()] == [[good, "completed"], [bad, "failed"]]
    assert NOBODY in result.stderr
    assert looks == [2, 1, 0]


# ---- as JSON -------------------------------------------------------------------------------------------------------


def test_as_json(shop: Shop) -> None:
    good, bad = shop.enqueue("transcode", "url=a"), shop.enqueue("resize", "path=a", "width=1")
    shop.on_store(lambda store: working.complete(store, "bulk"))
    shop.on_store(lambda store: working.fail(store, "default"))
    result = shop("jobs", "wait", good, bad, NOBODY, "--json")
    assert result.exit_code == 5
    first, second = json.loads(result.stdout)["jobs"]
    assert first == json.loads(shop.ok("jobs", "show", good, "--json"))
    assert (first["state"], first["result"], first["error"]) == ("completed", {"rows": 3}, None)
    assert (second["state"], second["error_class"]) == ("failed", "ValueError")
    assert second["error"].startswith("no codec ")
    assert json.loads(result.stderr)["error"]["type"] == "JobNotFound"


# ---- time ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", ["0s", "300ms"])
def test_not_in_time_is_124_and_the_job_goes_on(shop: Shop, timeout: str) -> None:
    job_id = shop.enqueue("transcode", "url=a")
    result = shop("jobs", "wait", job_id, "--timeout", timeout)
    assert (result.exit_code, result.stdout) == (124, "")
    assert "(queued); it goes on" in result.stderr
    assert json.loads(shop.ok("jobs", "show", job_id, "--json"))["state"] == "queued"
    as_json = shop("jobs", "wait", job_id, "--timeout", timeout, "--json")
    assert as_json.exit_code == 124
    (told,) = json.loads(as_json.stdout)["jobs"]
    assert (told["state"], told["finished_at"]) == ("queued", None)
    error = json.loads(as_json.stderr)["error"]
    assert (error["type"], error["exit_code"]) == ("ResultTimeout", 124)


def test_an_ended_job_needs_no_time(shop: Shop) -> None:
    job_id = shop.enqueue("transcode", "url=a")
    shop.on_store(lambda store: working.complete(store, "bulk"))
    assert shop.ok("jobs", "wait", job_id, "--timeout", "0s").startswith(f"{job_id} completed")


def test_wrong_values_are_refused_with_2(sqlite_shop: Shop) -> None:
    for args, said in (
        (["jobs", "wait"], "Missing argument"),
        (["jobs", "wait", "nonsense"], "expected"),
        (["jobs", "wait", NOBODY, "--timeout", "soon"], "--timeout: expected seconds"),
        (["enqueue", "send_email", "to=a", "--wait", "--wait-timeout", "soon"], "--wait-timeout: expected seconds"),
        (["enqueue", "send_email", "to=a", "--wait-timeout", "5s"], "--wait-timeout goes with --wait"),
    ):
        result = sqlite_shop(*args)
        assert (result.exit_code, result.stdout) == (2, ""), args
        assert said in result.stderr
    assert not (sqlite_shop.folder / "jobs.db").exists(), "nothing is opened for what is wrong"


def test_a_store_that_is_away_for_a_while_ends_no_wait(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = shop.enqueue("transcode", "url=a")
    look, looks = waiting.Watch.look, itertools.count()

    async def shaky(self: waiting.Watch, client: Any) -> None:
        number = next(looks)
        if number in (1, 2):
            message = "no answer from postgresql://u:s3cret@h/db"
            raise StoreUnavailable(message)
        if number == 3:
            await working.complete(client.store, "bulk")
        await look(self, client)

    monkeypatch.setattr(waiting.Watch, "look", shaky)
    result = shop("jobs", "wait", job_id)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{job_id} completed")
    assert result.stderr == "the store does not answer, still waiting: no answer from postgresql://u:***@h/db\n"


# ---- what is drawn -------------------------------------------------------------------------------------------------


def drawn(jobs: list[Job], most: int = 10) -> str:
    console = Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)
    console.print(bars.of_jobs(jobs, most))
    text = console.file.getvalue()  # type: ignore[attr-defined] # it is the StringIO from above
    assert isinstance(text, str)
    return text


def test_a_bar_follows_the_progress(sqlite_shop: Shop) -> None:
    sqlite_shop.enqueue("transcode", "url=a")
    sqlite_shop.enqueue("send_email", "to=a")
    sqlite_shop.on_store(lambda store: working.report(store, "bulk"))

    async def read(_: Any) -> list[Job]:
        return [job async for job in sqlite_shop.app.jobs.iterate()]

    jobs = sorted(sqlite_shop.on_store(read), key=lambda job: job.kind)
    waits, runs = drawn(jobs).splitlines()
    assert waits.split()[1:] == ["send_email", "queued"]
    assert runs.split()[1:3] == ["transcode", "running"]
    assert runs.rstrip().endswith("50 %  half way")
    assert drawn(jobs * 3, most=2).splitlines()[2].strip() == "and 4 more"


class Waiting:
    """A real process that waits, with a terminal as its stderr."""

    def __init__(self, shop: Shop, *args: str, **env: str) -> None:
        self.terminal, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *args],
            cwd=shop.folder,
            env={**os.environ, "TERM": "xterm-256color", "HOLDFAST_APP": "shop:app", **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=theirs,
        )
        os.close(theirs)
        self.seen = ""

    def see(self, text: str) -> None:
        """Read the terminal until it shows something."""
        while text not in self.seen:
            self.seen += os.read(self.terminal, 65_536).decode()

    def end(self) -> tuple[int, str]:
        """Wait for its end; the exit code, and what it answered."""
        answer = self.process.communicate()[0].decode()
        with_rest = True
        while with_rest:
            try:
                some = os.read(self.terminal, 65_536).decode()
            except OSError:  # Linux says so when the other side is closed
                some = ""
            self.seen += some
            with_rest = bool(some)
        os.close(self.terminal)
        return self.process.returncode, answer


def test_bars_on_a_terminal(sqlite_shop: Shop) -> None:
    job_id = sqlite_shop.enqueue("transcode", "url=a")
    waits = Waiting(sqlite_shop, "jobs", "wait", job_id, "--json")
    waits.see("queued")
    sqlite_shop.on_store(lambda store: working.report(store, "bulk"))
    waits.see("half way")
    assert " 50 %" in waits.seen

    async def end(store: Any) -> None:
        await store.finish_jobs([transitions.completed(public_id.decode(job_id), 1, "7")])

    sqlite_shop.on_store(end)
    code, answer = waits.end()
    assert (code, json.loads(answer)["jobs"][0]["result"]) == (0, 7), "stdout holds the answer alone"


def test_a_terminal_that_cannot_redraw_gets_no_bars(sqlite_shop: Shop) -> None:
    job_id = sqlite_shop.enqueue("transcode", "url=a")
    waits = Waiting(sqlite_shop, "jobs", "wait", job_id, "--timeout", "500ms", TERM="dumb")
    assert waits.end()[0] == 124
    assert waits.seen.startswith("Error: job ")


def test_ctrl_c_stops_the_waiting_and_no_job(sqlite_shop: Shop) -> None:
    job_id = sqlite_shop.enqueue("transcode", "url=a")
    waits = Waiting(sqlite_shop, "jobs", "wait", job_id)
    waits.see("queued")
    waits.process.send_signal(signal.SIGINT)
    assert waits.end() == (130, "")
    assert f"stopped waiting: job {job_id} goes on (queued)" in waits.seen
    assert "Traceback" not in waits.seen
    assert json.loads(sqlite_shop.ok("jobs", "show", job_id, "--json"))["state"] == "queued"


# ---- enqueue --wait ------------------------------------------------------------------------------------------------


def test_enqueue_and_wait(shop: Shop, meanwhile: Callable[..., list[int]]) -> None:
    meanwhile(lambda store: working.complete(store, "bulk"))
    result = shop("enqueue", "transcode", "url=a", "--wait", "--wait-timeout", "30s")
    assert (result.exit_code, result.stderr) == (0, "")
    job_id, ending = result.stdout.splitlines()
    assert public_id.decode(job_id)
    assert ending == 'completed {"rows": 3}'


def test_enqueue_and_wait_for_one_that_fails(shop: Shop, meanwhile: Callable[..., list[int]]) -> None:
    meanwhile(lambda store: working.fail(store, "bulk"))
    result = shop("enqueue", "transcode", "url=a", "--wait")
    assert result.exit_code == 5
    assert result.stdout.splitlines()[1].startswith("failed ValueError: no codec ")


def test_enqueue_and_wait_as_json_is_one_document(shop: Shop, meanwhile: Callable[..., list[int]]) -> None:
    meanwhile(lambda store: working.complete(store, "bulk"))
    told = json.loads(shop.ok("enqueue", "transcode", "url=a", "--wait", "--json"))
    assert told == json.loads(shop.ok("jobs", "show", told["id"], "--json")) | {"created": True}
    assert (told["state"], told["result"], told["error"]) == ("completed", {"rows": 3}, None)


def test_enqueue_and_wait_not_in_time(shop: Shop) -> None:
    result = shop("enqueue", "transcode", "url=a", "--wait", "--wait-timeout", "0s", "--timeout", "5m")
    assert result.exit_code == 124
    job = json.loads(shop.ok("jobs", "show", result.stdout.strip(), "--json"))
    assert (job["state"], job["timeout_ms"]) == ("queued", 300_000), "the two timeouts are different things"


def test_an_existing_job_is_waited_for(shop: Shop, meanwhile: Callable[..., list[int]]) -> None:
    first = shop.enqueue("transcode", "url=a", "--unique", "u")
    meanwhile(lambda store: working.complete(store, "bulk"))
    result = shop("enqueue", "transcode", "url=a", "--unique", "u", "--wait")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == first
    assert result.stderr.startswith("existing: ")


def test_ctrl_c_while_an_enqueued_job_is_waited_for(sqlite_shop: Shop, meanwhile: Callable[..., list[int]]) -> None:
    async def press_ctrl_c(store: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    meanwhile(press_ctrl_c)
    result = sqlite_shop("enqueue", "transcode", "url=a", "--wait")
    assert result.exit_code == 130
    assert result.stderr == f"stopped waiting: job {result.stdout.strip()} goes on (queued)\n"
