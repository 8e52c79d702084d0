"""A limit, as the client, the HTTP API, the command line and the dashboard show it."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from holdfast.about import About, about
from holdfast.policies.limits import Limit
from holdfast.resources.examples import JOB_ID, MOMENT

_SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotHolder:
    """A job that holds a slot of a limit."""

    key: Annotated[str, About("The key that the slot is of; empty where the limit has no keys.", "tenant-7")]
    job: Annotated[str, About("The job.", JOB_ID)]
    claim: Annotated[int, About("Its claim.", 1)]
    since: Annotated[datetime | None, About("Since when it runs.", MOMENT)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitKey:
    """How much of a limit one key has in use."""

    key: Annotated[str, About("The key; empty where the limit has no keys.", "tenant-7")]
    unit: Annotated[str, About("What is counted: slots, starts or enqueues.", "starts")]
    maximum: Annotated[int, About("How many there are.", 10)]
    available: Annotated[int, About("How many can be had now.", 0)]
    next_at: Annotated[datetime | None, About("When there is one more; null for slots.", MOMENT)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitInfo:
    """A limit: its settings, and how much of it is in use, in all or under one key."""

    name: Annotated[str, about(Limit, "name")]
    queue: Annotated[str | None, about(Limit, "queue")] = None
    kinds: Annotated[list[str], about(Limit, "kinds")] = field(default_factory=list)
    key_path: Annotated[str | None, about(Limit, "key")] = None
    concurrency: Annotated[int | None, about(Limit, "concurrency")] = None
    scope: Annotated[str, about(Limit, "scope")] = "cluster"
    throttle_us: Annotated[
        int | None, About("Microseconds from one start to the next: what `throttle` means.", 20_000)
    ] = None
    burst: Annotated[int, about(Limit, "burst")] = 1
    rate_us: Annotated[int | None, About("Microseconds from one enqueue to the next: what `rate` means.", 20_000)] = (
        None
    )
    rotate: Annotated[bool, about(Limit, "rotate")] = False
    fifo: Annotated[bool, about(Limit, "fifo")] = False
    metric: Annotated[str | None, about(Limit, "metric")] = None
    key: Annotated[str | None, About("The key that the numbers are of; null for all keys together.", "tenant-7")] = None
    maximum: Annotated[
        int | None,
        About("How many may run at once: of all keys in use, or in all living instances. Null: any number.", 4),
    ] = None
    taken: Annotated[int, About("How many slots are taken.", 3)] = 0
    available: Annotated[int | None, About("How many more may run now. Null: any number.", 1)] = None
    held: Annotated[int, About("How many jobs wait for it; counting stops at 10,001.", 0)] = 0
    next_at: Annotated[datetime | None, About("When a throttle allows the next start.", MOMENT)] = None
    holders: Annotated[list[SlotHolder], About("The first 100 jobs that hold a slot.")] = field(default_factory=list)
    keys: Annotated[list[LimitKey], About("The 50 fullest of the 1,000 keys that were used last.")] = field(
        default_factory=list
    )
    has_more_keys: Annotated[bool, About("Whether other keys are in use too.", example=False)] = False

    @property
    def words(self) -> str:
        """Say what it allows."""
        words = []
        if self.concurrency is not None:
            words.append(f"{self.concurrency:,} at once" + (" in each instance" if self.scope == "instance" else ""))
        if self.throttle_us is not None:
            words.append(f"a start every {_seconds(self.throttle_us)}")
        if self.rate_us is not None:
            words.append(f"an enqueue every {_seconds(self.rate_us)}")
        words += ["one after the other"] * self.fifo + ["keys take turns"] * self.rotate
        return ", ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitList:
    """The limits in force."""

    limits: list[LimitInfo]


def _seconds(microseconds: int) -> str:
    return f"{microseconds / _SECOND_US:g} s" if microseconds >= _SECOND_US else f"{microseconds / 1_000:g} ms"
