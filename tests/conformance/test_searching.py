"""Searches: the same answers as lists, on both stores, by whatever way; and an end when the time is over."""

from itertools import chain
from typing import Any

import msgspec

from holdfast import public_id
from holdfast.failure import Failure
from holdfast.job import JobState
from holdfast.stores.store import Store
from holdfast.stores.values import Counted, Cursor, Found, JobFilter
from holdfast.transitions import failed, retried
from tests.conformance.test_lists import HOSTILE
from tests.support.builders import FAILURE, cancel, enqueue, enqueue_many, finished, retry, running, settle
from tests.support.clock import Clock

AGES_MS = 60_000


async def found(store: Store, **which: Any) -> list[int]:
    """Search, and check that a list finds the same, and counting as many."""
    wanted = JobFilter(**which)
    answer = await store.search_jobs(wanted, limit=100, budget_ms=AGES_MS)
    assert (answer.next, answer.searched_to, answer.is_whole) == (None, None, True)
    assert answer.jobs == (await store.list_jobs(wanted, limit=100)).jobs
    assert await store.count_found(wanted, budget_ms=AGES_MS) == Counted(len(answer.jobs), capped=False)
    return [job.id for job in answer.jobs]


async def test_an_empty_store_has_nothing(store: Store) -> None:
    assert await found(store) == []
    assert await found(store, kinds=("a",), words=("b",), tags=(("c", "d"),)) == []


async def test_every_way_finds_live_and_finished_jobs(store: Store, clock: Clock) -> None:
    options: dict[str, Any] = {"kind": "mail", "actor": "alice", "tags": {"a": "1"}}
    dead = await finished(store, JobState.FAILED, payload='{"to": "rome"}', **options)
    await clock.advance(seconds=1)
    done = await finished(store, JobState.COMPLETED, **options)
    await clock.advance(seconds=1)
    live = await enqueue(store, unique="u", payload='{"to": "rome"}', **options)
    gone = await enqueue(store, unique="v", **options)
    await cancel(store, gone)
    await enqueue(store, kind="other", queue="low", priority=7, tags={"a": "2"}, actor="bob")
    every = [gone, live, done.id, dead.id]
    ways: list[dict[str, Any]] = [
        {"kinds": ("mail",)},
        {"kinds": ("mail", "none")},
        {"queues": ("default",)},
        {"actor": "alice"},
        {"tags": (("a", "1"),)},
        {"priorities": (4, 5)},
        {"kinds": (*(f"k{number}" for number in range(20)), "mail")},
        {"words": ("mail",)},
        {"ids": tuple(every)},
    ]
    for which in ways:
        assert await found(store, **which) == every, which
    assert await found(store, unique="v") == [gone]
    assert await found(store, unique="u") == [live]
    assert await found(store, fingerprint=FAILURE.fingerprint) == [dead.id]
    assert await found(store, error_class=FAILURE.error_class) == [dead.id]
    assert await found(store, error_name=FAILURE.error_class) == [dead.id]
    assert await found(store, has_error=True) == [dead.id]
    assert await found(store, has_error=True, states=(JobState.QUEUED, JobState.SCHEDULED)) == []
    assert await found(store, args=((("to",), "rome"),)) == [live, dead.id]
    trouble = (JobState.FAILED, JobState.CANCELLED)
    assert await found(store, states=trouble) == [gone, dead.id]
    assert await found(store, states=trouble, kinds=("mail", "x")) == [gone, dead.id]
    assert await found(store, states=trouble, queues=("default", "x")) == [gone, dead.id]
    assert await found(store, states=(*trouble, JobState.QUEUED), kinds=("mail",)) == [gone, live, dead.id]
    assert await found(store, states=(JobState.COMPLETED,), queues=("default",), kinds=("mail",)) == [done.id]
    assert await found(store, finished_until=dead.finished_at) == [dead.id]
    assert await found(store, enqueued_from=done.enqueued_at, kinds=("mail",)) == [gone, live, done.id]
    assert await found(store, enqueued_before=done.enqueued_at, tags=(("a", "1"),)) == [dead.id]
    assert await found(store, schedule="nightly") == []


async def test_by_parts_of_an_id(store: Store) -> None:
    ids = await enqueue_many(store, 5)
    shown = public_id.encode(ids[2])
    assert await found(store, id_ending=public_id.ends(shown[5:])) == [ids[2]]
    assert await found(store, id_ending=public_id.ends(shown[10:])) == [ids[2]]
    assert await found(store, id_range=(ids[1], ids[3])) == ids[3:0:-1]
    assert await found(store, id_range=public_id.begins(shown[:2])) == ids[::-1]


async def test_the_name_of_an_error_is_found_in_any_module_and_is_no_pattern(store: Store) -> None:
    job = await running(store)
    await settle(store, failed(job.id, job.claim, Failure("app.mail.Boom", "m", None, "f")))
    for name in ("Boom", "mail.Boom", "app.mail.Boom"):
        assert await found(store, error_name=name) == [job.id]
    for name in ("oom", "app", "%", "app_mail.Boom", "Boom."):
        assert await found(store, error_name=name) == []


async def test_arguments_are_compared_as_people_write_them(store: Store) -> None:
    payload = (
        '{"n": 5, "text": "5", "half": 1.5, "yes": true, "no": false, "nothing": null, "word": "true",'
        ' "inner": {"a.b": "x"}, "list": ["first", {"deep": 2}, ""], "keys": {"0": "zero"}}'
    )
    job = await enqueue(store, payload=payload)
    await enqueue(store)
    fitting = (
        (("n",), "5"),
        (("n",), "5.0"),
        (("text",), "5"),
        (("half",), "1.5"),
        (("half",), "1.50"),
        (("yes",), "true"),
        (("no",), "false"),
        (("nothing",), "null"),
        (("word",), "true"),
        (("inner", "a.b"), "x"),
        (("list", "0"), "first"),
        (("list", "1", "deep"), "2"),
        (("list", "2"), ""),
        (("keys", "0"), "zero"),
    )
    for argument in fitting:
        assert await found(store, args=(argument,)) == [job], argument
    others = (
        (("n",), "05"),
        (("n",), "50"),
        (("yes",), "1"),
        (("missing",), "null"),
        (("inner",), "x"),
        (("inner", "a"), "x"),
        (("text", "0"), "5"),
    )
    for argument in others:
        assert await found(store, args=(argument,)) == [], argument
    assert await found(store, args=fitting[:3]) == [job]
    assert await found(store, args=(fitting[0], others[0])) == []


async def test_words_are_found_in_kind_error_and_arguments_without_case(store: Store) -> None:
    dead = await finished(store, JobState.FAILED, kind="encode")
    mail = await enqueue(store, kind="send_mail", payload='{"to": "Anna Süd \\"x\\"", "n": 12345}')
    message = FAILURE.message
    assert await found(store, words=("ENCODE",)) == [dead.id]
    assert await found(store, words=(message,)) == [dead.id]
    assert await found(store, words=("anna",)) == [mail]
    assert await found(store, words=("Süd",)) == [mail]
    assert await found(store, words=('"x"',)) == [mail]
    assert await found(store, words=("2345", "send_m")) == [mail]
    assert await found(store, words=("2345", "encode")) == []


async def test_hostile_words_mean_themselves(store: Store) -> None:
    for text in HOSTILE:
        assert await found(store, words=(text,)) == []
    wanted = {}
    for text in HOSTILE:
        payload = msgspec.json.encode({"t": f"<{text}>"}).decode()
        wanted[text] = await enqueue(store, payload=payload)
    for text, job in wanted.items():
        assert await found(store, words=(f"<{text}>",)) == [job]
        assert await found(store, args=((("t",), f"<{text}>"),)) == [job]
        assert await found(store, args=(((text,), "x"),)) == []


async def test_a_payload_with_a_secret_is_not_searched(store: Store) -> None:
    job = await enqueue(store, kind="login", payload='{"password": {"$secret": "hunter2"}, "who": "anna"}')
    assert await found(store, words=("hunter",)) == []
    assert await found(store, words=("anna",)) == []
    assert await found(store, words=("login",)) == [job]
    assert await found(store, args=((("who",), "anna"),)) == [job]
    assert await found(store, args=((("password",), "hunter2"),)) == []


# ---- pages ---------------------------------------------------------------------------------------------------------


async def pages(store: Store, limit: int, budget_ms: int = AGES_MS, **which: Any) -> list[Found]:
    answers: list[Found] = []
    after: Cursor | None = None
    while True:
        answers.append(await store.search_jobs(JobFilter(**which), limit=limit, after=after, budget_ms=budget_ms))
        if answers[-1].next is None:
            return answers
        assert after is None or (answers[-1].next.enqueued_at, answers[-1].next.id) < (after.enqueued_at, after.id)
        after = answers[-1].next


def ids_of(answers: list[Found]) -> list[int]:
    return [*chain.from_iterable([job.id for job in answer.jobs] for answer in answers)]


async def test_pages_follow_each_other_without_gap_or_repeat(store: Store, clock: Clock) -> None:
    ids: list[int] = []
    for number in range(4):
        ids += await enqueue_many(store, 4, queue="bulk")  # of one instant
        ids.append((await finished(store, JobState.FAILED, tags={"n": str(number % 2)})).id)
        await clock.advance(seconds=1)
    await retry(store, ids[4])
    newest_first = [
        job.id for job in sorted(await store.get_jobs(ids), key=lambda job: (job.enqueued_at, job.id), reverse=True)
    ]
    for limit in (1, 3, 7, 20, 100):
        assert ids_of(await pages(store, limit)) == newest_first
        assert ids_of(await pages(store, limit, words=("w",))) == newest_first
        assert ids_of(await pages(store, limit, budget_ms=0, words=("w",))) == newest_first
    assert ids_of(await pages(store, 1, tags=(("n", "1"),))) == [ids[19], ids[9]]


async def test_a_full_page_is_whole_and_the_last_one_has_no_next(store: Store) -> None:
    await enqueue_many(store, 4)
    first, second = await pages(store, 2)
    assert (first.is_whole, first.searched_to, second.is_whole, second.next) == (True, None, True, None)


async def test_when_the_time_is_over_the_answer_says_how_far_it_came(store: Store, clock: Clock) -> None:
    wanted = await enqueue(store, payload='{"n": 1}')
    await clock.advance(seconds=1)
    await enqueue_many(store, 300)  # more than the first window
    which = JobFilter(args=((("n",), "1"),))
    answer = await store.search_jobs(which, limit=10, budget_ms=0)
    assert (answer.jobs, answer.is_whole) == ([], False)
    assert answer.next is not None
    assert answer.searched_to == answer.next.enqueued_at
    assert ids_of(await pages(store, 10, budget_ms=0, args=((("n",), "1"),))) == [wanted]
    assert await store.count_found(JobFilter(args=((("n",), "1"),)), budget_ms=AGES_MS) == Counted(1, capped=False)


async def test_a_running_job_is_found_while_it_moves(store: Store) -> None:
    held = await running(store)
    assert await found(store, states=(JobState.RUNNING,)) == [held.id]


async def test_a_job_that_is_tried_again_is_found_by_its_error(store: Store) -> None:
    job = await running(store)
    await settle(store, retried(job.id, job.claim, FAILURE, delay_ms=60_000))
    assert await found(store, fingerprint=FAILURE.fingerprint) == [job.id]
    assert await found(store, error_class=FAILURE.error_class) == [job.id]
    assert await found(store, error_name=FAILURE.error_class) == [job.id]
    assert await found(store, error_name="Other") == []


async def test_what_has_expired_is_not_found(store: Store, clock: Clock) -> None:
    dead = await finished(store, JobState.FAILED, tags={"a": "1"})
    assert dead.delete_at is not None
    await clock.advance(dead.delete_at - clock.now)
    for which in (
        {},
        {"kinds": (dead.kind,)},
        {"states": (JobState.FAILED,)},
        {"tags": (("a", "1"),)},
        {"words": ("w",)},
    ):
        assert await found(store, **which) == []


async def test_counts_end_at_the_cap(store: Store) -> None:
    await finished(store, JobState.FAILED)
    await enqueue_many(store, 30)
    assert await store.count_found(JobFilter(), most=20) == Counted(20, capped=True)
    assert await store.count_found(JobFilter(), most=31) == Counted(31, capped=True)
    assert await store.count_found(JobFilter(), most=32) == Counted(31, capped=False)
    assert await store.count_found(JobFilter(words=("w",)), most=5) == Counted(5, capped=True)


async def test_a_budget_is_kept(store: Store) -> None:
    await enqueue_many(store, 1_000)
    which = JobFilter(words=("nothing like it",))
    assert not (await store.search_jobs(which, limit=10, budget_ms=0)).is_whole
    assert (await store.search_jobs(which, limit=10, budget_ms=60_000)).is_whole
