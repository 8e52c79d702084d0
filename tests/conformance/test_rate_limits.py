"""Rate limits: what is asked for too fast is refused at the enqueue, and not stored."""

from typing import Any

from holdfast.job import JobState
from holdfast.stores.limits import LimitRow
from holdfast.stores.store import Store
from holdfast.stores.values import Inserted, Insertion, Refusal
from tests.support.builders import enqueue, find, insert, new_jobs
from tests.support.clock import Clock

SECOND_US = 1_000_000


async def limit(store: Store, *rows: LimitRow, queues: tuple[str, ...] = ("default",)) -> None:
    """Let these limits hold, looked at in these queues."""
    await store.define_limits(rows, ())
    await store.define_queue_policies({}, queues)


def rate(burst: int = 2, *, name: str = "calls", spacing_us: int = SECOND_US, **changes: Any) -> LimitRow:
    """A limit of so many at once, of which one comes back each second."""
    return LimitRow(**{"name": name, "kinds": ("work",), "rate_us": spacing_us, "rate_burst": burst, **changes})


def tenant(name: str) -> str:
    """The arguments of a job of a tenant."""
    return f'{{"tenant": "{name}"}}'


async def test_more_than_the_rate_are_refused_and_not_stored(store: Store, clock: Clock) -> None:
    await limit(store, rate(2))
    await enqueue(store)
    await enqueue(store)
    (job,) = await new_jobs(store, 1)
    assert await store.insert_jobs([job]) == [Inserted(Insertion.LIMITED, None, Refusal("calls", "", 1_000))]
    assert await find(store, job.id) is None


async def test_what_was_used_comes_back_evenly(store: Store, clock: Clock) -> None:
    await limit(store, rate(2))
    await store.insert_jobs(await new_jobs(store, 2))
    await clock.advance(seconds=0.4)
    assert (await insert(store)).refusal == Refusal("calls", "", 600)
    await clock.advance(seconds=0.6)
    await enqueue(store)
    assert (await insert(store)).outcome is Insertion.LIMITED
    await clock.advance(seconds=60)  # no more than the burst gathers
    await enqueue(store)
    await enqueue(store)
    assert (await insert(store)).outcome is Insertion.LIMITED


async def test_each_key_has_a_rate_of_its_own(store: Store, clock: Clock) -> None:
    await limit(store, rate(1, path=("payload", "tenant")))
    for name in ("a", "b"):
        await enqueue(store, payload=tenant(name))
        assert (await insert(store, payload=tenant(name))).refusal == Refusal("calls", name, 1_000)
    await enqueue(store)  # without the field: a key of its own
    assert (await insert(store, payload='{"tenant": null}')).refusal == Refusal("calls", "", 1_000)


async def test_a_limit_of_a_queue_counts_every_kind_in_it(store: Store, clock: Clock) -> None:
    await limit(store, rate(1, kinds=(), queue="default"))
    await enqueue(store, kind="other", queue="elsewhere")
    await enqueue(store, kind="other")
    assert (await insert(store)).outcome is Insertion.LIMITED


async def test_of_several_callers_each_is_judged_by_itself(store: Store, clock: Clock) -> None:
    await limit(store, rate(2))
    answers = await store.insert_jobs(await new_jobs(store, 3))
    created, limited = Insertion.CREATED, Insertion.LIMITED
    assert [answer.outcome for answer in answers] == [created, created, limited]
    # The third of one call never fits: there is room for two at once.
    assert answers[2].refusal == Refusal("calls", "", None)


async def test_a_whole_call_is_let_in_or_nothing_of_it(store: Store, clock: Clock) -> None:
    await limit(store, rate(3))
    await enqueue(store)
    jobs = await new_jobs(store, 3)
    assert any(answer.refusal for answer in await store.insert_jobs(jobs, whole=True))
    assert await store.get_jobs([job.id for job in jobs]) == []
    fitting = await store.insert_jobs(jobs[:2], whole=True)  # which was not charged for
    assert [answer.outcome for answer in fitting] == [Insertion.CREATED] * 2
    assert (await insert(store)).outcome is Insertion.LIMITED


async def test_all_limits_of_a_job_must_let_it_in_and_none_is_charged_otherwise(store: Store, clock: Clock) -> None:
    await limit(store, rate(1, name="narrow", spacing_us=10 * SECOND_US), rate(3, name="wide"))
    await enqueue(store)
    assert (await insert(store)).refusal == Refusal("narrow", "", 10_000)
    await limit(store, rate(3, name="wide"))
    await enqueue(store)
    await enqueue(store)
    assert (await insert(store)).refusal == Refusal("wide", "", 1_000)


async def test_what_is_sent_again_is_not_charged_twice(store: Store, clock: Clock) -> None:
    await limit(store, rate(2))
    jobs = await new_jobs(store, 2)
    await store.insert_jobs(jobs)
    for whole in (False, True):
        again = await store.insert_jobs(jobs, again=True, whole=whole)
        assert again == [Inserted(Insertion.CREATED, job.id) for job in jobs]
    await clock.advance(seconds=1)
    await enqueue(store)


async def test_a_repeated_key_is_answered_though_the_rate_is_used_up(store: Store, clock: Clock) -> None:
    await limit(store, rate(1))
    first = await enqueue(store, key="k")
    assert await insert(store, key="k") == Inserted(Insertion.EXISTING, first)
    assert (await insert(store, key="other")).outcome is Insertion.LIMITED
    await clock.advance(seconds=1)
    await enqueue(store, key="other")  # the refused call has not taken its key


async def test_a_queue_that_is_not_screened_is_not_looked_at(store: Store, clock: Clock) -> None:
    await limit(store, rate(1), queues=())
    for _ in range(3):
        assert (await insert(store)).outcome is Insertion.CREATED


async def test_refused_jobs_do_not_keep_others_of_their_call_out(store: Store, clock: Clock) -> None:
    await limit(store, rate(1, path=("payload", "tenant")))
    one, two = await new_jobs(store, 2, payload=tenant("a"))
    (other,) = await new_jobs(store, 1, kind="other", unique="u")
    answers = await store.insert_jobs([one, two, other])
    created, limited = Insertion.CREATED, Insertion.LIMITED
    assert [answer.outcome for answer in answers] == [created, limited, created]
    assert {job.id for job in await store.get_jobs([one.id, two.id, other.id])} == {one.id, other.id}
    found = await find(store, other.id)
    assert found is not None
    assert found.state is JobState.QUEUED
