"""The way of a job as it is drawn, and tracebacks as they are folded."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.job import JobState
from holdfast.phases import PhaseState
from holdfast.resources.job import Attempt, Job, JobPhase
from holdfast.server import application  # noqa: F401 - it imports the parts in their order
from holdfast.server.pages.traces import folded
from holdfast.server.pages.waterfall import WIDTH, Row, waterfall

TRACE = """
  File "/usr/lib/python3.11/asyncio/tasks.py", line 10, in wait
  File "/venv/lib/python3.11/site-packages/httpx/client.py", line 9, in send
  File "/srv/shop/mail.py", line 7, in send_mail
ConnectionError: refused

caused by:
  File "/srv/shop/net.py", line 3, in dial
OSError: [Errno 111]
"""
NOON = datetime(2031, 5, 6, 12, 0, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


@pytest.fixture
async def job(memory_app: Holdfast) -> Job:
    """A job that waits since noon."""

    @memory_app.task
    async def work() -> None: ...

    async with memory_app:
        found = await (await memory_app.enqueue(work.call())).get()
    return replace(found, enqueued_at=NOON, run_at=NOON)


def tried(number: int, start: float, end: float, outcome: str = "retry") -> Attempt:
    return Attempt(
        claim=number,
        attempt=number,
        worker="1",
        claimed_at=after(start),
        started_at=after(start),
        finished_at=after(end),
        outcome=outcome,
        error_class="ValueError",
        error="no",
    )


def with_attempts(job: Job, *attempts: Attempt, **changes: Any) -> Job:
    return replace(job, attempts=list(attempts), **changes)


def end_of(row: Row) -> float:
    return row.x + row.width


def test_a_waiting_job_only_waits(job: Job) -> None:
    (row,) = waterfall(job, after(10))
    assert (row.label, row.kind, row.x, row.width, row.took) == ("waited", "wait", 0, WIDTH, timedelta(seconds=10))


def test_attempts_follow_each_other_with_gaps_between(job: Job) -> None:
    failed = with_attempts(
        job,
        tried(1, 1, 3),
        tried(2, 5, 6),
        state=JobState.COMPLETED,
        claim=3,
        attempt=3,
        claimed_at=after(8),
        started_at=after(8),
        finished_at=after(10),
    )
    rows = waterfall(failed, after(99))
    assert [(row.label, row.kind) for row in rows] == [
        ("waited", "wait"),
        ("attempt 1", "ko"),
        ("attempt 2", "ko"),
        ("attempt 3", "ok"),
    ]
    assert [row.took.total_seconds() for row in rows] == [1, 2, 1, 2]
    assert [row.x for row in rows] == [0, 100, 500, 800], "ten seconds, to scale"
    assert [row.gap_x for row in rows] == [None, None, 300, 600]
    assert end_of(rows[-1]) == WIDTH
    assert not any(row.tears for row in rows)


def test_a_long_wait_leaves_room_for_the_work(job: Job) -> None:
    day = 86_400
    done = with_attempts(
        job, tried(1, day, day + 2), state=JobState.FAILED, claim=1, attempt=1, finished_at=after(day + 2)
    )
    waited, attempt = waterfall(done, after(day + 9))
    assert (waited.took, waited.tears) == (timedelta(days=1), (WIDTH / 4,))
    assert (attempt.x, attempt.width) == (WIDTH / 2, WIDTH / 2)


def test_a_running_job_reaches_until_now_and_its_phases_lie_below(job: Job) -> None:
    phases = [
        JobPhase(name="collect", state=PhaseState.COMPLETED, claim=1, started_at=after(0), finished_at=after(4)),
        JobPhase(name="render", state=PhaseState.RUNNING, claim=1, started_at=after(4)),
    ]
    running = replace(
        job,
        state=JobState.RUNNING,
        claim=1,
        attempt=1,
        claimed_at=NOON,
        started_at=NOON,
        phases=phases,
    )
    _, attempt, collect, render = waterfall(running, after(8))
    assert (attempt.kind, attempt.x, attempt.width) == ("go", 0, WIDTH)
    assert (collect.label, collect.is_inner, collect.kind, collect.x, collect.width) == ("collect", True, "ok", 0, 500)
    assert (render.kind, render.x, end_of(render)) == ("go", 500, WIDTH)


def test_an_attempt_says_which_phase_it_went_on_from(job: Job) -> None:
    phases = [
        JobPhase(name="collect", state=PhaseState.COMPLETED, claim=1, started_at=after(0), finished_at=after(1)),
        JobPhase(name="render", state=PhaseState.COMPLETED, claim=2, started_at=after(5), finished_at=after(6)),
    ]
    done = with_attempts(job, tried(1, 0, 2), tried(2, 5, 7), state=JobState.COMPLETED, claim=2, attempt=2)
    rows = waterfall(replace(done, phases=phases), after(9))
    assert [(row.label, row.resumed) for row in rows if not row.is_inner] == [
        ("waited", ""),
        ("attempt 1", ""),
        ("attempt 2", "render"),
    ]


def test_nothing_leaves_the_drawing(job: Job) -> None:
    late = with_attempts(job, tried(1, 0, 0), tried(2, 3_600, 3_600.001), state=JobState.SCHEDULED, claim=2, attempt=2)
    rows = waterfall(late, after(0))  # a clock that is behind the store's
    assert all(row.x >= 0 and end_of(row) <= WIDTH + 4 and row.width >= 4 for row in rows)


def test_frames_of_libraries_are_folded() -> None:
    assert [(part.kind, len(part.lines)) for part in folded(TRACE)] == [
        ("library", 2),
        ("own", 1),
        ("said", 1),
        ("cause", 1),
        ("own", 1),
        ("said", 1),
    ]
    assert folded("") == []
