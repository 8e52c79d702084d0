"""`python -m benchmarks.scale`: run the scale runs, or some of them, and write down what they found."""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from benchmarks import machine, servers
from benchmarks.scale import claims, connections, due, history, limits, output, phases, pinned, proxy
from benchmarks.scale.report import Report
from benchmarks.scale.sizes import Sizes
from holdfast.release import RELEASE

RUNS: Mapping[str, Callable[[str, Path, Sizes], Iterator[Report]]] = {
    "claim": claims.run,
    "pinned": pinned.run,
    "history": history.run,
    "connections": connections.run,
    "proxy": proxy.run,
    "phases": phases.run,
    "due": due.run,
    "limits": limits.run,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what the command line asks for."""
    given = _parser().parse_args(arguments)
    sizes = Sizes(**{field.name: getattr(given, field.name) for field in fields(Sizes)})
    # A server that was started here is stopped also when somebody ends this program.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    reports: list[Report] = []
    with servers.postgres() as server, tempfile.TemporaryDirectory(prefix="holdfast-scale-") as folder:
        dsn = server.fresh("scale")
        about = {**machine.about(), "holdfast": RELEASE, "postgres": server.about()}
        for name in given.only:
            began = time.monotonic()
            print(f"== {name}", flush=True)
            for report in RUNS[name](dsn, Path(folder), sizes):
                output.show(report)
                reports.append(report)
                output.write(given.output, about, reports)  # what is known is kept, whatever happens later
            print(f"== {name} took {time.monotonic() - began:.0f} s", flush=True)
        server.remove("scale")
    for line in output.write(given.output, about, reports):
        print(line)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--only", type=_names, default=tuple(RUNS), metavar=",".join(RUNS))
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results"))
    for field in fields(Sizes):
        option = f"--{field.name.replace('_', '-')}"
        parser.add_argument(option, type=_reader(field.default), default=field.default, metavar=_spelled(field.default))
    return parser


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in RUNS]
    if unknown:
        message = f"expected some of {', '.join(RUNS)}, got {', '.join(unknown)}"
        raise argparse.ArgumentTypeError(message)
    return names


def _reader(default: Any) -> Callable[[str], Any]:
    """Read an option like its default: a number, or several values with commas between them."""
    if isinstance(default, tuple):
        kind = type(default[0])
        return lambda text: tuple(kind(part) for part in text.split(","))
    kind = type(default)
    return lambda text: kind(text.replace("_", "").replace(",", ""))


def _spelled(default: Any) -> str:
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(default)


if __name__ == "__main__":
    main()
