"""Every example runs by itself, prints what is expected and ends well."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.doc_pages import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PRINTED = {
    "blocking.py": ["after cancel: cancelled"],
    "effects_sqlite.py": ["attempts: 2", "payments: [('ada', 40)]"],
    "events.py": ["job:started", "63 %  encode", "job:phase:completed encode", "result: film.webm"],
    "first.py": [],  # a worker runs it, see the README
    "items.py": ["completed_with_errors: 2 completed, 1 skipped, 1 failed", "the second run called: ['main']"],
    "locks.py": ["build 1: skipped: build 2 is not older", "2 by force: main/2 written", "refused: token 1 is older"],
    "options.py": ["again      queued    priority 8, due in 0 s, old", "refused    key 'order-17' was used"],
    "pages.py": ["page: [4, 3, 2, 1, 0]", "retried: queued in run 2", "left: 1 cancelled"],
    "pipeline.py": ["result: got 9", "download: completed by claim 1", "process: completed by claim 2, 9"],
    "queue_backend.py": ["before: queued", "after: completed", "result: build 7 is published", "another: unknown"],
    "schedules.py": [
        "orders, by count",
        "made at run time: stock",
        "left out, and recorded so",
        "left: count, nightly",
    ],
    "testing_example.py": ["one reminder, due after 1 day, 0:00:00", "completed on attempt 2", "three days later: 2"],
    "transactional_postgres.py": ["order 2: the card was declined", "orders: [1]", "jobs:   [1]"],
    "transactional_sqlite.py": ["order 2: the card was declined", "orders: [1]", "jobs:   [1]"],
    "web.py": ["the same job: True", "a stranger: 401", "ada: order 17 is on its way"],
    "webhooks.py": ["the same id on every try: True", "job.completed: cat.png is smaller now", "sent: True"],
    "worker.py": ["orders: 1000", "attempt 1: retry, the shop is closed", "80 %", "there is no such day"],
}


FAILED_ATTEMPT = re.compile(r"job \S+ \(\w+\), attempt \d of \d: ")  # some examples show what becomes of one


def test_every_example_is_expected_to_print() -> None:
    assert sorted(PRINTED) == [example.name for example in EXAMPLES]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_example_runs(example: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "error"}
    if "HOLDFAST_URL" in example.read_text(encoding="utf-8"):
        names = {"HOLDFAST_URL": "dsn", "HOLDFAST_SCHEMA": "schema"}
        environment |= {variable: request.getfixturevalue(fixture) for variable, fixture in names.items()}
    done = subprocess.run(  # noqa: PLW1510 - the assertion below shows the output
        [sys.executable, example], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=30
    )
    said = [line for line in done.stderr.splitlines() if not FAILED_ATTEMPT.match(line)]
    assert (done.returncode, said) == (0, [])
    missing = [text for text in PRINTED[example.name] if text not in done.stdout]
    assert not missing, done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_example_is_short(example: Path) -> None:
    assert len(example.read_text(encoding="utf-8").splitlines()) < 80
