"""Runs the tests in two tiers and prints where the time went.

The first tier is deterministic: it runs in parallel, and a failed test fails the run. The second tier (marker
`real_time`) needs real time or real faults: a few tests run at a time, and a failed one is run once more, alone. A test
that passes then is listed as "passed on repeat"; its log is kept, and more than two of them fail the run. The list of
all repeats is kept between runs and printed, so that the worst tests can be mended. What each test of the second tier
took is kept as well: the next run begins with the longest.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
MOST_REPEATS = 2
_NO_TESTS = 5  # the exit code of pytest
_KEPT_RUNS = 100
_KEPT = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "holdfast-tests")
_DURATIONS = _KEPT / "durations.json"


class Tier(NamedTuple):
    """One part of the suite."""

    name: str
    marker: str
    processes: int
    budget_s: int


TIERS = (
    Tier("deterministic", "not real_time", 4, 300),
    Tier("real time", "real_time", 3, 180),
)


class Outcome(NamedTuple):
    """What became of one run of pytest."""

    code: int
    seconds: float
    durations: dict[str, float]  # of each test, with its fixtures
    failures: dict[str, str]  # of each failed test: its log


def main(arguments: Sequence[str]) -> int:
    """Run the tiers, repeat what failed in the second, and say how it went."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tier", type=int, choices=(1, 2), help="run one tier only")
    chosen, rest = parser.parse_known_args(arguments)
    tiers = TIERS if chosen.tier is None else (TIERS[chosen.tier - 1],)
    outcomes = {tier: _run_tier(tier, rest) for tier in tiers}
    repeated, failed = _repeat(outcomes)
    _print_times(outcomes)
    _keep(repeated, outcomes)
    codes = [outcome.code for outcome in outcomes.values()]
    broken = [code for code in codes if code not in (0, 1, _NO_TESTS)]  # interrupted, or not even collected
    passed = sum(len(outcome.durations) for outcome in outcomes.values()) - len(failed)
    if not passed and not failed and not broken:
        print("No test was selected.")
        return _NO_TESTS
    is_over = len(repeated) > MOST_REPEATS
    if is_over:
        print(f"{len(repeated)} tests passed only on repeat; at most {MOST_REPEATS} may.")
    print(f"\n{passed} passed, {len(failed)} failed")
    return broken[0] if broken else int(bool(failed) or is_over)


def _run_tier(tier: Tier, arguments: Sequence[str]) -> Outcome:
    print(f"== tests, {tier.name}", flush=True)
    options = ("--numprocesses", str(tier.processes), "--dist", "loadgroup", "--quiet", "-m", tier.marker)
    if tier is TIERS[0]:
        return _pytest(*options, *arguments)
    known: dict[str, float] = json.loads(_DURATIONS.read_text(encoding="utf-8")) if _DURATIONS.exists() else {}
    outcome = _pytest(*options, *arguments, known=known)
    _KEPT.mkdir(parents=True, exist_ok=True)
    _DURATIONS.write_text(json.dumps(known | outcome.durations, indent=0), encoding="utf-8")
    return outcome


def _pytest(*arguments: str, known: dict[str, float] | None = None) -> Outcome:
    """Run pytest once, the longest tests first; hooks in `tests/conftest.py` read what is known, and write a report."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="holdfast-tests-") as folder:
        report, durations_before = Path(folder, "report.jsonl"), Path(folder, "durations.json")
        report.touch()
        durations_before.write_text(json.dumps(known or {}), encoding="utf-8")  # a copy, which no other run changes
        env = {
            # Without that one: or each of the many programs that tests start compiles all it imports.
            **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
            "HOLDFAST_TEST_REPORT": str(report),
            "HOLDFAST_TEST_DURATIONS": str(durations_before),
        }
        command = [sys.executable, "-m", "pytest", *arguments]
        code = subprocess.run(command, cwd=ROOT, env=env, check=False).returncode  # noqa: S603 - our own tests
        lines = [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()]
    durations: dict[str, float] = defaultdict(float)
    failures: dict[str, str] = {}
    for line in lines:
        durations[line["test"]] += line["seconds"]
        if line["outcome"] == "failed":
            failures[line["test"]] = failures.get(line["test"], "") + line["log"]
    return Outcome(code, time.monotonic() - began, dict(durations), failures)


def _repeat(outcomes: dict[Tier, Outcome]) -> tuple[dict[str, str], list[str]]:
    """Run each failed test of the second tier once more, alone; those that passed, with their logs, and the others."""
    failed = [test for tier, outcome in outcomes.items() if tier is TIERS[0] for test in outcome.failures]
    again = {
        test: log for tier, outcome in outcomes.items() if tier is TIERS[1] for test, log in outcome.failures.items()
    }
    if len(again) > 2 * MOST_REPEATS:  # this is no accident of timing
        return {}, [*failed, *again]
    repeated: dict[str, str] = {}
    for test, log in again.items():
        print(f"== once more, alone: {test}", flush=True)
        if _pytest("--numprocesses", "0", "--quiet", test).code == 0:
            repeated[test] = log
        else:
            failed.append(test)
    return repeated, failed


def _print_times(outcomes: dict[Tier, Outcome]) -> None:
    for tier, outcome in outcomes.items():
        if not outcome.durations:
            continue
        over = "" if outcome.seconds <= tier.budget_s else ", OVER ITS BUDGET"
        print(f"\n== {tier.name}: {outcome.seconds:.0f} s of {tier.budget_s} s{over}")
        folders: Counter[str] = Counter()
        for test, seconds in outcome.durations.items():
            folders["/".join(test.partition("::")[0].split("/")[1:-1])] += round(seconds * 1_000)
        print("   time by folder: " + ", ".join(f"{name} {ms / 1_000:.0f} s" for name, ms in folders.most_common(12)))
        print("   slowest:")
        for test, seconds in sorted(outcome.durations.items(), key=lambda entry: -entry[1])[:10]:
            print(f"   {seconds:6.1f} s  {test}")


def _keep(repeated: dict[str, str], outcomes: dict[Tier, Outcome]) -> None:
    """Print what passed on repeat now and in earlier runs; a run of the whole second tier is added to the list."""
    for test, log in repeated.items():
        print(f"\n== passed on repeat: {test}\n{log}")
    kept = _KEPT / "repeats.jsonl"
    runs: list[dict[str, Any]] = []
    if kept.exists():
        runs = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()]
    if os.environ.get("CI") or repeated:
        now = datetime.now(UTC)
        tests = sum(len(outcome.durations) for tier, outcome in outcomes.items() if tier is TIERS[1])
        runs = [*runs, {"at": now.isoformat(timespec="seconds"), "tests": tests, "repeated": sorted(repeated)}]
        _KEPT.mkdir(parents=True, exist_ok=True)
        kept.write_text("".join(json.dumps(run) + "\n" for run in runs[-_KEPT_RUNS:]), encoding="utf-8")
        for number, (test, log) in enumerate(repeated.items()):
            (_KEPT / f"{now:%Y%m%d-%H%M%S}-{number}.log").write_text(f"{test}\n{log}\n", encoding="utf-8")
    worst = Counter(test for run in runs for test in run["repeated"])
    if runs:
        print(f"\n== repeats of the last {len(runs)} runs ({kept}): {worst.total() or 'none'}")
    for test, count in worst.most_common(10):
        print(f"   {count} x {test}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
