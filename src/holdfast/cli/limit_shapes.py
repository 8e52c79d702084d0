"""What `limits list --json` and `limits show --json` print."""

from datetime import datetime

import msgspec

from holdfast import public_id
from holdfast.stores.limits import LimitRow, LimitUsage


class HolderShape(msgspec.Struct, frozen=True, kw_only=True):
    """A job that holds a slot."""

    key: str
    job_id: str
    job_public_id: str
    claim: int
    since: datetime | None


class BucketShape(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a limit one key has used up: `left` of `most` slots, starts or enqueues, and when there is more."""

    key: str
    sort: str
    most: int
    left: int
    next_at: datetime | None


class LimitShape(msgspec.Struct, frozen=True, kw_only=True):
    """One limit: what it says, and how much of it is in use, in all or under one key.

    `most` is how many jobs may run at once by what is known now: of all keys together, or in all living instances that
    work its queue.
    """

    name: str
    queue: str | None
    kinds: list[str]
    key_path: str | None
    concurrency: int | None
    scope: str
    throttle_us: int | None
    burst: int
    rate_us: int | None
    rotate: bool
    fifo: bool
    key: str | None
    most: int | None
    taken: int
    available: int | None
    held: int
    next_at: datetime | None
    holders: list[HolderShape]
    buckets: list[BucketShape]
    has_more_buckets: bool


class LimitsShape(msgspec.Struct, frozen=True):
    """`limits list --json`."""

    limits: list[LimitShape]


def limit(row: LimitRow, usage: LimitUsage) -> LimitShape:
    """Describe a limit."""
    return LimitShape(
        name=row.name,
        queue=row.queue,
        kinds=list(row.kinds),
        key_path=".".join(row.path) or None,
        concurrency=row.concurrency,
        scope=row.scope,
        throttle_us=row.throttle_us,
        burst=row.burst,
        rate_us=row.rate_us,
        rotate=row.rotate,
        fifo=row.fifo,
        key=usage.key,
        most=usage.most,
        taken=usage.taken,
        available=usage.available,
        held=usage.held,
        next_at=usage.next_at,
        holders=[
            HolderShape(
                key=holder.key,
                job_id=str(holder.job_id),
                job_public_id=public_id.encode(holder.job_id),
                claim=holder.claim,
                since=holder.since,
            )
            for holder in usage.holders
        ],
        buckets=[
            BucketShape(key=one.key, sort=one.sort, most=one.most, left=one.left, next_at=one.next_at)
            for one in usage.buckets
        ],
        has_more_buckets=usage.has_more_buckets,
    )
