"""Random use of every verb, compared with a model after each step; and proof that the comparison finds a hole."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from msgspec.structs import replace

from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.store import Store
from holdfast.stores.values import Worked
from holdfast.transitions import Transition
from tests.conformance.machine import StoreMachine
from tests.support.clock import set_time
from tests.support.sizes import CHAOS, size
from tests.support.variants import STORES

BUDGET = settings(
    max_examples=size(20, 600),
    stateful_step_count=30,
    deadline=None,
    derandomize=not CHAOS,
    database=None,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def without_fence(store: Store) -> Callable[[Sequence[Transition]], Awaitable[Worked]]:
    """Make a verb that forgets the fence: whoever ends a claim ends the one that the job has now."""
    finish = store.finish_jobs

    async def finish_jobs(transitions: Sequence[Transition]) -> Worked:
        claims = {job.id: job.claim for job in await store.get_jobs([end.id for end in transitions])}
        return await finish([replace(end, claim=claims.get(end.id, end.claim)) for end in transitions])

    return finish_jobs


@pytest.fixture(params=STORES)
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[type[StoreMachine]]:
    """Give a machine on each store in turn, with an event loop of its own."""
    store: PostgresStore | SqliteStore
    if request.param == "postgres":
        dsn, schema = request.getfixturevalue("dsn"), request.getfixturevalue("shared_schema")
        store = PostgresStore(dsn, schema=schema)
    else:
        store = SqliteStore(":memory:" if request.param == "sqlite-memory" else str(tmp_path / "jobs.db"))
    with asyncio.Runner() as runner:
        runner.run(store.open())
        yield type("Machine", (StoreMachine,), {"store": store, "runner": runner})
        runner.run(set_time(store, None))
        runner.run(store.close())


@pytest.mark.timeout(900)  # a failure is shrunk before it is shown
def test_every_store_does_what_the_model_does(machine: type[StoreMachine]) -> None:
    run_state_machine_as_test(machine, settings=BUDGET)


@pytest.mark.chaos  # the guard finish-fence is removed by `make guards` as well
def test_a_missing_fence_is_found_within_the_same_budget(
    machine: type[StoreMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine.store, "finish_jobs", without_fence(machine.store))
    # Seen in the store's rows, or already in the verdict that a stale write was given: which comes first is chance.
    with pytest.raises(AssertionError, match=r"a stale write was accepted|assert \(Finish\(verdict="):
        run_state_machine_as_test(machine, settings=settings(BUDGET, phases=[Phase.generate]))
