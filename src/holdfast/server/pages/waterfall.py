"""The way of a job through time: wait, attempts, phases, and the gaps between, laid out for a drawing.

Attempts of milliseconds and waits of days have to fit side by side: a gap in which nobody worked is drawn no longer
than all work together, and torn.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from holdfast.job import TERMINAL, JobState
from holdfast.phases import PhaseState
from holdfast.resources.job import Attempt, Job, JobPhase

WIDTH = 1_000.0
_LEAST = 4.0
_MOST_ROWS = 60
_ENDS = {
    JobState.COMPLETED.value: "ok",
    JobState.COMPLETED_WITH_ERRORS.value: "off",
    JobState.FAILED.value: "ko",
    JobState.CANCELLED.value: "off",
}
_PHASES = {PhaseState.COMPLETED: "ok", PhaseState.FAILED: "ko", PhaseState.RUNNING: "go", PhaseState.CANCELLED: "off"}


@dataclass(frozen=True)
class Row:
    """One line of the drawing: a bar, the gap before it, and how long it took.

    `resumed` is the phase that an attempt went on from, because earlier ones had done the phases before it.
    """

    label: str
    kind: str
    x: float
    width: float
    took: timedelta
    note: str = ""
    is_inner: bool = False
    gap_x: float | None = None
    tears: tuple[float, ...] = ()
    resumed: str = ""


@dataclass
class _Stretch:
    label: str
    kind: str
    start: datetime
    end: datetime
    note: str = ""
    is_work: bool = True
    phases: list[JobPhase] = field(default_factory=list)
    resumed: str = ""


def waterfall(job: Job, now: datetime) -> list[Row]:
    """Lay out the way of a job; `now` ends what still goes on."""
    until = max(now, job.enqueued_at)
    stretches = _stretches(job, until)
    scale = _Scale(stretches)
    rows: list[Row] = []
    before: datetime | None = None
    for stretch in stretches[-_MOST_ROWS:]:
        rows.append(scale.row(stretch, before))
        rows += [scale.inner(phase, stretch) for phase in stretch.phases]
        before = stretch.end
    return rows


def _stretches(job: Job, until: datetime) -> list[_Stretch]:
    works = [_attempt(ended) for ended in job.attempts]
    is_known = any(ended.claim == job.claim for ended in job.attempts)
    if job.claimed_at is not None and not is_known:
        end = job.finished_at or until
        kind = _ENDS.get(job.state.value, "go") if job.is_finished else "go"
        works.append(_Stretch(f"attempt {job.attempt}", kind, job.started_at or job.claimed_at, end, job.state.value))
    works.sort(key=lambda work: work.start)
    for phase in job.phases:
        _give(phase, works)
    for index, work in enumerate(works):
        is_done = any(phase.state is PhaseState.COMPLETED for before in works[:index] for phase in before.phases)
        work.resumed = work.phases[0].name if is_done and work.phases else ""
    first = works[0].start if works else (job.finished_at or until)
    begun = [_Stretch("waited", "wait", min(job.enqueued_at, first), first, is_work=False), *works]
    if works and job.state not in TERMINAL and job.state is not JobState.RUNNING:
        begun.append(_Stretch("waits again", "wait", works[-1].end, max(until, works[-1].end), is_work=False))
    return begun


def _attempt(ended: Attempt) -> _Stretch:
    start = ended.started_at or ended.claimed_at or ended.finished_at
    kind = _ENDS.get(ended.outcome, "ko" if ended.error_class else "off")
    return _Stretch(f"attempt {ended.attempt}", kind, min(start, ended.finished_at), ended.finished_at, ended.outcome)


def _give(phase: JobPhase, works: Sequence[_Stretch]) -> None:
    """Put a phase under the attempt that it began in."""
    if phase.started_at is None or not works:
        return
    under = [work for work in works if work.start <= phase.started_at + timedelta(milliseconds=50)]
    (under[-1] if under else works[0]).phases.append(phase)


class _Scale:
    """Where a moment lies in the drawing."""

    def __init__(self, stretches: Sequence[_Stretch]) -> None:
        start = stretches[0].start
        end = max(stretch.end for stretch in stretches)
        cuts = _merged([(stretch.start, stretch.end) for stretch in stretches if stretch.is_work])
        work = sum((until - since for since, until in cuts), timedelta())
        most = max(work, timedelta(milliseconds=1)) if cuts else end - start
        self._pieces: list[tuple[datetime, datetime, float, float, bool]] = []
        edges: list[tuple[datetime, datetime, bool]] = []
        at = start
        for since, until in cuts:
            edges += [(at, since, False), (since, until, True)]
            at = until
        edges.append((at, end, False))
        sizes = [
            (since, until, until - since if is_work else min(until - since, most)) for since, until, is_work in edges
        ]
        whole = sum((size for _, _, size in sizes), timedelta()) or timedelta(milliseconds=1)
        x = 0.0
        for since, until, size in sizes:
            width = size / whole * WIDTH
            self._pieces.append((since, until, x, width, size < until - since))
            x += width

    def row(self, stretch: _Stretch, before: datetime | None) -> Row:
        """Lay out a stretch, and the gap before it."""
        x, end = self._x(stretch.start), self._x(stretch.end)
        gap = self._x(before) if before is not None and before < stretch.start else None
        torn = tuple(
            round(left + width / 2, 1)
            for since, until, left, width, is_torn in self._pieces
            if is_torn
            and (before or stretch.start) <= since
            and until <= stretch.end
            and not (stretch.is_work and since >= stretch.start)
        )
        return Row(
            stretch.label,
            stretch.kind,
            round(min(x, WIDTH - _LEAST), 1),
            round(max(end - x, _LEAST), 1),
            stretch.end - stretch.start,
            stretch.note,
            gap_x=gap,
            tears=torn,
            resumed=stretch.resumed,
        )

    def inner(self, phase: JobPhase, stretch: _Stretch) -> Row:
        """Lay out a phase under its attempt."""
        start = phase.started_at or stretch.start
        end = max(phase.finished_at or stretch.end, start)
        x = self._x(start)
        kind = _PHASES.get(phase.state, "off")
        width = max(self._x(end) - x, _LEAST)
        return Row(
            phase.name,
            kind,
            round(min(x, WIDTH - _LEAST), 1),
            round(width, 1),
            end - start,
            phase.state.value,
            is_inner=True,
        )

    def _x(self, moment: datetime) -> float:
        for since, until, x, width, _ in self._pieces:
            if moment <= until:
                share = (moment - since) / (until - since) if until > since else 1.0
                return round(x + width * min(max(share, 0.0), 1.0), 1)
        return WIDTH


def _merged(spans: Sequence[tuple[datetime, datetime]]) -> list[tuple[datetime, datetime]]:
    """Join spans that overlap."""
    found: list[tuple[datetime, datetime]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found
