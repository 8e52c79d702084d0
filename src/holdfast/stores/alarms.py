"""What went wrong and who is told of it: the inbox of alarms, escalations, and the outbox of messages."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, Protocol

import msgspec

Source = Literal["failed", "sla", "budget", "schedule"]
NoticeState = Literal["pending", "sent", "failed"]

MOST_JOBS = 5
"""How many of its jobs an escalation names, the latest first."""

QUIET_MS = 3_600_000
"""How long nothing may repeat until an escalation closes by itself."""


class Alarm(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that went wrong; without a policy that of the queue counts. `details` is a JSON object."""

    source: Source
    title: str
    policy: str | None = None
    queue: str = ""
    kind: str = ""
    fingerprint: str = ""
    job_id: int | None = None
    life: int | None = None
    details: str | None = None


class EscalationRow(msgspec.Struct, frozen=True):
    """Alarms that belong together, and how far people have come with them.

    `policy` was told first, `stage` is the policy in charge by now and `said` how often it spoke. `digested` counts the
    alarms that a digest has told of. `jobs` are the latest ones.
    """

    id: int
    policy: str
    stage: str
    source: str
    queue: str
    kind: str
    fingerprint: str
    title: str
    details: str | None
    jobs: tuple[int, ...]
    count: int
    first_at: datetime
    last_at: datetime
    told_at: datetime | None
    said: int
    digested: int
    due_at: datetime | None
    snoozed_until: datetime | None
    snoozed_by: str | None
    acked_at: datetime | None
    acked_by: str | None
    note: str | None
    ack_told_at: datetime | None
    closed_at: datetime | None
    resolved_at: datetime | None
    version: int

    def standing(self, now: datetime) -> str:
        """Say in a word how far it is."""
        if self.acked_at is not None:
            return "acknowledged"
        if self.closed_at is not None:
            return "closed"
        if self.snoozed_until is not None and self.snoozed_until > now:
            return "snoozed"
        return "unanswered" if self.said > 1 or self.stage != self.policy else "open"


class PolicyState(msgspec.Struct, frozen=True):
    """How far a policy has come: up to when its rate is used up, and which daily digest was the last."""

    name: str
    rated_until: datetime | None
    digested_at: datetime


class Waiting(msgspec.Struct, frozen=True):
    """What the service that escalates has to look at, in one snapshot."""

    now: datetime
    policies: tuple[PolicyState, ...]
    escalations: tuple[EscalationRow, ...]


class NewNotice(msgspec.Struct, frozen=True):
    """A message to a channel that is to be sent; `data` is JSON."""

    escalation: int | None
    policy: str
    channel: str
    event: str
    data: str


class Notice(msgspec.Struct, frozen=True):
    """A message that was taken to be sent; `tries` counts this one, `age_ms` since it was written."""

    id: int
    escalation: int | None
    policy: str
    channel: str
    event: str
    data: str
    age_ms: int
    tries: int


class NoticeRow(msgspec.Struct, frozen=True):
    """A message as people see it."""

    id: int
    escalation: int | None
    policy: str
    channel: str
    event: str
    created_at: datetime
    state: NoticeState
    tries: int
    next_at: datetime
    ended_at: datetime | None
    error: str | None


class Pace(msgspec.Struct, frozen=True):
    """How many messages a policy may send: one in so many microseconds, and so many at once."""

    policy: str
    spacing_us: int
    times: int


class AlarmStore(Protocol):
    """Alarms and what becomes of them; any number of processes may escalate at once."""

    async def define_escalations(self, policies: Sequence[str]) -> None:
        """Make policies known: their first digest holds what comes from now on. Unknown: ask again."""

    async def fold_alarms(self, policies: Mapping[str, Sequence[str]], limit: int) -> int:
        """Take alarms from the inbox into escalations, in one commit; the answer is how many were taken.

        Only those of the named policies are taken; those from other sources than a policy lists are dropped. Unknown:
        ask again; what was taken is not there any more.
        """

    async def waiting_escalations(self, policies: Sequence[str], digests: Sequence[str], limit: int) -> Waiting:
        """Read the escalations about which something has to be said or done now; `digests` are told once a day."""

    async def undigested(self, policy: str, limit: int) -> list[EscalationRow]:
        """Read the escalations with alarms of which no digest has told."""

    async def move_escalation(
        self, before: EscalationRow, after: EscalationRow, notices: Sequence[NewNotice], pace: Pace | None = None
    ) -> bool:
        """Let an escalation go on and write its messages, in one commit; False when it has changed or none may go out.

        Taken over are stage, told_at, said, due_at, snoozed_until, ack_told_at, closed_at and resolved_at. One that is
        closed must not have grown meanwhile. Unknown: look at it again; its `version` tells.
        """

    async def tell_together(
        self,
        rows: Sequence[EscalationRow],
        notices: Sequence[NewNotice],
        *,
        due_at: datetime | None,
        pace: Pace | None = None,
        digest: tuple[str, datetime] | None = None,
    ) -> bool:
        """Tell of many escalations at once, in one commit: what the policy's pace left over, or one day's digest.

        False when somebody else has done it, or no message may go out. Unknown: ask again; a second one is refused.
        """

    async def ack_escalation(self, escalation: int, *, actor: str | None, note: str | None) -> EscalationRow | None:
        """Close an escalation that somebody has taken over; None when there is none. Unknown: ask again."""

    async def snooze_escalation(
        self, escalation: int, *, until: datetime | None, delay_ms: int | None, actor: str | None
    ) -> EscalationRow | None:
        """Say nothing of an open escalation until a time; None when none is open. Unknown: ask again."""

    async def get_escalation(self, escalation: int) -> tuple[EscalationRow, list[NoticeRow]] | None:
        """Read an escalation and its messages."""

    async def list_escalations(
        self, *, is_open: bool | None, policy: str | None, limit: int, before: int | None
    ) -> list[EscalationRow]:
        """Read escalations, newest first; `before` is the last id of the page before."""

    async def prune_alarms(self, limit: int) -> int:
        """Forget escalations of 400 days ago, messages of 30, and alarms that nobody took for 3."""


class NoticeStore(Protocol):
    """Messages that wait to be sent."""

    async def claim_notices(self, channels: Sequence[str], limit: int, lease_ms: int) -> list[Notice]:
        """Take messages to these channels whose time has come; of one escalation and channel the earliest only.

        Unknown: their lease ends by itself.
        """

    async def end_notice(self, notice: Notice, state: NoticeState, delay_ms: int, error: str | None) -> bool:
        """Record what became of one try: `sent`, `failed`, or `pending` for another. Unknown: ask again."""

    async def next_notice_ms(self, channels: Sequence[str]) -> int | None:
        """Say in how many milliseconds the next message is due."""
