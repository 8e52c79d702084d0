"""`app.prune()` deletes what the retention service deletes: all of it."""

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast import Holdfast
from holdfast.client.client import LocalClient
from holdfast.resources.bulk import BulkState, BulkVerb
from holdfast.services.retention import RetentionService
from holdfast.stores.access import NewToken
from holdfast.stores.bulk import NewBulk
from holdfast.stores.cluster import LockRequest
from holdfast.stores.limits import LimitRow
from holdfast.stores.sla import TuningRow
from holdfast.stores.store import Store
from holdfast.stores.values import JobFilter
from holdfast.transitions import failed
from tests.conformance import scheduling
from tests.support import budgets, raw, staff
from tests.support.builders import FAILURE, end, enqueue, keeping, running
from tests.support.clock import Clock
from tests.support.outbox import forget

BATCH = 500
EVERY_VERB = {name for name in dir(Store) if name.startswith("prune_")}
HOOK = msgspec.json.encode({"webhook": {"url": "https://hooks.example.org/in"}}).decode()


class Watched:
    """A store that remembers which of its verbs deleted something."""

    def __init__(self, store: Store) -> None:
        self.deleting: set[str] = set()
        self._store: Any = store

    def __getattr__(self, name: str) -> Callable[..., Any]:
        verb = getattr(self._store, name)
        if not name.startswith("prune_"):
            return verb  # type: ignore[no-any-return]  # the verbs of a store are what they are

        async def prune(batch: int) -> int:
            deleted: int = await verb(batch)
            if deleted:
                self.deleting.add(name)
            return deleted

        return prune


async def fill(store: Store, clock: Clock) -> None:
    """Leave something for each verb to delete later."""
    await forget(store)
    await store.watch("test", 30_000)  # so that there are events
    await store.define_queues({"default": keeping(1, 1, 1, 1)})
    await store.define_limits([LimitRow(name="few", queue="default", concurrency=2, throttle_us=1)], ["default"])
    await store.define_budgets([budgets.budget()])
    await enqueue(store, key="k", queue="other")
    job = await running(store, extra=HOOK)
    await budgets.reserve(store, job, 500)
    await budgets.spend(store, job, 100)
    await end(store, failed(job.id, job.claim, FAILURE))
    await store.fold_failures(BATCH)
    await store.take_lock(LockRequest("x", "a", "context", "here/1"), lasts_ms=1, waits_ms=1)
    await scheduling.define(store, nightly=scheduling.plan())
    await scheduling.fire(store, clock.now)
    await raw.raise_alarm(store, staff.alarm(policy="unknown"))
    tuning = TuningRow(instance="gone", queue="default", workers=1, lowest=1, highest=9, reason="so many wait")
    await store.report_tunings("gone", [tuning])
    token: dict[str, Any] = {"name": "deploy", "hint": "abcd", "role": "operator", "queues": None, "created_by": "ada"}
    await store.add_token(NewToken(kind="token", digest="d", lasts_ms=1, **token))
    run = await store.start_bulk(NewBulk(key="k", verb=BulkVerb.RETRY, which=JobFilter(), expected=0))
    await store.change_bulk(run.id, BulkState.CANCELLED)


async def test_prune_leaves_nothing_to_the_retention_service(store: Store, clock: Clock) -> None:
    await fill(store, clock)
    await clock.advance(days=900)
    watched: Any = Watched(store)
    client = LocalClient(watched, (app := Holdfast("sqlite://")).config, app.describe_settings)
    assert await client.prune() >= len(EVERY_VERB)
    assert watched.deleting == EVERY_VERB
    assert (await RetentionService(store).run(BATCH)).scanned == 0
