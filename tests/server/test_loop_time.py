"""Large requests beside small ones: the event loop, which all others wait for, has next to nothing to do for them."""

import time
from typing import Any

import httpx2
import pytest

from holdfast import Holdfast
from tests.support.web import bearing, made_token, visit

JOBS = "/api/v1/jobs"
_MOST_CPU_S = 0.2  # of the thread of the event loop; each took twice to five times that
_MEGABYTE = 1_000_000


def filled(start: str, part: str, end: str) -> bytes:
    """Repeat a part, with a number for each `#`, until there is a megabyte."""
    count = (_MEGABYTE - len(start) - len(end)) // (len(part) + 6)
    return (start + ",".join(part.replace("#", f"{number:x}") for number in range(count)) + end).encode()


BODIES = {
    "numbers": (JOBS, b'{"kind":"work","args":{"a":[' + b"1," * 490_000 + b"1]}}"),
    "objects": (JOBS, b'{"kind":"work","args":{"a":[' + b"{}," * 320_000 + b"{}]}}"),
    "names": (JOBS, filled('{"kind":"work","args":{', '"#":1', "}}")),
    "tags": (JOBS, filled('{"kind":"work","tags":{', '"#":1', "}}")),
    "members": (JOBS, filled('{"kind":"work",', '"#":1', "}")),
    "jobs": (f"{JOBS}/batch", b'{"jobs":[' + b"{}," * 320_000 + b"{}]}"),
    "mistakes": (f"{JOBS}/batch", b'{"jobs":[' + b",".join([b'{"kind":7,"tags":[],"args":"a"}'] * 1_000) + b"]}"),
    "ids": ("/api/v1/bulk", filled('{"verb":"cancel","ids":[', "#", "]}")),
    "a schedule": ("/api/v1/schedules", filled('{"name":"a","kind":"work","args":{', '"#":1', "}}")),
}


@pytest.fixture
def app(memory_app: Holdfast) -> Holdfast:
    """Give an app with a task that takes any JSON."""

    @memory_app.task
    async def work(a: Any = None) -> None:
        assert a

    return memory_app


async def cpu_of_loop(app: Holdfast, path: str, body: bytes, kind: str) -> tuple[httpx2.Response, float]:
    """Ask twice, first with less, and measure the processor time of this thread for the second request."""
    async with visit(app) as web:
        headers = bearing(await made_token(app)) | {"content-type": kind}
        await web.post(path, content=body[:100], headers=headers)
        began = time.thread_time()
        answer = await web.post(path, content=body, headers=headers)
        return answer, time.thread_time() - began


@pytest.mark.guards("body-in-thread", "task-check-in-thread", "json-members")
@pytest.mark.parametrize("name", BODIES)
async def test_a_large_body_takes_no_time_of_the_event_loop(app: Holdfast, name: str) -> None:
    path, body = BODIES[name]
    answer, took_s = await cpu_of_loop(app, path, body, "application/json")
    assert answer.status_code == 422, answer.text
    assert len(answer.text) < 20_000
    assert took_s < _MOST_CPU_S


@pytest.mark.parametrize("body", [b"a&" * 490_000, b"name=x&kind=work&args=" + b"%31" * 320_000], ids=["fields", "%"])
async def test_a_large_form_takes_no_time_of_the_event_loop(app: Holdfast, body: bytes) -> None:
    answer, took_s = await cpu_of_loop(app, "/schedules", body, "application/x-www-form-urlencoded")
    assert answer.status_code == 422, answer.text
    assert took_s < _MOST_CPU_S
