"""A machine that uses a store at random and compares it, after every step, with the model."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from datetime import timedelta
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.job import TERMINAL, JobRow, JobState
from holdfast.stores.store import Store
from holdfast.stores.values import Insertion, ProgressReport, Started, Verdict
from holdfast.transitions import (
    Transition,
    Verb,
    cancelled,
    completed,
    crashed,
    failed,
    interrupted,
    is_legal,
    retried,
    snoozed,
)
from tests.conformance.model import KEPT, Model
from tests.support import raw
from tests.support.builders import FAILURE, claim, keeping, new_job, register
from tests.support.clock import START, set_time

T = TypeVar("T")

SHORT, LONG = timedelta(seconds=10), timedelta(days=10_000)
GRACE = timedelta(seconds=30)
ENOUGH = 10_000

MOST_JOBS = 4  # few, so that the steps meet the same jobs again

picks = st.integers(0, MOST_JOBS)  # which of the jobs, by age
delays = st.sampled_from([0, 0, 0, 2_000])
ages = st.sampled_from([0, 0, 1, 2])  # which claim of the job: the last one, or a stale one


def ending(verb: Verb, job_id: int, number: int, delay_ms: int) -> Transition:
    """The end of a claim."""
    endings: dict[Verb, Callable[[], Transition]] = {
        Verb.COMPLETE: lambda: completed(job_id, number, "1", with_errors=delay_ms > 0),
        Verb.FAIL: lambda: failed(job_id, number, FAILURE),
        Verb.RETRY: lambda: retried(job_id, number, FAILURE, delay_ms),
        Verb.SNOOZE: lambda: snoozed(job_id, number, delay_ms),
        Verb.CANCEL: lambda: cancelled(job_id, number),
        Verb.INTERRUPT: lambda: interrupted(job_id, number),
        Verb.CRASH: lambda: crashed(job_id, number, FAILURE),
    }
    return endings[verb]()


class StoreMachine(RuleBasedStateMachine):
    """One example: an empty store, and steps until something differs."""

    store: ClassVar[Store]
    runner: ClassVar[asyncio.Runner]

    def __init__(self) -> None:
        super().__init__()
        self.model = Model(START)
        self.ids: list[int] = []  # every job there ever was
        self.claims: dict[int, list[int]] = {}  # every claim that was given out
        self.seen: dict[int, JobState | None] = {}
        self.ends: dict[tuple[int, int], JobState] = {}
        self.run(self._begin())

    async def _begin(self) -> None:
        await raw.clear(self.store)
        await set_time(self.store, START)
        kept = {f"{state}_ms": round(duration / timedelta(milliseconds=1)) for state, duration in KEPT.items()}
        await self.store.define_queues({"default": keeping(**kept)})
        self.mortal = await register(self.store, lease_ms=round(SHORT.total_seconds() * 1_000))
        self.mortal_until = START + SHORT
        self.immortal = await register(self.store, lease_ms=round(LONG.total_seconds() * 1_000))

    # ---- steps -----------------------------------------------------------------------------------------------------

    @initialize()
    def enqueue_one(self) -> None:
        self.enqueue(0, None, 3)

    @precondition(lambda self: len(self.model.jobs) < MOST_JOBS)
    @rule(delay_ms=delays, unique=st.sampled_from([None, None, "u", "v"]), max_crashes=st.integers(1, 3))
    def enqueue(self, delay_ms: int, unique: str | None, max_crashes: int) -> None:
        (job_id,) = self.run(self.store.take_ids(1))
        holder = self.model.holder_of(unique)
        job = new_job(job_id, delay_ms=delay_ms, unique=unique, max_crashes=max_crashes)
        (answer,) = self.run(self.store.insert_jobs([job]))
        if holder is not None:
            assert (answer.outcome, answer.id) == (Insertion.EXISTING, holder.id)
            return
        assert (answer.outcome, answer.id) == (Insertion.CREATED, job_id)
        self.model.insert(job_id, delay_ms, unique, max_crashes)
        self.ids.append(job_id)
        self.claims[job_id] = []

    @precondition(lambda self: self._any(JobState.QUEUED))
    @rule(mortal=st.booleans(), limit=st.integers(1, MOST_JOBS))
    def claim(self, mortal: bool, limit: int) -> None:
        worker, until = (self.mortal, self.mortal_until) if mortal else (self.immortal, START + LONG)
        expected = self.model.claim(until, limit)
        taken = self.run(claim(self.store, worker, limit=limit))
        for job in taken:
            assert job.claim > max(self.claims[job.id], default=0), "a claim number came twice"
            self.claims[job.id].append(job.claim)
        assert [(job.id, job.claim) for job in taken] == expected

    @precondition(lambda self: any(self.claims.values()))
    @rule(pick=picks, age=ages, percent=st.none() | st.integers(0, 100))
    def start_or_report(self, pick: int, age: int, percent: int | None) -> None:
        job_id, number = self._claim_of(pick, age)
        if percent is None:
            (verdict,) = self.run(self.store.start_jobs([Started(job_id, number, 0)]))
        else:
            (verdict,) = self.run(self.store.save_progress([ProgressReport(job_id, number, percent)]))
        assert (verdict is Verdict.DONE) == self.model.holds(job_id, number)
        if verdict is Verdict.DONE:
            job = self.model.jobs[job_id]
            job.started, job.percent = (True, job.percent) if percent is None else (job.started, percent)

    def _finish(self, verb: Verb, pick: int, age: int, delay_ms: int) -> None:
        job_id, number = self._claim_of(pick, age)
        transition = ending(verb, job_id, number, delay_ms)
        ours, known = self.model.holds(job_id, number), job_id in self.model.jobs
        expected = self.model.finish(transition)
        found = self.run(self.store.finish_jobs([transition])).finishes[0]
        assert ours or found.verdict is not Verdict.DONE, "a stale write was accepted"
        assert found == expected or not known  # what has expired may lie there until upkeep comes: "it was us" is true
        if ours and verb is Verb.CRASH:
            self._learn_waits([job_id])

    @precondition(lambda self: any(self.claims.values()))
    @rule(pick=picks, age=ages, with_errors=st.booleans())
    def complete(self, pick: int, age: int, with_errors: bool) -> None:
        self._finish(Verb.COMPLETE, pick, age, int(with_errors))

    @precondition(lambda self: any(self.claims.values()))
    @rule(verb=st.sampled_from([Verb.FAIL, Verb.FAIL, Verb.CANCEL, Verb.CRASH]), pick=picks, age=ages)
    def fail(self, verb: Verb, pick: int, age: int) -> None:
        self._finish(verb, pick, age, 0)

    @precondition(lambda self: any(self.claims.values()))
    @rule(verb=st.sampled_from([Verb.RETRY, Verb.SNOOZE, Verb.INTERRUPT]), pick=picks, age=ages, delay_ms=delays)
    def wait_again(self, verb: Verb, pick: int, age: int, delay_ms: int) -> None:
        self._finish(verb, pick, age, delay_ms)

    @precondition(lambda self: self._any(JobState.RUNNING))
    @rule()
    def expire_and_rescue(self) -> None:
        self._move_time(SHORT + timedelta(milliseconds=1))
        moved = self.model.rescue()
        rescued = self.run(self.store.rescue_jobs(ENOUGH))
        waiting = moved.get(JobState.QUEUED, set()) | moved.get(JobState.SCHEDULED, set())
        assert set(rescued.requeued) == waiting
        assert set(rescued.failed) == moved.get(JobState.FAILED, set())
        assert set(rescued.cancelled) == moved.get(JobState.CANCELLED, set())
        self._learn_waits(moved.get(JobState.SCHEDULED, set()))
        self.mortal = self.run(register(self.store, lease_ms=round(SHORT.total_seconds() * 1_000)))
        self.mortal_until = self.model.now + SHORT

    @rule(pick=picks)
    def cancel(self, pick: int) -> None:
        job_id = self._id_of(pick)
        (answered,) = self.run(self.store.cancel_jobs([job_id], actor=None, reason=None))
        assert answered.answer is self.model.cancel(job_id)

    @precondition(lambda self: any(job.marked_at for job in self.model.jobs.values()))
    @rule()
    def force_cancels(self) -> None:
        self._move_time(GRACE / 2)
        forced = self.run(self.store.force_cancels(round(GRACE.total_seconds() * 1_000), ENOUGH))
        assert set(forced) == self.model.force(GRACE)

    @precondition(lambda self: self._any(*TERMINAL))
    @rule(pick=picks)
    def retry_by_hand(self, pick: int) -> None:
        job_id = self._id_of(pick)
        (answered,) = self.run(self.store.retry_jobs([job_id]))
        assert answered.answer is self.model.retry(job_id)

    @precondition(lambda self: self._any(*TERMINAL))
    @rule(pick=picks)
    def delete(self, pick: int) -> None:
        job_id = self._id_of(pick)
        (answered,) = self.run(self.store.delete_jobs([job_id]))
        assert answered.answer is self.model.delete(job_id)

    @precondition(lambda self: self._any(*TERMINAL))
    @rule(duration=st.sampled_from([timedelta(hours=1), timedelta(days=1, hours=1)]))
    def prune(self, duration: timedelta) -> None:
        self._move_time(duration)
        self.run(self.store.keep_history(ENOUGH))

    @precondition(lambda self: self._any(JobState.SCHEDULED))
    @rule(seconds=st.sampled_from([1, 2, 30]))
    def tick(self, seconds: int) -> None:
        self._move_time(timedelta(seconds=seconds))
        assert self.run(self.store.promote_jobs(ENOUGH)).jobs == self.model.promote()

    # ---- what must hold --------------------------------------------------------------------------------------------

    @invariant()
    def store_and_model_agree(self) -> None:
        jobs = self.run(self.store.get_jobs(self.ids))
        found = {job.id: job for job in jobs}
        assert len(found) == len(jobs), "a job is there twice"
        assert {job.id: _shown(job) for job in jobs} == {
            job.id: (
                job.state,
                job.claim,
                job.life,
                job.attempt,
                job.crashes,
                job.marked_at,
                job.delete_at,
                job.started if job.state is JobState.RUNNING else None,
                job.percent,
            )
            for job in self.model.jobs.values()
        }
        for job_id in self.ids:
            before, after = self.seen.get(job_id), found[job_id].state if job_id in found else None
            assert before is after or is_legal(before, after), f"an illegal move: {before} to {after}"
            self.seen[job_id] = after
        for job in jobs:
            if job.state in TERMINAL:
                assert self.ends.setdefault((job.id, job.life), job.state) is job.state, "a life ended twice"
            else:
                assert (job.id, job.life) not in self.ends, "a life went on after its end"

    # ---- parts of steps --------------------------------------------------------------------------------------------

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Wait for a verb of the store."""
        return self.runner.run(call)

    def _any(self, *states: JobState) -> bool:
        return any(job.state in states for job in self.model.jobs.values())

    def _id_of(self, pick: int) -> int:
        return self.ids[-1 - pick % len(self.ids)]

    def _claim_of(self, pick: int, age: int) -> tuple[int, int]:
        """One of the jobs that were claimed, and one of its claims."""
        claimed = [job_id for job_id in self.ids if self.claims[job_id]]
        job_id = claimed[-1 - pick % len(claimed)]
        numbers = self.claims[job_id]
        return job_id, numbers[max(len(numbers) - 1 - age, 0)]

    def _move_time(self, duration: timedelta) -> None:
        self.model.move_time(self.model.now + duration)
        self.run(set_time(self.store, self.model.now))

    def _learn_waits(self, ids: Iterable[int]) -> None:
        """Read how long jobs wait after a crash: chance decides, within bounds."""
        for job in self.run(self.store.get_jobs(sorted(ids))):
            if job.state is JobState.SCHEDULED:
                middle = timedelta(seconds=10 * 2 ** (job.crashes - 2))
                assert middle * 0.75 <= job.run_at - self.model.now <= middle * 1.25
                self.model.jobs[job.id].run_at = job.run_at


def _shown(job: JobRow) -> tuple[object, ...]:
    return (
        job.state,
        job.claim,
        job.life,
        job.attempt,
        job.crashes,
        job.cancel_requested_at,
        job.delete_at,
        (job.started_at is not None) if job.state is JobState.RUNNING else None,
        None if job.progress is None else job.progress.percent,
    )
