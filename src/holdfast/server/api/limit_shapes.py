"""Limits as the API shows them."""

from pydantic import Field

from holdfast import public_id
from holdfast.server.api.shape import Moment, Shape
from holdfast.stores.limits import LimitRow, LimitUsage


class HolderShape(Shape):
    """A job that holds a slot."""

    key: str = Field(examples=["tenant-7"])
    job: str = Field(examples=["htcx-2s16-z48b-09"])
    claim: int = Field(examples=[1])
    since: Moment | None = Field(examples=["2026-11-16T09:30:00Z"])


class BucketShape(Shape):
    """How much of a limit one key has used up; `sort` is what it bounds: slots, starts or enqueues."""

    key: str = Field(examples=["tenant-7"])
    sort: str = Field(examples=["starts"])
    most: int = Field(examples=[10])
    left: int = Field(description="How many can be had now.", examples=[0])
    next_at: Moment | None = Field(
        description="When there is one more, which of slots nobody knows.", examples=["2026-11-16T09:30:05Z"]
    )


class LimitShape(Shape):
    """One limit: what it says, and how much of it is in use, in all or under one key.

    `most` is how many jobs may run at once by what is known now: of all keys together, or in all living instances that
    work its queue.
    `held` wait for it, at most 10,001 of them counted. Times are microseconds from one start or enqueue to the next.
    """

    name: str = Field(examples=["screenshots"])
    queue: str | None = Field(examples=["high"])
    kinds: list[str] = Field(examples=[["screenshot"]])
    key_path: str | None = Field(examples=["payload.tenant"])
    concurrency: int | None = Field(examples=[4])
    scope: str = Field(examples=["cluster"])
    throttle_us: int | None = Field(examples=[None])
    burst: int = Field(examples=[1])
    rate_us: int | None = Field(examples=[None])
    rotate: bool = Field(examples=[False])
    fifo: bool = Field(examples=[False])
    key: str | None = Field(examples=["tenant-7"])
    most: int | None = Field(examples=[4])
    taken: int = Field(examples=[3])
    available: int | None = Field(examples=[1])
    held: int = Field(examples=[0])
    next_at: Moment | None = Field(description="When a throttle gives the next permit.", examples=[None])
    holders: list[HolderShape] = Field(description="The first 100.")
    buckets: list[BucketShape] = Field(description="The 50 fullest keys, of the 1,000 that were used last.")
    has_more_buckets: bool = Field(description="Whether other keys are in use too.", examples=[False])


class LimitList(Shape):
    """The limits in force."""

    limits: list[LimitShape]


def limit_shape(row: LimitRow, usage: LimitUsage) -> LimitShape:
    """Show a limit."""
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
            HolderShape(key=holder.key, job=public_id.encode(holder.job_id), claim=holder.claim, since=holder.since)
            for holder in usage.holders
        ],
        buckets=[
            BucketShape(key=one.key, sort=one.sort, most=one.most, left=one.left, next_at=one.next_at)
            for one in usage.buckets
        ],
        has_more_buckets=usage.has_more_buckets,
    )
