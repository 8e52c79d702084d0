"""The benchmark as a program: options, environments, servers, rounds, and the report at the end."""

import argparse
import contextlib
import json
import random
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import environments, machine, report, rounds, servers
from benchmarks.entrant import Entrant, RunFailed
from benchmarks.figures import all_figures
from benchmarks.roster import GROUPS, ROSTER, STORES, Entry, Group, chosen
from benchmarks.runs import MEASURES, Run, Sizes

RESULTS = environments.ROOT / ".bench" / "results"
_ABOUT_S = 60.0
_ALL_MEASURES = ", ".join(MEASURES)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, report, and tell by the exit code whether every run passed its check."""
    options = _options(arguments)
    left_out: dict[str, str] = {}
    group = GROUPS.get(options.group, Group(ROSTER, list(MEASURES)))
    measures = options.measures or group.measures
    pythons = _installed(chosen(options.only, options.stores, group.entries), left_out)
    facts = _introduced(pythons, left_out)
    entries = [_able(entry, facts[entry]) for entry in facts]
    sizes = Sizes(options.jobs, options.seconds, options.limit)
    by_name = {entry.environment: python for entry, python in pythons.items()}
    turns = list(rounds.order(options.rounds, measures, entries, random.Random()))
    runs: list[Run] = []
    with contextlib.ExitStack() as stack:
        stores = {store for entry in entries for store in entry.stores}
        places = {store: stack.enter_context(servers.OPENERS[store]()) for store in stores}
        about = _about(facts, places, sizes, options.rounds)
        try:
            for run in rounds.run_all(turns, by_name, places, sizes, _say):
                runs.append(run)
                _write(options.output, runs, about, left_out)
        except KeyboardInterrupt:
            _say(f"broken off after {len(runs)} of {len(turns)} runs; what is there follows")
    print(report.as_text(runs, left_out))
    _plot(options.output, runs)
    _say(f"written to {options.output}")
    return 1 if report.failures(runs) or len(runs) < len(turns) else 0


def _installed(entries: Sequence[Entry], left_out: dict[str, str]) -> dict[Entry, Path]:
    """Make the environments; a contestant whose environment cannot be made is left out, with the reason."""
    pythons: dict[Entry, Path] = {}
    for entry in entries:
        try:
            pythons[entry] = environments.install(entry.environment)
        except environments.NotInstalled as error:
            _leave_out(left_out, entry, str(error))
    return pythons


def _introduced(pythons: Mapping[Entry, Path], left_out: dict[str, str]) -> dict[Entry, dict[str, object]]:
    """Let every contestant say what it is; one that cannot is left out, with the reason."""
    facts: dict[Entry, dict[str, object]] = {}
    for entry, python in pythons.items():
        try:
            facts[entry] = Entrant(entry, python).ask("about", within=_ABOUT_S)
        except RunFailed as failure:
            _leave_out(left_out, entry, str(failure))
    return facts


def _leave_out(left_out: dict[str, str], entry: Entry, reason: str) -> None:
    left_out[entry.title] = reason
    _say(f"left out: {entry.title}: {reason}")


def _able(entry: Entry, facts: Mapping[str, object]) -> Entry:
    """Measure no bulk where a library has none: it would be the same as one by one."""
    return entry if facts["has_bulk"] else entry._replace(without=entry.without | {"bulk"})


def _about(
    facts: Mapping[Entry, Mapping[str, object]], places: Mapping[str, servers.Place], sizes: Sizes, turns: int
) -> dict[str, object]:
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "rounds": turns,
        "sizes": asdict(sizes),
        "machine": machine.about(),
        "stores": {name: place.about() for name, place in places.items()},
        "contestants": {entry.title: fact for entry, fact in facts.items()},
    }


def _write(folder: Path, runs: Sequence[Run], about: Mapping[str, object], left_out: Mapping[str, str]) -> None:
    """Write everything after each run: what was measured survives whatever comes next."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = {
        **about,
        "left_out": left_out,
        "failures": report.failures(runs),
        "figures": [figure._asdict() for figure in all_figures(runs)],
        "runs": [asdict(run) for run in runs],
    }
    (folder / "results.json").write_text(json.dumps(whole, indent=1), encoding="utf-8")
    (folder / "results.md").write_text(report.as_markdown(runs, about, left_out), encoding="utf-8")


def _plot(folder: Path, runs: Sequence[Run]) -> None:
    from benchmarks import plot  # noqa: PLC0415 - slow to load, and not needed by a run that is broken off

    plot.draw(runs, folder / "results.png")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = sorted({entry.name for entry in ROSTER})
    parser.add_argument("--only", type=_list_of(names), default=[], metavar="NAME,...", help=", ".join(names))
    parser.add_argument("--stores", type=_list_of(STORES), default=[], metavar="STORE,...", help=", ".join(STORES))
    parser.add_argument("--measures", type=_list_of(list(MEASURES)), default=[], metavar="M,...", help=_ALL_MEASURES)
    parser.add_argument("--group", choices=list(GROUPS), help="what belongs together; narrowed by the options above")
    sizes = Sizes()
    parser.add_argument("--rounds", type=int, default=5, help="default: 5")
    parser.add_argument("--jobs", type=int, default=sizes.jobs, help=f"jobs of a drain; default: {sizes.jobs}")
    parser.add_argument("--seconds", type=float, default=sizes.seconds, help="of feeding and of idling; default: 10")
    parser.add_argument("--limit", type=float, default=sizes.limit, help="seconds for one run; default: 240")
    parser.add_argument("--output", type=Path, default=RESULTS, help="default: .bench/results")
    return parser.parse_args(arguments)


def _list_of(known: Sequence[str]) -> Callable[[str], list[str]]:
    def read(given: str) -> list[str]:
        found = [name.strip() for name in given.split(",") if name.strip()]
        unknown = [name for name in found if name not in known]
        if unknown:
            message = f"expected some of {', '.join(known)}, got {', '.join(unknown)}"
            raise argparse.ArgumentTypeError(message)
        return found

    return read


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
