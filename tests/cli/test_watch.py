"""`jobs watch`: a line for each thing that happens to a job, and which exit code it is."""

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast import public_id, transitions
from holdfast.cli import watching
from holdfast.client.local_jobs import LocalJobs
from holdfast.events import EventType
from holdfast.resources.event import Event
from holdfast.resources.job import Job
from tests.cli import working
from tests.cli.conftest import Shop
from tests.cli.test_output import ACTING, STYLE, in_terminal

NOBODY = public_id.encode(7)

Happening = Callable[[Any], Awaitable[Any]]


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let things happen in the store as soon as a command watches it."""

    def arrange(*happenings: Happening) -> None:
        looks: list[Job] = []
        get = LocalJobs.get

        async def looked(self: LocalJobs, job: int | str) -> Job:
            looks.append(await get(self, job))
            if len(looks) == 2:  # the first look is before the watching, the second is the first thing in it
                for happening in happenings:
                    await happening(self._store)
            return looks[-1]

        monkeypatch.setattr(LocalJobs, "get", looked)

    return arrange


async def run_and_complete(store: Any) -> None:
    """Let a job say something of everything, and end with an item that failed."""
    job = await working.talk(store, "bulk")
    await store.finish_jobs([transitions.completed(job.id, job.claim, "3", with_errors=True)])


def test_everything_that_happens(shop: Shop, meanwhile: Callable[..., None]) -> None:
    job_id = shop.enqueue("transcode", "url=u")
    meanwhile(run_and_complete)
    result = shop("jobs", "watch", job_id)
    assert (result.exit_code, result.stderr) == (0, "")
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert [row[1] for row in rows] == ["job:started", "job:progress", "job:phase:completed", "job:completed"]
    assert all(row[0].endswith("Z") for row in rows)
    assert rows[0][2] == "attempt 1"
    assert rows[1][2].startswith(" 75 %  encode  50 %  \\x1b]0;owned")
    assert "a completed, b skipped (empty), c failed (ValueError: " in rows[1][2]
    assert rows[2][2] == " 75 % download"
    assert rows[3][2] == "completed_with_errors, attempt 1"
    assert not ACTING.search(result.stdout)


def test_as_json_it_is_an_object_for_each_line(shop: Shop, meanwhile: Callable[..., None]) -> None:
    job_id = shop.enqueue("transcode", "url=u")
    meanwhile(run_and_complete)
    events = [json.loads(line) for line in shop.ok("jobs", "watch", job_id, "--json").splitlines()]
    assert [event["type"] for event in events][-1] == "job:completed"
    assert " ".join(events[1]) == "type id at kind queue state run claim attempt data"
    assert {event["id"] for event in events} == {job_id}
    assert (events[1]["kind"], events[1]["queue"], events[1]["state"]) == ("transcode", "bulk", "running")
    assert (events[1]["data"]["percent"], events[1]["data"]["phase"]) == (75, "encode")
    assert events[3]["state"] == "completed_with_errors"


def test_a_job_that_has_ended_gives_its_end(shop: Shop) -> None:
    job_id = shop.enqueue("transcode", "url=u")
    shop.on_store(lambda store: working.complete(store, "bulk"))
    (row,) = shop.ok("jobs", "watch", job_id).splitlines()
    assert row.split("\t")[1:] == ["job:completed", "completed, attempt 1"]


def test_a_job_that_fails_is_5(shop: Shop, meanwhile: Callable[..., None]) -> None:
    job_id = shop.enqueue("transcode", "url=u")
    meanwhile(lambda store: working.fail(store, "bulk"))
    result = shop("jobs", "watch", job_id)
    assert result.exit_code == 5
    assert result.stdout.splitlines()[-1].split("\t")[1] == "job:failed"
    assert "attempt 1: ValueError: no codec \\x1b]0;owned" in result.stdout
    assert shop("jobs", "watch", job_id).exit_code == 5, "also when it is over already"


def test_a_cancelled_job_is_5(shop: Shop, meanwhile: Callable[..., None]) -> None:
    job_id = shop.enqueue("transcode", "url=u")
    meanwhile(lambda store: store.cancel_jobs([public_id.decode(job_id)], actor=None, reason=None))
    result = shop("jobs", "watch", job_id)
    assert (result.exit_code, result.stdout.split("\t")[1]) == (5, "job:cancelled")


def test_a_retry_is_no_end(shop: Shop, meanwhile: Callable[..., None]) -> None:
    job_id = shop.enqueue("transcode", "url=u")
    meanwhile(
        lambda store: working.retry_later(store, "bulk"),
        lambda store: store.reschedule_jobs([public_id.decode(job_id)], run_at=None, delay_ms=0),
        lambda store: working.complete(store, "bulk"),
    )
    rows = [line.split("\t") for line in shop.ok("jobs", "watch", job_id).splitlines()]
    assert [row[1] for row in rows] == ["job:retrying", "job:started", "job:completed"]
    assert rows[0][2].startswith("attempt 1: ValueError: no codec ")
    assert ", due 20" in rows[0][2]


def test_not_in_time_is_124(shop: Shop) -> None:
    job_id = shop.enqueue("transcode", "url=u")
    result = shop("jobs", "watch", job_id, "--timeout", "10ms")
    assert (result.exit_code, result.stdout) == (124, "")
    assert f"job {job_id} had not finished after 0.01 s; it goes on" in result.stderr
    error = json.loads(shop("jobs", "watch", job_id, "--timeout", "10ms", "--json").stderr)["error"]
    assert (error["type"], error["exit_code"]) == ("ResultTimeout", 124)


def test_no_such_job_is_3_and_a_wrong_id_2(shop: Shop) -> None:
    assert shop("jobs", "watch", NOBODY).exit_code == 3
    assert shop("jobs", "watch", "x").exit_code == 2
    assert shop("jobs", "watch", NOBODY, "--timeout", "soon").exit_code == 2


def test_ctrl_c_stops_the_watching_and_no_job(sqlite_shop: Shop, meanwhile: Callable[..., None]) -> None:
    job_id = sqlite_shop.enqueue("transcode", "url=u")

    async def press_ctrl_c(store: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    meanwhile(press_ctrl_c)
    result = sqlite_shop("jobs", "watch", job_id)
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == f"stopped watching: job {job_id} goes on\n"


def test_in_a_terminal(sqlite_shop: Shop) -> None:
    job_id = sqlite_shop.enqueue("transcode", "url=u")
    sqlite_shop.on_store(lambda store: working.fail(store, "bulk"))
    code, text = in_terminal(sqlite_shop, 80, "jobs", "watch", job_id)
    assert code == 5
    assert STYLE.search(text), "in colour"
    plain = STYLE.sub("", text)
    assert plain[8:].startswith(" UTC  job:failed             attempt 1: ValueError: no codec ")
    assert not ACTING.search(plain)


@pytest.mark.parametrize("kind", EventType)
def test_every_event_can_be_told(kind: EventType) -> None:
    for data in ({}, {"percent": 5.0, "phase": "a", "error_class": "E", "error": "e", "run_at": "x", "url": "u"}):
        event = Event(
            type=kind,
            id="htcx-2s16-z48b-09",
            at=working.SOME_DAY,
            kind="t",
            queue="q",
            run=1,
            claim=1,
            attempt=1,
            data=dict(data),
        )
        assert "None" not in watching.told(event) or kind is EventType.COMPLETED
