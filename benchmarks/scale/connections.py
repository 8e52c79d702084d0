"""Many connections that claim and finish at once, and what they wait for."""

import asyncio
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from urllib.parse import quote

from benchmarks.scale import children
from benchmarks.scale.busy import busy
from benchmarks.scale.draining import new_ledger
from benchmarks.scale.latency import ranged
from benchmarks.scale.once import require_empty, require_once
from benchmarks.scale.place import Place, postgres_place
from benchmarks.scale.report import Cell, Curves, Report, Table
from benchmarks.scale.rows import Rows, fill, settle
from benchmarks.scale.sizes import Sizes
from benchmarks.scale.waits import NAME, sample_waits

_SHOWN = 12


@dataclass(frozen=True)
class Round:
    """One emptying of the store by so many connections."""

    rate: float
    waits: Counter[str]
    busy_cores: float | None


def run(dsn: str, _folder: Path, sizes: Sizes) -> Iterator[Report]:
    """Take turns between the numbers of connections."""
    found: dict[int, list[Round]] = {connections: [] for connections in sizes.connections}
    for _ in range(sizes.rounds):
        for connections, rounds in found.items():
            rounds.append(_round(dsn, connections, sizes))
    yield _report(found, sizes)


def _round(dsn: str, connections: int, sizes: Sizes) -> Round:
    with postgres_place(dsn) as place, new_ledger() as ledger, ExitStack() as stack:
        fill(place, Rows(queued=sizes.connection_jobs))
        settle(place)
        env = _named(place).environment(ledger)
        started = [
            stack.enter_context(
                children.beside(
                    "benchmarks.scale.claimants",
                    *("--connections", share, "--batch", sizes.connection_batch),
                    env=env,
                )
            )
            for share in _shares(connections, sizes.connection_processes)
        ]
        for child in started:
            _read_line(child)
        with busy() as machine:
            began = time.monotonic()
            for child in started:
                _go(child)
            waits = asyncio.run(sample_waits(dsn, lambda: all(child.poll() is not None for child in started)))
        times = require_once(ledger, sizes.connection_jobs)
        require_empty(place)
        return Round(sizes.connection_jobs / (times[-1] - began), waits, machine.cores)


def _shares(connections: int, processes: int) -> list[int]:
    """Deal connections evenly to processes, of which there are no more than connections."""
    used = min(connections, processes)
    return [connections // used + (number < connections % used) for number in range(used)]


def _named(place: Place) -> Place:
    joint = "&" if "?" in place.url else "?"
    return place.seen_from(f"{place.url}{joint}application_name={quote(NAME)}")


def _read_line(child: "subprocess.Popen[str]") -> str:
    if child.stdout is None:
        raise ValueError
    return child.stdout.readline()


def _go(child: "subprocess.Popen[str]") -> None:
    if child.stdin is None:
        raise ValueError
    child.stdin.write("go\n")
    child.stdin.flush()


def _report(found: dict[int, list[Round]], sizes: Sizes) -> Report:
    lines: list[list[Cell]] = []
    for connections, rounds in found.items():
        cores = [one.busy_cores for one in rounds if one.busy_cores is not None]
        shown = f"{median(cores):.2f}" if cores else "unknown"
        lines.append([connections, sizes.connection_jobs, ranged([one.rate for one in rounds]), shown])
    speed = Table(
        f"Claiming and finishing {sizes.connection_batch} at a time",
        ["connections", "jobs", "jobs/s (range)", "cores busy, all programs"],
        lines,
    )
    waits = {connections: sum((one.waits for one in rounds), Counter[str]()) for connections, rounds in found.items()}
    points = {"jobs/s": [(float(number), median(one.rate for one in rounds)) for number, rounds in found.items()]}
    curves = Curves("connections", "Connections at once", "connections", "jobs per second", points)
    raw = {
        str(number): {"rates": [one.rate for one in rounds], "waits": waits[number]} for number, rounds in found.items()
    }
    return Report("connections", "Many connections", [speed, _wait_table(waits)], (), (), [curves], raw)


def _wait_table(waits: dict[int, Counter[str]]) -> Table:
    events = [event for event, _ in sum(waits.values(), Counter[str]()).most_common(_SHOWN)]
    lines: list[list[Cell]] = []
    for event in events:
        shares = (counted[event] / max(counted.total(), 1) * 100 for counted in waits.values())
        lines.append([event, *(f"{share:.1f} %" for share in shares)])
    columns = ["sessions are", *(f"{connections} connections" for connections in waits)]
    return Table("What the sessions do, shares of all looks", columns, lines)
