"""One run of one measure by one contestant: a fresh place, the figures, and the check that no job is missing."""

import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks import audit, tree
from benchmarks.contestants import ledger
from benchmarks.entrant import Entrant, RunFailed
from benchmarks.roster import Entry
from benchmarks.servers import Place
from benchmarks.workers import Workers

_POLL_S = 0.005
_SETTLE_S = 2.0
_RATE = 100.0
_LONE_RATE = 20.0  # on average: slow enough for a worker that looks for jobs by a clock to be idle in between
_WARM = 20
_PERCENTILES = (50, 95, 99)


@dataclass(frozen=True)
class Sizes:
    """How much is measured: `jobs` are drained and enqueued in bulk, and the other numbers follow from it."""

    jobs: int = 20_000
    seconds: float = 10.0  # of feeding, and of idling
    limit: float = 240.0  # for one run, in seconds

    @property
    def one(self) -> int:
        """Jobs enqueued one by one."""
        return max(1, self.jobs // 10)

    @property
    def many(self) -> int:
        """Jobs enqueued by 64 coroutines."""
        return max(1, self.jobs // 2)


@dataclass
class Run:
    """What came out of one run."""

    round: int
    store: str
    contestant: str
    measure: str
    load: float = 0.0  # of the machine just before
    values: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Course:
    """What one run works with."""

    entrant: Entrant
    place: Place
    url: str
    sizes: Sizes
    folder: Path
    run: Run
    end: float  # by when it must be over

    @property
    def ledger(self) -> Path:
        """Where the handlers record what ran."""
        return self.folder / "ledger"

    @property
    def left_s(self) -> float:
        """How much time is left; a run without any has failed."""
        left = self.end - time.monotonic()
        if left <= 0:
            message = f"not over after {self.sizes.limit:.0f} s, with {ledger.count(self.ledger)} jobs run"
            raise RunFailed(message)
        return left

    def workers(self, processes: int) -> Workers:
        """Give the contestant's workers, not started yet."""
        commands = self.entrant.ask("commands", "--processes", processes, within=self.left_s)
        return Workers(commands, self.entrant.environment, self.folder / "log")

    def until(self, workers: Workers, is_so: Callable[[], bool]) -> None:
        """Wait for a condition while the workers work."""
        while not is_so():
            workers.check()
            _ = self.left_s
            time.sleep(_POLL_S)


def perform(entry: Entry, python: Path, place: Place, sizes: Sizes, *, measure: str, turn: int) -> Run:
    """Do one run; what went wrong is in its problems."""
    run = Run(turn, entry.store, entry.name, measure, os.getloadavg()[0])
    with TemporaryDirectory(prefix="holdfast-bench-run-") as folder:
        try:
            url = place.fresh(entry.name)
            entrant = Entrant(entry, python, url, Path(folder) / "ledger")
            course = Course(entrant, place, url, sizes, Path(folder), run, time.monotonic() + sizes.limit)
            entrant.ask("prepare", within=course.left_s)
            MEASURES[measure](course)
        except RunFailed as failure:
            run.problems.append(str(failure))
        finally:
            place.remove(entry.name)
    return run


# ---- enqueue ---------------------------------------------------------------------------------------------------------


def _enqueue(way: str, jobs: Callable[[Sizes], int]) -> Callable[[Course], None]:
    def measure(course: Course) -> None:
        number = jobs(course.sizes)
        before = course.place.cpu_s()
        answer = course.entrant.ask("enqueue", "--way", way, "--jobs", number, within=course.left_s)
        course.run.values["jobs_per_s"] = number / answer["seconds"]
        _per_thousand(course, number, client_s=answer["cpu_s"], server_before=before)
        with course.entrant.watched() as open_jobs:
            _expect_open(course, number, open_jobs())

    return measure


def _per_thousand(course: Course, jobs: int, *, client_s: float, server_before: float | None) -> None:
    course.run.values["client_cpu_s"] = 1_000 * client_s / jobs
    after = course.place.cpu_s()
    if after is not None and server_before is not None:
        course.run.values["server_cpu_s"] = 1_000 * (after - server_before) / jobs


def _expect_open(course: Course, expected: int, found: int) -> None:
    if found != expected:
        course.run.problems.append(f"the store shows {found} open jobs, expected {expected}")


# ---- drain -----------------------------------------------------------------------------------------------------------


def _drain(processes: int) -> Callable[[Course], None]:
    def measure(course: Course) -> None:
        jobs = course.sizes.jobs
        way = "many" if "bulk" in course.entrant.entry.without else "bulk"
        course.entrant.ask("enqueue", "--way", way, "--jobs", jobs, within=course.left_s)
        course.place.settle(course.url)
        with course.entrant.watched() as open_jobs:
            _expect_open(course, jobs, open_jobs())
            with course.workers(processes) as workers:
                course.until(workers, lambda: ledger.count(course.ledger) > 0)
                cpu, server = workers.cpu_s(), course.place.cpu_s()
                course.until(workers, lambda: ledger.count(course.ledger) >= jobs)
                course.until(workers, lambda: open_jobs() == 0)
                ended = time.monotonic()
                _per_thousand(course, jobs, client_s=workers.cpu_s() - cpu, server_before=server)
                course.run.values["resident_mb"] = tree.resident_mb(_processes(course))
            _expect_open(course, 0, open_jobs())
        began = min(record.when for record in ledger.read(course.ledger))
        course.run.values["jobs_per_s"] = jobs / (ended - began)
        course.run.problems += audit.problems_of(course.ledger, range(jobs))

    return measure


def _processes(course: Course) -> set[int]:
    """Tell which processes ran jobs; a supervisor is not one of them."""
    return {record.process for record in ledger.read(course.ledger)}


# ---- waiting and idling ----------------------------------------------------------------------------------------------


class _Fed(NamedTuple):
    """When each job was enqueued, by its number: the moment before the call, and the one after it."""

    called: Mapping[int, float]
    returned: Mapping[int, float]


def _enqueued(course: Course, first: int, jobs: int, *options: object, rate: float = _RATE) -> _Fed:
    """Enqueue jobs at a rate; when."""
    ledgers = [course.folder / f"{moment}-{first}" for moment in _Fed._fields]
    where = ["--called", ledgers[0], "--returned", ledgers[1]]
    how = ["--first", first, "--jobs", jobs, "--rate", rate, *where, *options]
    course.entrant.ask("feed", *how, within=course.left_s)
    return _Fed(*({record.number: record.when for record in ledger.read(path)} for path in ledgers))


def _feed(course: Course, workers: Workers, first: int, jobs: int, *options: object, rate: float = _RATE) -> _Fed:
    """Enqueue jobs at a rate and wait until they ran; when they were enqueued."""
    fed = _enqueued(course, first, jobs, *options, rate=rate)
    course.until(workers, lambda: ledger.count(course.ledger) >= first + jobs)
    return fed


def _finish(course: Course, workers: Workers, jobs: int) -> None:
    """Check a run that was fed."""
    with course.entrant.watched() as open_jobs:
        course.until(workers, lambda: open_jobs() == 0)
    course.run.problems += audit.problems_of(course.ledger, range(jobs))


def _pickup(course: Course) -> None:
    """Measure from the call on: what it is to whoever enqueues."""
    jobs = _during(course, _RATE)
    with course.workers(1) as workers:
        _feed(course, workers, 0, _WARM)
        fed = _feed(course, workers, _WARM, jobs)
        _finish(course, workers, _WARM + jobs)
    _percentiles(course, fed.called, _began(course))


def _lone(course: Course) -> None:
    """Measure from the call's return on, by which the job is as durable as its store makes it."""
    jobs = _during(course, _LONE_RATE)
    with course.workers(1) as workers:
        alone = ("--ran", course.ledger)
        _feed(course, workers, 0, _WARM, *alone, rate=_LONE_RATE)
        fed = _feed(course, workers, _WARM, jobs, *alone, rate=_LONE_RATE)
        _finish(course, workers, _WARM + jobs)
    began = _began(course)
    _percentiles(course, fed.returned, began)
    _percentiles(course, fed.called, began, name="call_")


def _commit(course: Course) -> None:
    """Measure the bare store at the pace of lone jobs: by itself, with nobody who waits for what is written."""
    _enqueued(course, 0, _WARM, rate=_LONE_RATE)
    jobs = _during(course, _LONE_RATE)
    fed = _enqueued(course, _WARM, jobs, rate=_LONE_RATE)
    _percentiles(course, fed.called, fed.returned)
    with course.entrant.watched() as open_jobs:
        _expect_open(course, _WARM + jobs, open_jobs())


def _during(course: Course, rate: float) -> int:
    """Tell how many jobs a rate makes in the time of the run."""
    return max(1, round(rate * course.sizes.seconds))


def _began(course: Course) -> dict[int, float]:
    """Read when each job's handler began."""
    return {record.number: record.when for record in ledger.read(course.ledger)}


def _percentiles(course: Course, since: Mapping[int, float], until: Mapping[int, float], name: str = "") -> None:
    """Note how long it took from one moment to another; a job that never got there is the audit's to find."""
    waits = sorted(until[number] - since[number] for number in since.keys() & until.keys())
    for percent in _PERCENTILES:
        course.run.values[f"{name}p{percent}_ms"] = 1_000 * waits[math.ceil(len(waits) * percent / 100) - 1]


def _idle(course: Course) -> None:
    with course.workers(1) as workers:
        _feed(course, workers, 0, 1)
        time.sleep(min(_SETTLE_S, course.sizes.seconds))
        began, cpu, server = time.monotonic(), workers.cpu_s(), course.place.cpu_s()
        time.sleep(course.sizes.seconds)
        workers.check()
        length = time.monotonic() - began
        course.run.values["client_percent"] = 100 * (workers.cpu_s() - cpu) / length
        after = course.place.cpu_s()
        if after is not None and server is not None:
            course.run.values["server_percent"] = 100 * (after - server) / length
        _finish(course, workers, 1)


MEASURES: Mapping[str, Callable[[Course], None]] = {
    "one": _enqueue("one", lambda sizes: sizes.one),
    "many": _enqueue("many", lambda sizes: sizes.many),
    "bulk": _enqueue("bulk", lambda sizes: sizes.jobs),
    "drain1": _drain(1),
    "drain2": _drain(2),
    "pickup": _pickup,
    "lone": _lone,
    "commit": _commit,
    "idle": _idle,
}
