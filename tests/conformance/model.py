"""What a store does with jobs, in plain Python: small enough to be believed, and compared with every store."""

import dataclasses
from datetime import datetime, timedelta

from holdfast.job import RETRYABLE, TERMINAL, WAITING, Answer, JobState
from holdfast.stores.values import Finish, Verdict
from holdfast.transitions import Transition, Verb

KEPT = {
    JobState.COMPLETED: timedelta(hours=1),
    JobState.COMPLETED_WITH_ERRORS: timedelta(hours=1),
    JobState.FAILED: timedelta(days=3),
    JobState.CANCELLED: timedelta(days=2),
}
LOST = Finish(Verdict.LOST, None)
# The verbs by which a claim can have ended a life in each state; what was to wait again may have ended cancelled.
ENDED_BY = {
    JobState.COMPLETED_WITH_ERRORS: {Verb.COMPLETE},
    JobState.FAILED: {Verb.FAIL},
    JobState.CANCELLED: set(Verb) - {Verb.COMPLETE, Verb.FAIL},
}


@dataclasses.dataclass
class ModelJob:
    """One job; `claims` are the numbers given out so far, `accepted` the ends of claims that were accepted."""

    id: int
    state: JobState
    run_at: datetime
    position: int
    unique: str | None
    max_crashes: int
    claim: int = 0
    life: int = 1
    attempt: int = 0
    crashes: int = 0
    lease_ends: datetime | None = None
    marked_at: datetime | None = None
    delete_at: datetime | None = None
    started: bool = False
    percent: float | None = None
    claims: list[int] = dataclasses.field(default_factory=list)
    accepted: set[tuple[int, Verb]] = dataclasses.field(default_factory=set)
    ended_by: int | None = None  # the claim whose own write ended this life
    buried_by: int | None = None  # the claim under which it crashed for the last time


class Model:
    """All jobs of one lane."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.jobs: dict[int, ModelJob] = {}
        self._last_position = 0

    def holder_of(self, unique: str | None) -> ModelJob | None:
        """The live job that holds a unique key."""
        held = (job for job in self.jobs.values() if job.state not in TERMINAL and job.unique == unique)
        return next(held, None) if unique else None

    def insert(self, job_id: int, delay_ms: int, unique: str | None, max_crashes: int) -> None:
        """Store a job that meets no other."""
        job = ModelJob(job_id, JobState.QUEUED, self.now, 0, unique, max_crashes)
        self._wait(job, delay_ms)
        self.jobs[job_id] = job

    def claim(self, lease_ends: datetime, limit: int) -> list[tuple[int, int]]:
        """Take the first jobs of the lane; answers `(id, claim)`."""
        ready = sorted(
            (job for job in self.jobs.values() if job.state is JobState.QUEUED), key=lambda job: job.position
        )
        for job in ready[:limit]:
            job.state, job.lease_ends, job.started = JobState.RUNNING, lease_ends, False
            job.claim += 1
            job.attempt += 1
            job.claims.append(job.claim)
        return [(job.id, job.claim) for job in ready[:limit]]

    def holds(self, job_id: int, claim: int) -> bool:
        """Whether a claim is the one that runs the job."""
        job = self.jobs.get(job_id)
        return job is not None and job.state is JobState.RUNNING and job.claim == claim

    def finish(self, end: Transition) -> Finish:
        """End a claim, or say that it is no longer ours."""
        job = self.jobs.get(end.id)
        if job is None:
            return LOST
        if not self.holds(end.id, end.claim):
            was_us = (end.claim, end.verb) in job.accepted or job.ended_by == end.claim
            was_us |= job.buried_by == end.claim and end.verb is Verb.CRASH
            return Finish(Verdict.ALREADY, job.state) if was_us else LOST
        self._end(job, end.verb, end.state, end.delay_ms)
        return Finish(Verdict.DONE, job.state)

    def rescue(self) -> dict[JobState, set[int]]:
        """Take back what the workers hold whose lease has ended."""
        moved: dict[JobState, set[int]] = {}
        for job in self.jobs.values():
            if job.state is JobState.RUNNING and job.lease_ends is not None and job.lease_ends < self.now:
                is_unbegun = not job.started and (job.crashes > 0 or job.max_crashes == 1)
                self._end(job, Verb.INTERRUPT if is_unbegun else Verb.CRASH, JobState.QUEUED, 0)
                moved.setdefault(job.state, set()).add(job.id)
        return moved

    def cancel(self, job_id: int) -> Answer:
        """End a waiting job, mark a running one."""
        job = self.jobs.get(job_id)
        if job is None:
            return Answer.NOT_FOUND
        if job.state is JobState.RUNNING:
            job.marked_at = job.marked_at or self.now
            return Answer.REQUESTED
        if job.state in WAITING:
            job.claim += job.claim > 0  # the last holder, who lost it, must not take this end for its own
            self._terminate(job, JobState.CANCELLED)
        return Answer.DONE if job.state is JobState.CANCELLED else Answer.WRONG_STATE

    def force(self, grace: timedelta) -> set[int]:
        """End what was marked longer than the grace ago."""
        late = {
            job.id
            for job in self.jobs.values()
            if job.state is JobState.RUNNING and job.marked_at and job.marked_at + grace <= self.now
        }
        for job_id in late:
            self.jobs[job_id].claim += 1
            self._terminate(self.jobs[job_id], JobState.CANCELLED)
        return late

    def retry(self, job_id: int) -> Answer:
        """Give a finished job a new life."""
        job = self.jobs.get(job_id)
        if job is None:
            return Answer.NOT_FOUND
        if job.state not in RETRYABLE:
            return Answer.WRONG_STATE
        if job.delete_at is not None and job.delete_at < self.now + min(timedelta(days=1), KEPT[job.state] / 2):
            return Answer.EXPIRING
        if self.holder_of(job.unique):
            return Answer.UNIQUE_CLASH
        if job.ended_by is not None:  # the holder that ended it may not know that it did
            job.accepted |= {(job.ended_by, verb) for verb in ENDED_BY[job.state]}
        job.life += 1
        job.attempt = job.crashes = 0
        job.marked_at = job.delete_at = job.ended_by = job.buried_by = job.percent = None
        self._wait(job, 0)
        return Answer.DONE

    def delete(self, job_id: int) -> Answer:
        """Delete a finished job."""
        job = self.jobs.get(job_id)
        if job is None:
            return Answer.NOT_FOUND
        if job.state not in TERMINAL:
            return Answer.WRONG_STATE
        del self.jobs[job_id]
        return Answer.DONE

    def move_time(self, to: datetime) -> None:
        """Let time pass, in which retention ends."""
        self.now = to
        self.jobs = {job.id: job for job in self.jobs.values() if job.delete_at is None or job.delete_at > to}

    def promote(self) -> int:
        """Make due jobs `queued`, earliest first."""
        due = [job for job in self.jobs.values() if job.state is JobState.SCHEDULED and job.run_at <= self.now]
        for job in sorted(due, key=lambda job: (job.run_at, job.id)):
            job.state = JobState.QUEUED
            self._to_the_end(job)
        return len(due)

    def _end(self, job: ModelJob, verb: Verb, state: JobState, delay_ms: int) -> None:
        if verb is Verb.CRASH:
            job.crashes += 1
            state = JobState.QUEUED if job.crashes == 1 else JobState.SCHEDULED
            if job.crashes >= job.max_crashes:
                state = JobState.FAILED
        if job.marked_at and verb in (Verb.RETRY, Verb.SNOOZE, Verb.INTERRUPT, Verb.CRASH):
            state = JobState.CANCELLED
        claim, terminal = job.claim, state in TERMINAL
        if verb is Verb.CRASH or (verb in (Verb.SNOOZE, Verb.INTERRUPT) and not terminal):
            job.attempt -= 1
        if terminal:
            self._terminate(job, state)
            job.claim += verb is Verb.CRASH
            job.buried_by, job.ended_by = (claim, None) if verb is Verb.CRASH else (None, claim)
            return
        job.accepted.add((claim, verb))
        if verb is Verb.INTERRUPT or (verb is Verb.CRASH and state is JobState.QUEUED):
            job.state = JobState.QUEUED  # at its old place
        elif verb is Verb.CRASH:
            job.state = JobState.SCHEDULED  # for a time of chance, which the machine reads
        else:
            self._wait(job, delay_ms)

    def _terminate(self, job: ModelJob, state: JobState) -> None:
        job.state, job.delete_at = state, self.now + KEPT[state]

    def _wait(self, job: ModelJob, delay_ms: int) -> None:
        job.run_at = self.now + timedelta(milliseconds=delay_ms)
        job.state = JobState.SCHEDULED if delay_ms else JobState.QUEUED
        if not delay_ms:
            self._to_the_end(job)

    def _to_the_end(self, job: ModelJob) -> None:
        self._last_position += 1
        job.position = self._last_position
