"""Jobs that other programs hand to `enqueue_v1`: each is stored as it can be read, or refused, and costs little."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import hypothesis
import psycopg
from hypothesis import strategies as st

from holdfast import Holdfast
from tests.support.sizes import CHAOS, size

NOTES = ("phases", "on_restart", "webhook", "estimate", "traceparent", "tracestate", "url", "events", "other", "")
FIELDS = (
    "args",
    "payload",
    "queue",
    "priority",
    "run_at",
    "delay_ms",
    "unique",
    "unique_for_ms",
    "key",
    "max_attempts",
    "tags",
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["fail", "https://example.org/hook", "job:failed", "tomorrow", "2026-11-19T09:30:00Z", "infinity", "x" * 600]
)
NUMBERS = st.integers(-(2**63), 2**64) | st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.none() | st.booleans() | NUMBERS | TEXTS
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NOTES), inner, max_size=4)
)
DEEP = st.integers(1, 500).map(lambda levels: json.loads("[" * levels + "]" * levels))
JOBS = st.fixed_dictionaries(
    {"kind": st.just("work")},
    optional={
        "extra": st.dictionaries(st.sampled_from(NOTES), VALUES, max_size=3) | VALUES,
        **dict.fromkeys(FIELDS, VALUES | DEEP),
    },
)
_MOST_CPU_S = 0.5  # of the server, for one job


def cpu_s(pid: int) -> float:
    """The processor time that a local backend has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def test_a_job_is_stored_or_refused(dsn: str, emptied_schema: str) -> None:
    statement = f"SELECT conflict FROM {emptied_schema}.enqueue_v1(%s)".encode()
    stored = 0
    with psycopg.connect(dsn, autocommit=True) as connection:
        pid = connection.info.backend_pid
        is_local = Path(f"/proc/{pid}").exists()  # else a server elsewhere, of which only the answers are seen

        @hypothesis.settings(
            max_examples=size(150, 5_000),
            deadline=None,
            derandomize=not CHAOS,
            database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(JOBS)
        def is_stored_or_refused(job: dict[str, Any]) -> None:
            nonlocal stored
            began = cpu_s(pid) if is_local else 0
            # Only what the function says itself, or that jsonb holds no NUL: nothing that failed half-way.
            with contextlib.suppress(psycopg.errors.InvalidParameterValue, psycopg.errors.UntranslatableCharacter):
                rows = connection.execute(statement, [json.dumps([job])]).fetchall()
                stored += not rows[0][0]
            assert not is_local or cpu_s(pid) - began < _MOST_CPU_S, job

        is_stored_or_refused()
    async with Holdfast(dsn, schema=emptied_schema) as app:
        jobs = [job async for job in app.jobs.iterate()]
    assert len(jobs) <= stored
    assert stored
    assert [problem for job in jobs for problem in job.unreadable] == []
