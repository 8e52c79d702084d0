"""The tests of the stores' meaning, once more, through a pooler."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pooler.bouncer import Bouncer
from tests.support.figures import show
from tests.support.sizes import CHAOS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "conformance"
CHOSEN = ("cancel", "claim", "finish", "insert", "rescue", "retention", "transaction", "wakeups")
FEWEST = 100


@pytest.mark.timeout(1_800 if CHAOS else 240)
@pytest.mark.chaos
def test_the_stores_meaning_is_the_same_through_a_pooler(dsn: str, bouncer: Bouncer) -> None:
    files = sorted(FOLDER.glob("test_*.py")) if CHAOS else [FOLDER / f"test_{name}.py" for name in CHOSEN]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    told = {"HOLDFAST_TEST_PG_DSN": dsn, "HOLDFAST_POOLER": bouncer.dsn, "PYTHONPATH": str(ROOT)}
    options = ("-p", "tests.pooler.through", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", "-k", "postgres")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *map(str, files)],
        cwd=ROOT,
        env=env | told,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-10_000:] + ended.stderr
    passed = re.search(r"(\d+) passed", ended.stdout)
    assert passed is not None
    assert int(passed[1]) >= FEWEST, "the tests were not chosen"
    show(f"through the pooler: {ended.stdout.splitlines()[-1]}")
