"""What limits there are, and who holds them back: how many jobs run at once, and how fast they start."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

import msgspec

_MOST_BUCKETS = 50
_NEVER = datetime.max.replace(tzinfo=UTC)


class LimitRow(msgspec.Struct, frozen=True, kw_only=True):
    """A limit that is in force.

    `definition` is the JSON object of what programs or configuration say; the other fields are what holds. Jobs of the
    queue or of one of the kinds are under it, and `path` leads to their key. Times are microseconds from one start (or
    one enqueue) to the next.
    """

    name: str
    definition: str = "{}"
    queue: str | None = None
    kinds: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    concurrency: int | None = None
    scope: str = "cluster"
    throttle_us: int | None = None
    burst: int = 1
    rate_us: int | None = None
    rate_burst: int | None = None
    rotate: bool = False
    fifo: bool = False
    metric: str | None = None


class SlotRow(msgspec.Struct, frozen=True):
    """A claim that holds a slot."""

    key: str
    job_id: int
    claim: int
    since: datetime | None


class LimitBucket(msgspec.Struct, frozen=True):
    """How much of a limit one key has used up.

    `sort` is what it bounds: "slots" of jobs that run, "starts" by a throttle, "enqueues" by a rate. `left` of `most`
    can be had now; `next_at` is when there is one more, which of slots nobody knows.
    """

    key: str
    sort: str
    most: int
    left: int
    next_at: datetime | None = None


class LimitUsage(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a limit, or of one key of it, is in use.

    `most` is how many may run at once (None: no bound on that), `taken` how many do, `held` how many jobs wait for it,
    at most 10,001 of them counted. `next_at` is when a throttle gives the next permit. `holders` are the first 100.
    `buckets` are the 50 fullest keys of those that were used last, and `has_more_buckets` says that there are others.
    """

    name: str
    key: str | None
    most: int | None
    taken: int
    held: int
    next_at: datetime | None = None
    holders: tuple[SlotRow, ...] = ()
    buckets: tuple[LimitBucket, ...] = ()
    has_more_buckets: bool = False

    @property
    def available(self) -> int | None:
        """How many more may run now; None without a bound."""
        return None if self.most is None else max(self.most - self.taken, 0)


class UsageCounts(NamedTuple):
    """What a store counts of a limit: the columns of the query `limit_usage`."""

    name: str
    each: int | None
    scope: str
    is_keyed: bool
    taken: int
    keys: int
    held: int
    next_at: datetime | None
    instances: int
    running: int


class UsedKey(NamedTuple):
    """What a store reads of a key that is in use: the columns of the query `limit_buckets`.

    Of slots it counts how many are `taken`, of permits it knows until when they are `spent`, `step_us` apart.
    """

    name: str
    sort: str
    key: str
    most: int
    taken: int | None
    step_us: int | None
    spent: datetime | None
    now: datetime

    def bucket(self) -> LimitBucket:
        """Say how much is left of it."""
        if self.step_us is None or self.spent is None:
            return LimitBucket(self.key, self.sort, self.most, max(self.most - (self.taken or 0), 0))
        step = timedelta(microseconds=self.step_us)
        used = min(-((self.now - self.spent) // step), self.most)  # one that has come back in part is still used
        return LimitBucket(self.key, self.sort, self.most, self.most - used, self.spent - (used - 1) * step)


def usage_of(
    counts: UsageCounts, key: str | None, holders: Iterable[tuple[str, SlotRow]], used: Iterable[UsedKey]
) -> LimitUsage:
    """Say how much of a limit is in use; `holders` come with the names of their limits.

    Of a limit per instance that is what runs in all living instances that work its queue; of one with keys, and without
    saying which, what the keys have together that were seen of late.
    """
    if counts.scope == "instance":
        most = None if counts.each is None else counts.each * counts.instances
        taken = counts.running
    else:
        most = (
            counts.each if counts.each is None or key is not None or not counts.is_keyed else counts.each * counts.keys
        )
        taken = counts.taken
    buckets = sorted((one.bucket() for one in used if one.name == counts.name), key=_emptiness)
    return LimitUsage(
        name=counts.name,
        key=key,
        most=most,
        taken=taken,
        held=counts.held,
        next_at=counts.next_at,
        holders=tuple(holder for name, holder in holders if name == counts.name),
        buckets=tuple(buckets[:_MOST_BUCKETS]),
        has_more_buckets=len(buckets) > _MOST_BUCKETS,
    )


class Swept(msgspec.Struct, frozen=True):
    """What a sweep mended: slots given back, jobs let go on; it ended at `after`, or (None) looked at every key."""

    freed: int
    released: int
    after: str | None


class LimitStore(Protocol):
    """What holds jobs back, beside pauses."""

    async def define_limits(self, limits: Sequence[LimitRow], gated: Sequence[str]) -> None:
        """Let these limits hold and no others; `gated` names the queues with jobs that may have to wait for one.

        Unchanged ones cost no write. Unknown: ask again.
        """

    async def list_limits(self) -> list[LimitRow]:
        """Read the limits in force, by name."""

    async def limit_usage(self, name: str, key: str | None = None) -> LimitUsage | None:
        """Read how much of a limit is in use, in all or under one key; None when there is no such limit."""

    async def limit_usages(self) -> list[LimitUsage]:
        """Read how much of every limit is in use, by name."""

    async def sweep_limits(self, after: str, limit: int, *, leaks: bool) -> Swept:
        """Let jobs go on that are held for a key which could let them: of `limit` keys after the given one.

        `leaks` gives back the slots of claims that run no more and whose worker is gone, too. Unknown: the next sweep
        does the rest.
        """

    async def prune_limits(self, limit: int) -> int:
        """Forget keys that nobody has used for a day. Unknown: the next sweep does the rest."""


def _emptiness(bucket: LimitBucket) -> tuple[float, float, str, str]:
    """Where a key stands among others: the fullest first, of those the one that has to wait longest."""
    return bucket.left / max(bucket.most, 1), -(bucket.next_at or _NEVER).timestamp(), bucket.key, bucket.sort
