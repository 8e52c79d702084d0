"""What must be true at the end of every run, whatever went wrong in it."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from holdfast.job import TERMINAL, JobRow, JobState
from holdfast.stores.store import Store
from holdfast.transitions import is_legal
from tests.support.lines import whole_lines
from tests.support.wait import PATIENCE_S, until

_THREADS = 4  # of one worker process, at most: the slots of the workers that are killed here
_PARTICULARS = re.compile(r"[0-9a-z]{4}-[0-9a-z]{4}-[0-9a-z]+-\d\d|\d[\d.]*")


class Note(NamedTuple):
    """One line of the handlers' own ledger."""

    what: str
    job: int
    claim: int
    pid: int
    at: float


def read_ledger(path: Path) -> list[Note]:
    """Read what the handlers wrote down; a line that a kill cut is none."""
    notes: list[Note] = []
    for line in whole_lines(path):
        fields = line.split()
        if len(fields) == 5:
            notes.append(Note(fields[0], int(fields[1]), int(fields[2]), int(fields[3]), float(fields[4])))
    return notes


async def all_ended(store: Store, ids: Sequence[int], patience_s: float = 2 * PATIENCE_S) -> dict[int, JobRow]:
    """Wait until every job has ended, and read them."""
    left = list(ids)

    async def have_ended() -> bool:
        ended: set[int] = set()
        for start in range(0, len(left), 1_000):
            ended |= {job.id for job in await store.finished_jobs(left[start : start + 1_000])}
        left[:] = [job_id for job_id in left if job_id not in ended]
        return not left

    try:
        await until(have_ended, "every job has ended", patience_s)
    except AssertionError as error:
        states = Counter(job.state for job in await store.get_jobs(left[:1_000]))
        message = f"{len(left)} of {len(ids)} jobs have not ended: {dict(states)}"
        raise AssertionError(message) from error
    found: dict[int, JobRow] = {}
    for start in range(0, len(ids), 1_000):
        found |= {job.id: job for job in await store.get_jobs(ids[start : start + 1_000])}
    return found


def loudest(log: str) -> tuple[int, str]:
    """Find the message that was logged most often, whatever numbers and names it held; not what is said of jobs."""
    said = Counter(_PARTICULARS.sub("…", line.partition("holdfast: ")[2])[:60] for line in log.splitlines())
    return max(((count, text) for text, count in said.items() if text and not text.startswith("job ")), default=(0, ""))


class Oracle:
    """The invariants of reliability: what was accepted ended once, and nobody was charged who had not begun."""

    def __init__(self, jobs: dict[int, JobRow], notes: Sequence[Note], effects: Sequence[tuple[int, int]]) -> None:
        self.jobs = jobs
        self.notes = notes
        self.effects = effects
        self.begun: dict[int, set[int]] = {}
        for note in notes:
            if note.what == "begin":
                self.begun.setdefault(note.job, set()).add(note.claim)

    def check(self, accepted: Sequence[int], *, at_once: int = 1) -> None:
        """I1, I3, I4, I5, I7: raises what does not hold; `at_once` handlers of a process may begin at one moment."""
        missing = set(accepted) - self.jobs.keys()
        assert not missing, f"{len(missing)} accepted jobs are gone"
        for job in self.jobs.values():
            assert job.state in TERMINAL, job
            self._check_attempts(job)
        if self.notes:
            self._check_charges(at_once)
        self._check_effects()

    def _check_attempts(self, job: JobRow) -> None:
        claims = [attempt.claim for attempt in job.attempts]
        assert claims == sorted(set(claims)), f"claims of {job.id} do not grow: {claims}"
        assert all(claim < job.claim or job.extra.get("ended_by") for claim in claims), job
        assert is_legal(JobState.RUNNING, job.state)

    def _check_charges(self, at_once: int) -> None:
        """Look for claims that were charged and had not begun.

        When a lease ends, nobody knows what had begun: then, and only then, every claim counts as a crash. And a kill
        may hit the handlers of a process that have just been marked and have not written their first line yet: on an
        event loop that is one, in threads as many as it has.
        """
        by_reason: dict[tuple[str | None, bool], list[tuple[int, int]]] = {}
        for job in self.jobs.values():
            for attempt in job.attempts:
                is_charged = attempt.outcome in ("retry", "crash") and not _is_lease_end(attempt.error)
                if is_charged and attempt.claim not in self.begun.get(job.id, set()):
                    by_reason.setdefault((attempt.error, job.kind == "threaded"), []).append((job.id, attempt.claim))
        for (reason, is_threaded), claims in by_reason.items():
            most = (max(at_once, _THREADS) if is_threaded else at_once) if reason and "process" in reason else 0
            assert len(claims) <= most, f"charged for claims that had not begun: {claims}, {reason}"

    def _check_effects(self) -> None:
        rows = Counter(job for job, _ in self.effects)
        doubled = {job: count for job, count in rows.items() if count > 1}
        assert not doubled, f"effects happened more than once: {doubled}"
        for job in self.jobs.values():
            if job.kind in ("effect", "gated_effect") and job.state is JobState.COMPLETED:
                assert rows[job.id] == 1, f"job {job.id} completed without its effect"
        claims = dict(self.effects)
        for job_id, claim in claims.items():
            ended = self.jobs.get(job_id)
            assert ended is None or ended.claim == claim, f"the effect of claim {claim} stands, the job ended: {ended}"

    @property
    def lease_ends(self) -> int:
        """How many claims were taken because a lease had ended."""
        return sum(_is_lease_end(attempt.error) for job in self.jobs.values() for attempt in job.attempts)

    @property
    def overlaps(self) -> int:
        """How many claims of one job ran at the same time: allowed only where a lease had ended."""
        runs: dict[tuple[int, int], list[float]] = {}
        for note in self.notes:
            runs.setdefault((note.job, note.claim), []).append(note.at)
        by_job: dict[int, list[tuple[float, float]]] = {}
        for (job, _), times in runs.items():
            if len(times) > 1:
                by_job.setdefault(job, []).append((times[0], times[-1]))
        return sum(
            1
            for spans in by_job.values()
            for first, second in zip(sorted(spans), sorted(spans)[1:], strict=False)
            if second[0] < first[1]
        )


def _is_lease_end(error: str | None) -> bool:
    return error is not None and "lease ended" in error
