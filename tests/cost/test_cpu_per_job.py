"""A job costs as much processor time as was committed in `figures.json`, told in spins (see `measure.py`).

`HOLDFAST_COST_RENEW=10 pytest -n 0 tests/cost` writes the figures again: the median of so many runs.
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.stores.sqlite.store import SqliteStore

RENEWALS = int(os.environ.get("HOLDFAST_COST_RENEW", "0"))
pytestmark = [pytest.mark.real_time, pytest.mark.xdist_group("heavy"), pytest.mark.timeout(300 * max(RENEWALS, 1))]

FIGURES = Path(__file__).with_name("figures.json")
ROOT = Path(__file__).parents[2]
MOST = 1.4
_COMMENT = (
    "Processor time of 1,000 jobs in spins, and of one job in microseconds on the machine of the day, which nothing is"
    " compared with. The median of ten runs: HOLDFAST_COST_RENEW=10 writes this file, `pytest -n 0 tests/cost`."
)


Figures = dict[str, dict[str, float]]


def measured(url: str, schema: str) -> Figures:
    """Measure in a process of its own, and give the figures by name."""
    command = [sys.executable, "-m", "tests.cost.measure", url, schema]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: Figures = json.loads(done.stdout)
    return found


def middle(runs: Sequence[Figures]) -> Figures:
    """Give the median of each figure."""
    return {
        name: {part: round(statistics.median(run[name][part] for run in runs), 3) for part in figure}
        for name, figure in runs[0].items()
    }


def compare(store: str, url: str, schema: str) -> None:
    """Fail where a job costs too much; print the table in any case."""
    committed: dict[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8"))
    found = middle([measured(url, schema) for _ in range(max(RENEWALS, 1))])
    if RENEWALS:
        committed |= {"comment": _COMMENT, store: found}
        FIGURES.write_text(json.dumps(committed, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    expected = committed[store]
    assert set(found) <= set(expected), "other measures than before: HOLDFAST_COST_RENEW=10 writes the figures again"
    lines = [f"{store}: spins for 1,000 jobs, committed and now; microseconds for one, now"]
    dear: list[str] = []
    for name, figure in found.items():
        times = figure["spins"] / expected[name]["spins"]
        lines.append(
            f"  {name:22} {expected[name]['spins']:7.2f} {figure['spins']:7.2f} {times:5.2f} x"
            f" {figure['microseconds']:7.1f} us"
        )
        if times > MOST:
            dear.append(f"{name} costs {times:.2f} x what was committed")
    table = "\n".join(lines)
    sys.stdout.write(f"{table}\n")
    if dear:
        pytest.fail(f"{'; '.join(dear)}; at most {MOST} x is allowed\n{table}", pytrace=False)


async def test_a_job_on_sqlite_costs_what_it_did(tmp_path: Path) -> None:
    await SqliteStore(str(tmp_path / "jobs.db")).migrator.up()
    compare("sqlite-file", f"sqlite:///{tmp_path}/jobs.db", "holdfast")


def test_a_job_on_postgres_costs_what_it_did(dsn: str, schema: str) -> None:
    compare("postgres", dsn, schema)
