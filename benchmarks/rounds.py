"""The order of runs: rounds, measures, then contestants in a new order each time.

A shared machine swings from minute to minute. Runs that are to be compared are therefore close together in time, and
none of them always comes first.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.roster import Entry
from benchmarks.runs import Run, Sizes, perform
from benchmarks.servers import Place, of

Turn = tuple[int, str, Entry]


def order(rounds: int, measures: Sequence[str], entries: Sequence[Entry], chance: random.Random) -> Iterator[Turn]:
    """Give every run that is to be done, in its order."""
    for turn in range(1, rounds + 1):
        for measure in measures:
            able = [entry for entry in entries if measure not in entry.without]
            for entry in chance.sample(able, len(able)):
                yield turn, measure, entry


def run_all(
    turns: Sequence[Turn],
    pythons: Mapping[str, Path],  # by environment
    places: Mapping[str, Place],
    sizes: Sizes,
    say: Callable[[str], None],
) -> Iterator[Run]:
    """Do one run after the other; each is given out as soon as it is over."""
    for number, (turn, measure, entry) in enumerate(turns, 1):
        run = perform(entry, pythons[entry.environment], of(entry, places), sizes, measure=measure, turn=turn)
        say(f"[{number}/{len(turns)}] round {turn}, {measure}, {entry.title}: {_told(run)}")
        yield run


def _told(run: Run) -> str:
    if run.problems:
        return f"FAILED: {'; '.join(run.problems)}"
    return ", ".join(
        f"{name} {value:,.0f}" if value >= 1_000 else f"{name} {value:.4g}" for name, value in run.values.items()
    )
