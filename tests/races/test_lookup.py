"""A job that moves between live and finished is never "not found"."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import pytest

from holdfast.job import Answer, JobRow
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.values import Answered
from holdfast.transitions import failed
from tests.races.rivals import Rivals
from tests.support.connections import FAILURE, insert, register, replace_function, request, running, show, until_held_up
from tests.support.sizes import size
from tests.support.wait import until

JOBS = 10
GATES = 100
Look = Callable[[PostgresStore, Sequence[int]], Awaitable[int]]


async def by_get_jobs(store: PostgresStore, ids: Sequence[int]) -> int:
    return len(await store.get_jobs(ids))


async def by_two_statements(store: PostgresStore, ids: Sequence[int]) -> int:
    """What the rule forbids: the second statement sees a later world than the first."""
    live = await store.fetch_sql("SELECT id FROM holdfast.jobs WHERE id = ANY ($1::bigint[])", ids)
    ended = await store.fetch_sql("SELECT id FROM holdfast.history WHERE id = ANY ($1::bigint[])", ids)
    return len({row[0] for row in (*live, *ended)})


async def move_to_and_fro(store: PostgresStore, ids: Sequence[int], rounds: int) -> None:
    """Let jobs run, fail and be retried by hand."""
    worker = await register(store)
    for _ in range(rounds):
        claimed = await store.claim_jobs_by_id(request(worker, len(ids)), ids)
        await store.finish_jobs([failed(job.id, job.claim, FAILURE) for job in claimed])
        answers = await store.retry_jobs(ids)
        assert {answer.answer for answer in answers} == {Answer.DONE}


async def watch_the_move(rivals: Rivals, rounds: int, look: Look) -> tuple[int, int]:
    """Look all the time while jobs move; return how often somebody looked, and how often one was missing."""
    ids = await insert(rivals.one, JOBS)
    moving = asyncio.create_task(move_to_and_fro(rivals.one, ids, rounds))
    looks = missing = 0
    while not moving.done():
        found = await look(rivals.two, ids)
        looks += 1
        missing += found < JOBS
    await moving
    return looks, missing


async def test_a_job_is_found_while_it_moves(rivals: Rivals) -> None:
    looks, missing = await watch_the_move(rivals, size(100, 1_000), by_get_jobs)
    assert missing == 0
    assert looks > size(50, 500)


async def test_two_statements_would_miss_it(rivals: Rivals) -> None:
    _, missing = await watch_the_move(rivals, size(100, 1_000), by_two_statements)
    assert missing > 0


async def test_no_verb_calls_a_moving_job_not_found(rivals: Rivals) -> None:
    """Every operator's verb, while the job it names runs, fails and is retried (or withdrawn) by others."""
    ids = await insert(rivals.one, JOBS)
    worker = await register(rivals.one)
    stop = asyncio.Event()

    async def move() -> None:
        while not stop.is_set():
            claimed = await rivals.one.claim_jobs_by_id(request(worker, JOBS), ids)
            await rivals.one.finish_jobs([failed(job.id, job.claim, FAILURE) for job in claimed])
            await rivals.one.retry_jobs(ids)

    moving = [asyncio.create_task(move()) for _ in range(2)]
    seen: set[tuple[str, str]] = set()
    for _ in range(size(100, 1_000)):
        for name, answers in {
            "cancel": await rivals.two.cancel_jobs(ids, actor=None, reason=None),
            "retry": await rivals.two.retry_jobs(ids),
            "reschedule": await rivals.two.reschedule_jobs(ids, run_at=None, delay_ms=0),
            "reprioritise": await rivals.two.reprioritise_jobs(ids, 5),
        }.items():
            seen |= {(name, answer.answer) for answer in answers}
    stop.set()
    await asyncio.gather(*moving)
    show(f"answers seen: {sorted(f'{name} {answer}' for name, answer in seen)}")
    assert not {(name, answer) for name, answer in seen if answer == Answer.NOT_FOUND}


async def test_a_delete_looks_again_at_a_job_that_ended_meanwhile(
    rivals: Rivals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job ends between the delete and the look at what was not deleted."""
    (job,) = await running(rivals.one, 1)
    original = rivals.two.fetch

    async def end_first(query: str, *args: object) -> object:
        if query == "job_states":
            await rivals.one.finish_jobs([failed(job.id, job.claim, FAILURE)])
        return await original(query, *args)

    monkeypatch.setattr(rivals.two, "fetch", end_first)
    (answered,) = await rivals.two.delete_jobs([job.id])
    assert (answered.answer, await rivals.now(job.id)) == (Answer.DONE, None)


# The session's n-th pass waits for the n-th lock, which somebody else holds.
_GATES = """
CREATE FUNCTION holdfast.test_gate() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('holdfast_test.gates', true) <> '' THEN
        PERFORM set_config('holdfast_test.passed', (current_setting('holdfast_test.passed')::int + 1)::text, false);
        PERFORM pg_advisory_lock_shared(
            current_setting('holdfast_test.gates')::int, current_setting('holdfast_test.passed')::int
        );
    END IF;
END
$$;
CREATE OR REPLACE FUNCTION holdfast.clock() RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM holdfast.test_gate();
    RETURN statement_timestamp();
END
$$;
"""


class Stepper:
    """Lets one session stop wherever it reads the clock or looks for an earlier send, until it is told to go on."""

    def __init__(self, rivals: Rivals, stepped: Connection) -> None:
        self._rivals = rivals
        self._stepped = stepped
        self._gates = int(rivals.schema[-7:], 16)
        self._passed = 0

    async def prepare(self) -> None:
        await self._rivals.watcher.execute(self._rivals.sql(_GATES))
        await replace_function(
            self._rivals.watcher,
            self._rivals.schema,
            "accepted_before",
            ("BEGIN\n", "BEGIN\n    PERFORM holdfast.test_gate();\n"),
        )
        await self._stepped.execute(f"SET holdfast_test.gates = '{self._gates}'")

    async def close(self) -> None:
        """Close all gates before a statement begins."""
        self._passed = 0
        await self._stepped.execute("SELECT pg_advisory_unlock_all(); SET holdfast_test.passed = '0'")
        await self._rivals.blocker.fetch(
            "SELECT pg_advisory_lock($1::int, gate) FROM generate_series(1, $2::int) AS gate", self._gates, GATES
        )

    async def stands(self, task: "asyncio.Task[Any]") -> bool:
        """Wait until the session stands at its next gate (True) or its statement has ended (False)."""
        sql = (
            "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted "
            "AND pid = $1 AND objid::bigint = $2)"
        )

        async def at_the_gate_or_done() -> bool:
            pid = self._stepped.get_server_pid()
            return task.done() or bool(await self._rivals.watcher.fetchval(sql, pid, self._passed + 1))

        await until(at_the_gate_or_done, "the statement stands at the gate")
        return not task.done()

    async def step(self) -> None:
        """Open the next gate."""
        self._passed += 1
        await self._rivals.blocker.fetch("SELECT pg_advisory_unlock($1::int, $2::int)", self._gates, self._passed)

    async def open(self) -> None:
        await self._rivals.blocker.fetch("SELECT pg_advisory_unlock_all()")


async def cancel_with_moves_at(
    rivals: Rivals, stepper: Stepper, caller: Connection, first: int, second: int
) -> tuple[bool, bool]:
    """Cancel a job that is given back at one stop and withdrawn at another: was it found, and are there such stops?"""
    (job,) = await running(rivals.one, 1)
    await stepper.close()
    moves: dict[int, Callable[[], Awaitable[object]]] = {
        first: partial(rivals.two.give_back_batch, job.worker or 0, job.claim_batch or 0),
        second: partial(rivals.two.cancel_jobs, [job.id], actor=None, reason=None),
    }
    moving: list[asyncio.Task[Any]] = []
    cancel = rivals.sql("SELECT id FROM holdfast.cancel_jobs($1, NULL)")
    cancelling: asyncio.Task[list[Any]] = asyncio.create_task(caller.fetch(cancel, [job.id]))
    for stop in range(1, second + 1):
        if not await stepper.stands(cancelling):
            break
        if stop in moves:
            # A cancel that has locked its jobs holds the move up, which is as good.
            moving.append(asyncio.ensure_future(moves[stop]()))
            await until_held_up(rivals.watcher, rivals.schema, cancelling, *moving)
        await stepper.step()
    await stepper.open()
    found = await cancelling
    await asyncio.gather(*moving)
    return [row["id"] for row in found] == [job.id], len(moving) == len(moves)


async def test_a_cancel_finds_a_job_that_moves_under_all_its_looks(rivals: Rivals, caller: Connection) -> None:
    """The job is running, then given back, then cancelled by somebody else; it exists all the time."""
    stepper = Stepper(rivals, caller)
    await stepper.prepare()
    missed, reached_any = [], False
    for first in (1, 2, 3):
        second, reached = first, True
        while reached:
            second += 1
            found, reached = await cancel_with_moves_at(rivals, stepper, caller, first, second)
            reached_any |= reached
            if not found:
                missed.append((first, second))
    assert reached_any, "the cancel stood at no two gates"
    assert missed == [], "not found when it moved at these stops"


async def test_a_manual_retry_finds_a_job_that_ends_between_its_looks(rivals: Rivals) -> None:
    """The job is live when history is read, and in history when the live jobs are."""
    (job,) = await running(rivals.one, 1)
    async with rivals.blocker.transaction():
        await rivals.blocker.execute(rivals.sql("LOCK TABLE holdfast.jobs IN ACCESS EXCLUSIVE MODE"))
        retrying = asyncio.create_task(rivals.two.retry_jobs([job.id]))
        await until_held_up(rivals.watcher, rivals.schema, retrying)
        await rivals.blocker.fetch(
            rivals.sql("SELECT * FROM holdfast.end_claims($1, $2, 'fail', 'failed', 'E', 'no', NULL)"),
            [job.id],
            [job.claim],
        )
    (answered,) = await retrying
    assert answered.answer in {Answer.DONE, Answer.WRONG_STATE}


def not_found(answers: Sequence[Answered]) -> list[int]:
    return [answer.id for answer in answers if answer.answer is Answer.NOT_FOUND]


async def test_jobs_that_never_were_are_not_found(postgres: PostgresStore) -> None:
    (job_id,) = await postgres.take_ids(1)
    assert not_found(await postgres.cancel_jobs([job_id], actor=None, reason=None)) == [job_id]
    assert not_found(await postgres.retry_jobs([job_id])) == [job_id]
    assert not_found(await postgres.delete_jobs([job_id])) == [job_id]
    assert not_found(await postgres.reschedule_jobs([job_id], run_at=None, delay_ms=0)) == [job_id]
    assert not_found(await postgres.reprioritise_jobs([job_id], 1)) == [job_id]
    jobs: list[JobRow] = await postgres.get_jobs([job_id])
    assert jobs == []
