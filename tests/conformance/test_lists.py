"""Lists: newest first, filtered, in pages without gap or repeat."""

from datetime import timedelta
from itertools import chain
from typing import Any

from holdfast.job import JobState
from holdfast.stores.store import Store
from holdfast.stores.values import Cursor, JobFilter
from holdfast.transitions import completed
from tests.support.builders import (
    FAILURE,
    cancel,
    claim,
    claim_of,
    enqueue,
    enqueue_many,
    finished,
    register,
    retry,
    running,
    settle,
)
from tests.support.clock import Clock

HOSTILE = [
    "'\";--",
    "%",
    "_",
    "a%b",
    "🎉",
    "\u202eabc\u202c",
    "line\nbreak",
    "\\",
    '"}',
    "{",
    "' OR 1=1 --",
    "[*]",
    "$.a",
]


async def listed(store: Store, **which: Any) -> list[int]:
    page = await store.list_jobs(JobFilter(**which), limit=100)
    assert page.next is None
    return [job.id for job in page.jobs]


async def test_an_empty_store_lists_nothing(store: Store) -> None:
    page = await store.list_jobs(JobFilter(), limit=10)
    assert (page.jobs, page.next) == ([], None)


async def test_live_and_finished_jobs_are_listed_together_newest_first(store: Store, clock: Clock) -> None:
    oldest = await finished(store, JobState.FAILED)
    await clock.advance(seconds=1)
    held = await running(store)
    await clock.advance(seconds=1)
    newest = await finished(store, JobState.CANCELLED)
    page = await store.list_jobs(JobFilter(), limit=10)
    assert [job.id for job in page.jobs] == [newest.id, held.id, oldest.id]
    assert page.jobs == [newest, held, oldest]


async def test_jobs_of_one_instant_go_by_id(store: Store, clock: Clock) -> None:
    ids = await enqueue_many(store, 5)
    assert await listed(store) == sorted(ids, reverse=True)


async def test_every_condition_given_must_hold(store: Store, clock: Clock) -> None:
    options: dict[str, Any] = {
        "kind": "mail",
        "queue": "high",
        "actor": "alice",
        "unique": "u",
        "tags": {"a": "1", "b": "2"},
    }
    wanted = await enqueue(store, **options)
    await enqueue(store, **(options | {"kind": "other"}))
    changes: list[dict[str, Any]] = [{"queue": "low"}, {"actor": "bob"}, {"tags": {"a": "1"}}, {}]
    for number, change in enumerate(changes):
        await enqueue(store, **(options | change | {"unique": f"u{number}"}))
    assert await listed(
        store,
        kinds=("mail",),
        queues=("high",),
        actor="alice",
        unique="u",
        tags=(("a", "1"), ("b", "2")),
        states=(JobState.QUEUED,),
    ) == [wanted]


async def test_the_values_of_one_condition_are_alternatives(store: Store) -> None:
    ids = [await enqueue(store, kind=kind, queue=kind) for kind in ("a", "b", "c")]
    assert sorted(await listed(store, kinds=("a", "c", "none"))) == sorted([ids[0], ids[2]])
    assert sorted(await listed(store, queues=("b", "c"))) == sorted(ids[1:])
    assert sorted(await listed(store, ids=(ids[0], ids[1]))) == sorted(ids[:2])


async def test_by_state(store: Store) -> None:
    queued_first = await finished(store, JobState.COMPLETED)
    dead = await finished(store, JobState.FAILED)
    held = await running(store)
    later = await enqueue(store, delay_ms=60_000)
    assert await listed(store, states=(JobState.COMPLETED,)) == [queued_first.id]
    assert sorted(await listed(store, states=(JobState.FAILED, JobState.RUNNING))) == sorted([dead.id, held.id])
    assert await listed(store, states=(JobState.SCHEDULED,)) == [later]
    assert await listed(store, states=(JobState.QUEUED,)) == []


async def test_by_fingerprint(store: Store) -> None:
    dead = await finished(store, JobState.FAILED)
    await finished(store, JobState.COMPLETED)
    assert await listed(store, fingerprint=FAILURE.fingerprint) == [dead.id]
    assert await listed(store, fingerprint="other") == []


async def test_by_the_time_of_the_enqueue(store: Store, clock: Clock) -> None:
    times, ids = [], []
    for _ in range(3):
        times.append(clock.now)
        ids.append(await enqueue(store))
        await clock.advance(seconds=1)
    assert await listed(store, enqueued_from=times[1]) == [ids[2], ids[1]]
    assert await listed(store, enqueued_before=times[1]) == [ids[0]]
    assert await listed(store, enqueued_from=times[1], enqueued_before=times[2]) == [ids[1]]


async def test_a_tag_is_found_on_live_and_finished_jobs_and_after_a_retry(store: Store) -> None:
    dead = await finished(store, JobState.FAILED, tags={"customer": "42", "env": "prod"})
    live = await enqueue(store, tags={"customer": "42"})
    await enqueue(store, tags={"customer": "43"})
    await enqueue(store)
    assert sorted(await listed(store, tags=(("customer", "42"),))) == sorted([dead.id, live])
    await cancel(store, live)
    await retry(store, dead.id)
    assert sorted(await listed(store, tags=(("customer", "42"),))) == sorted([dead.id, live])
    assert await listed(store, tags=(("customer", "42"), ("env", "prod"))) == [dead.id]
    assert await listed(store, tags=(("env", "customer"),)) == []
    await store.delete_jobs([live])
    assert await listed(store, tags=(("customer", "42"),)) == [dead.id]


async def test_hostile_text_is_found_as_itself_and_nothing_else(store: Store) -> None:
    wanted = {text: await enqueue(store, tags={"t": text}, actor=text, unique=text) for text in HOSTILE}
    for text, job_id in wanted.items():
        assert await listed(store, tags=(("t", text),)) == [job_id]
        assert await listed(store, actor=text) == [job_id]
        assert await listed(store, unique=text) == [job_id]
        assert await listed(store, kinds=(text,)) == []
        assert await listed(store, queues=(text,)) == []
        assert await listed(store, fingerprint=text) == []


async def test_the_name_of_a_tag_may_look_like_a_path(store: Store) -> None:
    dotted = await enqueue(store, tags={"a.b": "1"})
    await enqueue(store, tags={"a": "1"})
    numbered = await enqueue(store, tags={"0": "1", "a-b": "x", "$": "y"})
    assert await listed(store, tags=(("a.b", "1"),)) == [dotted]
    assert await listed(store, tags=(("0", "1"), ("a-b", "x"), ("$", "y"))) == [numbered]


# ---- pages ---------------------------------------------------------------------------------------------------------


async def pages(store: Store, limit: int, **which: Any) -> list[list[int]]:
    found, after = [], None
    while True:
        page = await store.list_jobs(JobFilter(**which), limit=limit, after=after)
        found.append([job.id for job in page.jobs])
        if page.next is None:
            return found
        after = page.next


async def test_pages_follow_each_other_without_gap_or_repeat(store: Store, clock: Clock) -> None:
    ids = []
    for _ in range(3):
        ids += await enqueue_many(store, 3)  # several of one instant, so that the id decides
        await clock.advance(seconds=1)
    found = await pages(store, 4)
    assert [len(page) for page in found] == [4, 4, 1]
    assert [*chain(*found)] == ids[6:][::-1] + ids[3:6][::-1] + ids[:3][::-1]


async def test_a_last_page_that_is_full_has_no_next(store: Store) -> None:
    await enqueue_many(store, 4)
    assert [len(page) for page in await pages(store, 2)] == [2, 2]


async def test_the_next_page_begins_after_the_last_job_shown(store: Store, clock: Clock) -> None:
    ids = await enqueue_many(store, 3)
    page = await store.list_jobs(JobFilter(), limit=2)
    assert page.next == Cursor(clock.now, ids[1])


async def test_jobs_that_move_between_two_pages_are_neither_missed_nor_repeated(store: Store, clock: Clock) -> None:
    dead = await finished(store, JobState.FAILED)
    ids = [dead.id, *await enqueue_many(store, 6)]
    worker = await register(store)
    seen: list[int] = []
    after = None
    while True:
        page = await store.list_jobs(JobFilter(), limit=2, after=after)
        seen += [job.id for job in page.jobs]
        if (after := page.next) is None:
            break
        await retry(store, dead.id)  # from history to live
        # From live to history, on either side of the cursor; and something newer, which this list began before.
        for job in [*await claim(store, worker, limit=1), *await store.claim_jobs_by_id(claim_of(worker), seen[:1])]:
            await settle(store, completed(job.id, job.claim))
        await clock.advance(seconds=1)
        await enqueue(store)
    assert seen == sorted(ids, reverse=True)


async def test_filtered_pages_follow_each_other_too(store: Store, clock: Clock) -> None:
    wanted = []
    for number in range(9):
        tags = {"n": str(number % 3)}
        wanted.append(await enqueue(store, kind=f"k{number % 2}", tags=tags))
        await clock.advance(timedelta(seconds=1))
    assert [*chain(*await pages(store, 2, kinds=("k0",)))] == wanted[::2][::-1]
    assert [*chain(*await pages(store, 1, tags=(("n", "1"),)))] == wanted[1::3][::-1]
    assert [*chain(*await pages(store, 1, kinds=("k1",), tags=(("n", "1"),)))] == [wanted[7], wanted[1]]
