"""One call of every verb of a store, to be made over a link that breaks."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.store import (
    DeliveryStore,
    EventStore,
    JobStore,
    LeaseStore,
    QueueStore,
    RetentionStore,
    UpkeepStore,
    WakeStore,
    WorkStore,
)
from holdfast.stores.values import JobFilter, Message, ProgressReport, RetentionDue, Started, WorkerInfo
from holdfast.transitions import completed
from tests.conformance.builders import keeping
from tests.races.making import new_job, request

Call = Callable[[PostgresStore], Awaitable[Any]]
ROLES: tuple[Any, ...] = (
    JobStore,
    WorkStore,
    UpkeepStore,
    LeaseStore,
    QueueStore,
    EventStore,
    DeliveryStore,
    RetentionStore,
    WakeStore,
)
MESSAGE = Message(
    id=1,
    job_id=1,
    life=1,
    event="job:completed",
    url="https://example.org/",
    at=datetime.now(UTC),
    task="work",
    queue="q",
    status="completed",
    attempt=1,
    tags=None,
    error_class=None,
    error=None,
    result=None,
    result_omitted=False,
    tries=1,
)
DUE = RetentionDue(job_id=1, life=1, what="stale", tries=1)

VERBS: dict[str, Call] = {
    "take_ids": lambda store: store.take_ids(3),
    "insert_jobs": lambda store: store.insert_jobs([new_job(1)], again=True),
    "get_jobs": lambda store: store.get_jobs([1]),
    "finished_jobs": lambda store: store.finished_jobs([1]),
    "list_jobs": lambda store: store.list_jobs(JobFilter(), limit=10),
    "count_jobs": lambda store: store.count_jobs(),
    "cancel_jobs": lambda store: store.cancel_jobs([1], actor=None, reason=None),
    "retry_jobs": lambda store: store.retry_jobs([1]),
    "delete_jobs": lambda store: store.delete_jobs([1]),
    "reschedule_jobs": lambda store: store.reschedule_jobs([1], run_at=None, delay_ms=1),
    "reprioritise_jobs": lambda store: store.reprioritise_jobs([1], 3),
    "claim_jobs": lambda store: store.claim_jobs(request(1)),
    "claim_jobs_by_id": lambda store: store.claim_jobs_by_id(request(1), [1]),
    "give_back_batch": lambda store: store.give_back_batch(1, 1),
    "start_jobs": lambda store: store.start_jobs([Started(1, 1, 0)]),
    "finish_jobs": lambda store: store.finish_jobs([completed(1, 1)]),
    "save_progress": lambda store: store.save_progress([ProgressReport(1, 1, 50.0)]),
    "promote_jobs": lambda store: store.promote_jobs(10),
    "rescue_jobs": lambda store: store.rescue_jobs(10),
    "force_cancels": lambda store: store.force_cancels(0, 10),
    "keep_history": lambda store: store.keep_history(10),
    "measure_tables": lambda store: store.measure_tables(),
    "diagnose": lambda store: store.diagnose(),
    "prune_keys": lambda store: store.prune_keys(10),
    "read_rollups": lambda store: store.read_rollups(datetime.now(UTC)),
    "register_worker": lambda store: store.register_worker(WorkerInfo("test", "localhost", 1), 60_000),
    "renew_workers": lambda store: store.renew_workers([1], 60_000),
    "retire_worker": lambda store: store.retire_worker(99),
    "release_worker": lambda store: store.release_worker(99, [completed(1, 1)]),
    "list_workers": lambda store: store.list_workers(),
    "define_queues": lambda store: store.define_queues({"q": keeping(1_000, 1_000, 1_000, 1_000)}),
    "pause_queue": lambda store: store.pause_queue("q", actor=None, reason=None),
    "resume_queue": lambda store: store.resume_queue("q"),
    "list_queues": lambda store: store.list_queues(),
    "cancelled_claims": lambda store: store.cancelled_claims(1),
    "watch": lambda store: store.watch("test", 1_000),
    "unwatch": lambda store: store.unwatch("test"),
    "first_event": lambda store: store.first_event(0.1),
    "still_writing": lambda store: store.still_writing(["1/1"]),
    "read_events": lambda store: store.read_events(0, [], 10),
    "prune_events": lambda store: store.prune_events(10),
    "claim_deliveries": lambda store: store.claim_deliveries(1, 1_000),
    "end_delivery": lambda store: store.end_delivery(MESSAGE, "delivered", 0, "{}"),
    "postpone_delivery": lambda store: store.postpone_delivery(MESSAGE, 1_000),
    "next_delivery_ms": lambda store: store.next_delivery_ms(),
    "disable_endpoint": lambda store: store.disable_endpoint("https://example.org/", "gone"),
    "enable_endpoint": lambda store: store.enable_endpoint("https://example.org/"),
    "list_endpoints": lambda store: store.list_endpoints(),
    "prune_deliveries": lambda store: store.prune_deliveries(10),
    "claim_retention": lambda store: store.claim_retention(["q"], 1, 1_000),
    "kept_jobs": lambda store: store.kept_jobs([1]),
    "end_retention": lambda store: store.end_retention(DUE),
    "postpone_retention": lambda store: store.postpone_retention(DUE, 1_000, "it failed"),
    "announce": lambda store: store.announce(["q"]),
}


def verb_names() -> set[str]:
    """Read the names of all verbs from the protocols; to listen is no call, see test_wakeups.py."""
    return {name for role in ROLES for name in vars(role) if not name.startswith("_")} - {"listen"}
