"""One job that the database itself refuses, among many that share its insert: only that one fails."""

import asyncio

import msgspec
import pytest

from holdfast import payload
from holdfast.app import Holdfast
from holdfast.errors import DataRefused
from holdfast.stores.postgres.store import PostgresStore
from holdfast.tasks.call import Call
from tests.faults.store.apps import make_app
from tests.faults.store.stores import AnyStore

pytestmark = pytest.mark.real_time

POISONS = {
    "no object": "[1]",
    "no JSON": '{"n": ',
    "surrogate": '{"n": "\ud800"}',
    "empty": "",
}


async def assert_one_fails(app: Holdfast, calls: list[Call[None]], poisoned: int) -> None:
    answers = await asyncio.gather(*(app.enqueue(call) for call in calls), return_exceptions=True)
    failed = [index for index, answer in enumerate(answers) if isinstance(answer, BaseException)]
    assert failed == [poisoned]
    assert isinstance(answers[poisoned], DataRefused)
    stored = sorted([job.args["n"] async for job in app.jobs.iterate()])
    assert stored == [n for n in range(len(calls)) if n != poisoned]


@pytest.mark.parametrize("poison, poisoned", list(zip(POISONS, [0, 37, 38, 63], strict=True)))
async def test_one_poisonous_job_among_64_fails_alone(closed_store: AnyStore, poison: str, poisoned: int) -> None:
    app, keep = make_app()
    calls = [keep.call(n) for n in range(64)]
    calls[poisoned] = msgspec.structs.replace(calls[poisoned], args_json=POISONS[poison])
    async with app.open_on(closed_store):
        await assert_one_fails(app, calls, poisoned)


async def test_a_nul_that_slips_through_the_client_fails_alone(
    postgres: PostgresStore, dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only PostgreSQL refuses it; the client's own check, which knows better, is switched off."""
    app, keep = make_app()
    monkeypatch.setattr(payload, "check", lambda *_: None)
    calls = [keep.call(n) for n in range(64)]
    calls[5] = keep.call("a\x00b")
    async with app.open_on(PostgresStore(dsn, schema=schema)):
        await assert_one_fails(app, calls, 5)


async def test_a_poisonous_job_spoils_its_own_bulk_alone(closed_store: AnyStore) -> None:
    """`enqueue_many` is one commit: none of its jobs is stored, and all other callers' are."""
    app, keep = make_app()
    calls = [keep.call(n) for n in range(10)]
    bad = [keep.call(100), msgspec.structs.replace(keep.call(101), args_json="[1]"), keep.call(102)]
    async with app.open_on(closed_store):
        answers = await asyncio.gather(
            *(app.enqueue(call) for call in calls), app.enqueue_many(bad), return_exceptions=True
        )
        assert [index for index, answer in enumerate(answers) if isinstance(answer, BaseException)] == [10]
        assert isinstance(answers[10], DataRefused)
        assert sorted([job.args["n"] async for job in app.jobs.iterate()]) == list(range(10))


async def test_many_poisonous_jobs_fail_each_alone(closed_store: AnyStore) -> None:
    app, keep = make_app()
    calls = [keep.call(n) for n in range(64)]
    for n in range(0, 64, 3):
        calls[n] = msgspec.structs.replace(calls[n], args_json="[1]")
    async with app.open_on(closed_store):
        answers = await asyncio.gather(*(app.enqueue(call) for call in calls), return_exceptions=True)
        assert [n for n, answer in enumerate(answers) if isinstance(answer, DataRefused)] == list(range(0, 64, 3))
        stored = sorted([job.args["n"] async for job in app.jobs.iterate()])
    assert stored == [n for n in range(64) if n % 3]
