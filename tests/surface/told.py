"""What events say: their kinds, and the keys of what each has to tell."""

import itertools
import json
from collections import defaultdict
from typing import Any

import msgspec

from holdfast.events import EventRow, EventType
from holdfast.job import JobState
from holdfast.resources.catalogue import describe
from holdfast.resources.event import Event
from holdfast.stores.sla import Look
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.store import Store
from holdfast.stores.values import ProgressReport, Started
from holdfast.transitions import cancelled, completed, crashed, failed, interrupted, retried, snoozed
from tests.support.builders import FAILURE, cancel, claim_one, end, enqueue, keeping, running
from tests.support.clock import Clock

_DAY_MS = 86_400_000
_LASTS_MS = 30 * _DAY_MS
_ENTRY = '{"at": "2026-01-02T03:04:05Z", "status": 200, "error": null, "took_ms": 7}'
_PHASE = {
    "name": "one",
    "ordinal": 0,
    "weight": 1,
    "state": "completed",
    "ended_ago": 0,
    "percent": 100,
    "message": "said",
    "data": None,
    "error": None,
    "result": None,
    "started_ago": 0,
}
_SETS = {
    "sets": [{"name": "pages", "word": "page", "phase": None, "keys": ["a"]}],
    "items": [["pages", "a", "completed", None]],
}


async def describe_events() -> str:
    """Let everything happen on a store in memory, and write what was told."""
    store = SqliteStore(":memory:")
    await store.open()
    clock = Clock(store)
    await clock.stop()
    await store.watch("surface", _LASTS_MS)
    first = await store.first_event(1.0)
    await _let_happen(store, clock)
    told = await store.read_events(first.last, [], 10_000)
    await store.close()
    return "\n".join(
        [
            "# every event",
            *(f"{field.name}: {field.type}" for field in describe(Event)),
            "\n# the data of each type",
            *_data(told),
            "",
        ]
    )


def _data(told: list[EventRow]) -> list[str]:
    found: dict[EventType, list[dict[str, Any]]] = defaultdict(list)
    for event in told:
        found[event.type].append(event.data)
    lines = []
    for kind in EventType:
        keys = sorted(set(itertools.chain.from_iterable(found[kind])))
        marked = [key if all(key in data for data in found[kind]) else f"{key}?" for key in keys]
        seen = f" ({', '.join(marked)})" if found.get(kind) else " of a later release"
        lines.append(f"{kind.value}{seen}")
    return lines


async def _let_happen(store: Store, clock: Clock) -> None:
    hour = dict.fromkeys((JobState.COMPLETED, JobState.FAILED), 3_600_000)
    kept = keeping(_DAY_MS, _DAY_MS, _DAY_MS, _DAY_MS)
    await store.define_queues({"default": msgspec.structs.replace(kept, stale_ms=hour, tells=True)})
    for ending in (completed, cancelled, interrupted):
        await _begun_and_ended(store, ending)
    for delay_ms in (0, 5_000):
        job = await running(store)
        await end(store, retried(job.id, job.claim, FAILURE, delay_ms))
        await cancel(store, job.id)
        job = await running(store)
        await end(store, snoozed(job.id, job.claim, delay_ms))
        await cancel(store, job.id)
    job = await running(store)
    await end(store, crashed(job.id, job.claim, FAILURE))
    await clock.advance(minutes=1)
    await store.promote_jobs(10)
    job = await claim_one(store)
    await end(store, crashed(job.id, job.claim, FAILURE))
    await cancel(store, job.id)
    await enqueue(store, delay_ms=60_000)
    job = await running(store)
    await end(store, failed(job.id, job.claim, FAILURE))
    await _progress(store)
    await _webhooks(store)
    await _promise(store, clock)
    job = await running(store)
    await end(store, failed(job.id, job.claim, FAILURE))
    await store.delete_jobs([job.id])
    await clock.advance(hours=2)
    for due in await store.claim_retention(["default"], 100, 60_000):
        await store.end_retention(due)


async def _begun_and_ended(store: Store, ending: Any) -> None:
    job = await running(store)
    await store.start_jobs([Started(job.id, job.claim, 0)])
    await end(store, ending(job.id, job.claim))
    await cancel(store, job.id)


async def _progress(store: Store) -> None:
    job = await running(store)
    reports = [
        ProgressReport(job.id, job.claim, 60.0, "half", '{"a": 1}', "one", 80.0),
        ProgressReport(job.id, job.claim, 70.0, changes=json.dumps({"phases": [_PHASE]})),
        ProgressReport(job.id, job.claim, changes=json.dumps({"bare": True, **_SETS})),
    ]
    for report in reports:
        await store.save_progress([report])
    await end(store, completed(job.id, job.claim))


async def _webhooks(store: Store) -> None:
    for state in ("delivered", "failed"):
        await enqueue(store, extra='{"webhook": {"url": "https://hooks.example.org/in"}}')
        job = await claim_one(store)
        await end(store, completed(job.id, job.claim))
        (message,) = await store.claim_deliveries(10, 30_000)
        await store.end_delivery(message, state, 0, _ENTRY)


async def _promise(store: Store, clock: Clock) -> None:
    """Break the promise of a queue, and keep it again."""
    for is_late in (True, False):
        for _ in range(4):
            look = Look(queue="q", sla_ms=1, p95_ms=4, starts=1, oldest_ms=5, waiting=1, is_late=is_late)
            (row,) = await store.look_at_waits([look])
            await store.tell_breach(row)
            await clock.advance(minutes=2)
