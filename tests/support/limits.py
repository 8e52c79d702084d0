"""Limits as tests speak of them."""

from typing import Any

import msgspec

from holdfast.job import JobRow, JobState
from holdfast.stores.limits import LimitRow
from holdfast.stores.store import Store
from holdfast.transitions import completed
from tests.support.builders import enqueue, read, settle

TENANT = ("payload", "tenant")


async def limit(store: Store, **fields: Any) -> LimitRow:
    """Let one limit hold for the default queue, and no other."""
    row = LimitRow(**({"name": "tenants", "queue": "default"} | fields))
    await store.define_limits([row], ["default", "other"])
    return row


async def of(store: Store, tenant: str, **changes: Any) -> int:
    """Enqueue a job of a tenant."""
    payload = msgspec.json.encode({"tenant": tenant}).decode()
    return await enqueue(store, **({"payload": payload} | changes))


async def states(store: Store, ids: list[int]) -> list[JobState]:
    """Read where jobs stand."""
    return [(await read(store, job_id)).state for job_id in ids]


async def complete(store: Store, *jobs: JobRow) -> None:
    """End claims well."""
    for job in jobs:
        await settle(store, completed(job.id, job.claim))
