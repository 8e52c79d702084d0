"""A job costs as much processor time as was committed in `figures.json`, told in spins (see `measure.py`).

`HOLDFAST_COST_RENEW=1 pytest tests/cost` writes the figures again.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.stores.sqlite.store import SqliteStore

pytestmark = [pytest.mark.real_time, pytest.mark.xdist_group("heavy"), pytest.mark.timeout(300)]

FIGURES = Path(__file__).with_name("figures.json")
ROOT = Path(__file__).parents[2]
MOST = 1.4
_COMMENT = (
    "Processor time of 1,000 jobs in spins, and of one job in microseconds on the machine of the day, which nothing is"
    " compared with. HOLDFAST_COST_RENEW=1 writes this file: `pytest tests/cost`."
)


def measured(url: str, schema: str) -> dict[str, Any]:
    """Measure in a process of its own, and give the figures by name."""
    command = [sys.executable, "-m", "tests.cost.measure", url, schema]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def compare(store: str, found: dict[str, Any]) -> None:
    """Fail where a job costs too much; print the table in any case."""
    committed: dict[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
    if os.environ.get("HOLDFAST_COST_RENEW"):
        committed |= {"comment": _COMMENT, store: found}
        FIGURES.write_text(json.dumps(committed, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    expected = committed[store]
    assert set(found) <= set(expected), "other measures than before: run `HOLDFAST_COST_RENEW=1 pytest tests/cost`"
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
    compare("sqlite-file", measured(f"sqlite:///{tmp_path}/jobs.db", "holdfast"))


def test_a_job_on_postgres_costs_what_it_did(dsn: str, schema: str) -> None:
    compare("postgres", measured(dsn, schema))
