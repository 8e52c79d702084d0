"""How long a claim takes with ten thousand rows and with millions.

Every size has a store of its own and they take turns, one visit each, so that whatever slows the machine down slows
all of them. A visit leaves as many jobs queued as it found.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.scale.asking import Asker, enter, starts_at_beginning
from benchmarks.scale.blocks import explain_verbs
from benchmarks.scale.latency import percentile, spread
from benchmarks.scale.once import WrongRun
from benchmarks.scale.place import AnyStore, Place, execute, store_place
from benchmarks.scale.report import Cell, Curves, Figure, Report, Table
from benchmarks.scale.rows import Rows, fill, settle
from benchmarks.scale.sizes import Sizes
from holdfast.job import JobRow, JobState, NewJob
from holdfast.stores.values import Claim, Finish, Verdict
from holdfast.transitions import completed

FEW, MANY = 10, 100
WORST_RATIO = 1.5
_WARM_UP = 20
_FROM_BEGINNING = " from the lane's beginning"
# Vacuum goes on; only the statistics stay those of the empty table.
_UNKNOWING = (
    "ANALYZE holdfast.jobs, holdfast.history",
    "ALTER TABLE holdfast.jobs SET (autovacuum_analyze_threshold = 2000000000)",
)
_KNOWING = "ALTER TABLE holdfast.jobs RESET (autovacuum_analyze_threshold)"

Timings = dict[str, list[float]]


@dataclass
class Subject:
    """One size: its store, the worker that claims there, and the timings."""

    rows: Rows
    place: Place
    store: AnyStore
    asker: Asker
    held: list[JobRow] = field(default_factory=list)
    timings: Timings = field(default_factory=dict)

    async def visit(self) -> None:
        """Claim a few; finish many and claim as many; then make up for what is gone."""
        claim = self.asker.claim(FEW)
        began = time.perf_counter()
        few = await self.store.claim_jobs(claim)
        self._note(f"claim {FEW}", claim, began)
        self.asker.took(few)
        ends = [completed(job.id, job.claim) for job in self.held]
        claim = self.asker.claim(MANY)
        began = time.perf_counter()
        worked = await self.store.finish_jobs(ends, claim=claim)
        self._note(f"finish {MANY} and claim {MANY}", claim, began)
        self.asker.took(worked.claimed)
        self.held = worked.claimed
        last = await self.store.finish_jobs([completed(job.id, job.claim) for job in few])
        _require_done([*worked.finishes, *last.finishes])
        await self._make_up(len(few) + len(ends))

    async def leave(self) -> None:
        """Finish what is held; then as many jobs wait as in the beginning, and none runs."""
        _require_done((await self.store.finish_jobs([completed(job.id, job.claim) for job in self.held])).finishes)
        await self._make_up(len(self.held))
        left = {count.state: count for count in await self.store.count_jobs()}
        queued = left[JobState.QUEUED]
        if JobState.RUNNING in left or not (queued.capped or queued.jobs == self.rows.queued):
            message = f"of {self.rows.queued:,} jobs {queued.jobs:,} wait, and some may be running: {left}"
            raise WrongRun(message)

    def _note(self, verb: str, claim: Claim, began: float) -> None:
        took = (time.perf_counter() - began) * 1_000
        self.timings.setdefault(verb, []).append(took)
        if starts_at_beginning(claim):
            self.timings.setdefault(verb + _FROM_BEGINNING, []).append(took)

    async def _make_up(self, jobs: int) -> None:
        ids = await self.store.take_ids(jobs)
        await self.store.insert_jobs([_new_job(job_id) for job_id in ids])


def _require_done(finishes: Sequence[Finish]) -> None:
    if any(finish.verdict is not Verdict.DONE for finish in finishes):
        message = "the store refused to finish a job that was claimed"
        raise WrongRun(message)


def _new_job(job_id: int) -> NewJob:
    return NewJob(
        id=job_id,
        kind="work",
        queue="default",
        priority=5,
        payload='{"number":0}',
        max_attempts=5,
        max_crashes=3,
        timeout_ms=3_600_000,
    )


def run(dsn: str, folder: Path, sizes: Sizes) -> Iterator[Report]:
    """Measure each store, with the statistics that the planner may have."""
    for store in sizes.stores:
        with ExitStack() as stack:
            places: dict[Rows, Place] = {}
            for rows in _all_rows(sizes):
                place = places[rows] = stack.enter_context(store_place(store, dsn, folder))
                if place.is_postgres:
                    asyncio.run(execute(place, *_UNKNOWING))
                fill(place, rows)
            found: dict[str, dict[Rows, Timings]] = {}
            if store == "postgres":
                asyncio.run(execute(places[Rows(*sizes.claim_full)], "CHECKPOINT"))
                found["statistics of the empty table"] = asyncio.run(_measure(places, sizes.claim_samples))
                for place in places.values():
                    asyncio.run(execute(place, _KNOWING))
            for place in places.values():
                settle(place)
            known = "statistics as autovacuum leaves them" if store == "postgres" else "as the store leaves it"
            found[known] = asyncio.run(_measure(places, sizes.claim_samples))
            tables = [_block_table(places)] if store == "postgres" else []
        yield _report(store, found, known, tables)


def _all_rows(sizes: Sizes) -> list[Rows]:
    return [*(Rows(queued) for queued in sizes.claim_queued), Rows(*sizes.claim_full)]


async def _measure(places: dict[Rows, Place], samples: int) -> dict[Rows, Timings]:
    async with AsyncExitStack() as stack:
        subjects: list[Subject] = []
        for rows, place in places.items():
            store = await stack.enter_async_context(place.opened())
            subjects.append(Subject(rows, place, store, await enter(store)))
        for number in range(_WARM_UP + samples):
            if number == _WARM_UP:
                for subject in subjects:
                    subject.timings.clear()
            first = number % len(subjects)  # nobody always follows the same neighbour
            for subject in (*subjects[first:], *subjects[:first]):
                await subject.visit()
        for subject in subjects:
            await subject.leave()
        return {subject.rows: subject.timings for subject in subjects}


def _block_table(places: dict[Rows, Place]) -> Table:
    lines: list[list[Cell]] = []
    for rows, place in places.items():
        for verb, touched in asyncio.run(explain_verbs(place, FEW, MANY)).items():
            lines.append([verb, rows.queued, rows.scheduled, rows.finished, touched.blocks, touched.fastest_ms])
    lines.sort(key=lambda line: str(line[0]))
    columns = ["call", "queued", "scheduled", "finished", "blocks touched", "ms on the server, fastest"]
    return Table("What a claim touches on postgres, by EXPLAIN (ANALYZE, BUFFERS)", columns, lines)


def _report(store: str, found: dict[str, dict[Rows, Timings]], known: str, more: list[Table]) -> Report:
    tables: list[Table] = []
    figures, curves = [], []
    for statistics, by_rows in found.items():
        least, most = (choose(by_rows, key=lambda rows: rows.total) for choose in (min, max))
        verbs = [verb for verb in by_rows[least] if not verb.endswith(_FROM_BEGINNING)]
        lines: list[list[Cell]] = []
        for verb in sorted(by_rows[least]):
            lines += [_line(verb, rows, timings.get(verb, [])) for rows, timings in by_rows.items()]
        columns = ["call", "queued", "scheduled", "finished", "calls", "p50 ms", "p95", "p99", "p99 of fifths", "max"]
        tables.append(Table(f"Claims on {store}, {statistics}", columns, lines))
        for verb in verbs:
            ratio = percentile(by_rows[most][verb], 99) / percentile(by_rows[least][verb], 99)
            text = f"{store}, {verb}, p99 with {most.total:,} rows to p99 with {least.total:,}, {statistics}"
            figures.append(Figure(text, ratio, WORST_RATIO, at_least=False))
        if statistics == known:
            curves.append(_curves(store, by_rows, verbs))
    raw = {statistics: {str(rows): timings for rows, timings in by.items()} for statistics, by in found.items()}
    title = f"Claims against millions of rows: {store}"
    return Report(f"claim-{store}", title, [*tables, *more], figures, curves=curves, raw=raw)


def _line(verb: str, rows: Rows, took: list[float]) -> list[Cell]:
    head: list[Cell] = [verb, rows.queued, rows.scheduled, rows.finished, len(took)]
    if not took:
        return [*head, *[""] * 5]
    return [*head, *(percentile(took, percent) for percent in (50, 95, 99)), spread(took, 99), max(took)]


def _curves(store: str, by_rows: dict[Rows, Timings], verbs: list[str]) -> Curves:
    lines = {
        f"{verb}, p{percent}": [(float(rows.total), percentile(took[verb], percent)) for rows, took in by_rows.items()]
        for verb in verbs
        for percent in (50, 99)
    }
    return Curves(f"claim-{store}", f"Claims on {store}", "rows", "milliseconds", lines, is_logarithmic=True)
