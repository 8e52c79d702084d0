"""Queues: who paused them and why, and which are known."""

from holdfast.job import JobState
from holdfast.stores.store import Store
from holdfast.stores.values import QueueRow
from holdfast.transitions import completed
from tests.support import raw
from tests.support.builders import claim, enqueue, finished, keeping, read, register, running, settle
from tests.support.clock import Clock

POLICY = keeping(completed_ms=1_000, completed_with_errors_ms=None, failed_ms=3_000, cancelled_ms=4_000)


async def test_an_empty_store_knows_no_queue(store: Store) -> None:
    assert await store.list_queues() == []


async def test_a_pause_says_who_and_why(store: Store, clock: Clock) -> None:
    row = await store.pause_queue("high", actor="alice 'ü'", reason='because "%"\n')
    assert row == QueueRow("high", clock.now, "alice 'ü'", 'because "%"\n')
    assert await store.list_queues() == [row]


async def test_a_second_pause_replaces_the_first(store: Store, clock: Clock) -> None:
    await store.pause_queue("high", actor="alice", reason="why")
    await clock.advance(seconds=1)
    assert await store.pause_queue("high", actor="bob", reason=None) == QueueRow("high", clock.now, "bob", None)


async def test_a_resumed_queue_forgets_who_and_why(store: Store) -> None:
    await store.pause_queue("high", actor="alice", reason="why")
    assert await store.resume_queue("high") == QueueRow("high", None, None, None)
    assert await store.list_queues() == [QueueRow("high", None, None, None)]


async def test_resuming_a_queue_that_was_never_paused_is_harmless(store: Store) -> None:
    assert await store.resume_queue("high") == QueueRow("high", None, None, None)


async def test_queues_of_live_jobs_definitions_and_pauses_are_known_by_name(store: Store) -> None:
    await running(store)
    await finished(store, JobState.CANCELLED, queue="history-only")
    await enqueue(store, queue="ready")
    await enqueue(store, queue="ready", priority=0)
    await enqueue(store, queue="later", delay_ms=60_000)
    held, blocked = await enqueue(store, queue="held"), await enqueue(store, queue="blocked")
    await raw.execute(store, f"UPDATE holdfast.jobs SET state = 'held', position = NULL WHERE id = {held}")
    await raw.execute(store, f"UPDATE holdfast.jobs SET state = 'blocked', position = NULL WHERE id = {blocked}")
    await store.define_queues({"defined": POLICY})
    await store.pause_queue("paused", actor=None, reason=None)
    names = [row.name for row in await store.list_queues()]
    assert names == ["blocked", "default", "defined", "held", "later", "paused", "ready"]


async def test_a_pause_survives_a_definition_and_a_definition_a_pause(store: Store, clock: Clock) -> None:
    await store.define_queues({"default": POLICY})
    await store.pause_queue("default", actor="alice", reason=None)
    await store.define_queues({"default": POLICY, "other": POLICY})
    assert [(row.name, row.paused_by) for row in await store.list_queues()] == [("default", "alice"), ("other", None)]
    await store.resume_queue("default")
    job = await running(store)
    done = await settle(store, completed(job.id, job.claim))
    assert done is not None
    assert done.delete_at is not None
    assert (done.delete_at - clock.now).total_seconds() == 1


async def test_defining_nothing_is_harmless(store: Store) -> None:
    await store.define_queues({})
    assert await store.list_queues() == []


async def test_a_pause_leaves_what_runs_alone(store: Store) -> None:
    job = await running(store)
    await enqueue(store)
    await store.pause_queue("default", actor=None, reason=None)
    assert await read(store, job.id) == job
    done = await settle(store, completed(job.id, job.claim))
    assert done is not None
    assert done.state is JobState.COMPLETED
    assert await claim(store, await register(store)) == []
