"""An escalation: alarms that belong together, the notices about it, and how far people have come with it."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

from holdfast.about import About
from holdfast.resources.examples import JOB_ID, MOMENT
from holdfast.resources.request import REASON_BYTES, Instant, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class EscalationInfo:
    """Alarms that belong together, and how far people have come with them."""

    id: Annotated[str, About("Its number.", "17")]
    state: Annotated[
        str,
        About(
            "`open`, `unanswered` (its policy was notified more than once, or the next policy was), `snoozed`, "
            "`acknowledged` or `closed`.",
            "open",
        ),
    ]
    policy: Annotated[str, About("The policy that was notified first.", "ops")]
    stage: Annotated[str, About("The policy that is in charge now.", "ops")]
    source: Annotated[str, About("What raised the alarms: `failed`, `sla`, `budget` or `schedule`.", "failed")]
    queue: Annotated[str, About("The queue of its jobs; empty where there is none.", "high")]
    kind: Annotated[str, About("The kind of its jobs; empty where there is none.", "send_mail")]
    fingerprint: Annotated[str, About("The cause that its jobs share.", "ConnectionError mail.py:send", quotes=True)]
    title: Annotated[str, About("What went wrong.", "send_mail failed: the mail provider is down", quotes=True)]
    details: Annotated[dict[str, Any] | None, About("More about it, by its source.", {"unit": "EUR"}, quotes=True)] = (
        None
    )
    jobs: Annotated[list[str], About("The public ids of its latest jobs, at most five.", [JOB_ID])]
    count: Annotated[int, About("How many alarms it counts.", 3)]
    first_at: Annotated[datetime, About("When the first alarm was raised.", MOMENT)]
    last_at: Annotated[datetime, About("When the latest alarm was raised.", MOMENT)]
    notified_at: Annotated[datetime | None, About("When the policy in charge was notified last.", MOMENT)] = None
    notified: Annotated[int, About("How often the policy in charge was notified.", 1)]
    due_at: Annotated[datetime | None, About("When an answer is due.", MOMENT)] = None
    snoozed_until: Annotated[Instant | None, About("Until when no notice is sent.", MOMENT)] = None
    snoozed_by: Annotated[str | None, About("Who snoozed it.", "ada")] = None
    acked_at: Annotated[datetime | None, About("When it was acknowledged.", MOMENT)] = None
    acked_by: Annotated[str | None, About("Who acknowledged it.", "ada")] = None
    note: Annotated[str | None, About("The answer.", "the disk was full", quotes=True)] = None
    closed_at: Annotated[datetime | None, About("When it was closed, by an answer or by a quiet hour.", MOMENT)] = None
    dedup_key: Annotated[
        str, About("The key that all its notices share, for receivers that group them.", "holdfast-ops-17-3f9a0c71be42")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class EscalationNotice:
    """A message about an escalation to one channel."""

    id: Annotated[str, About("Its number.", "31")]
    policy: Annotated[str, About("The policy that sends it.", "ops")]
    channel: Annotated[str, About("The channel that it goes to.", "pager")]
    event: Annotated[str, About("What it says of the escalation.", "opened")]
    state: Annotated[str, About("`pending`, `sent` or `failed`.", "sent")]
    tries: Annotated[int, About("How often it was tried to send it.", 1)]
    created_at: Annotated[datetime, About("When it was written.", MOMENT)]
    next_at: Annotated[datetime | None, About("When it is tried next, while it is pending.", MOMENT)] = None
    finished_at: Annotated[datetime | None, About("When it was sent, or failed for good.", MOMENT)] = None
    error: Annotated[str | None, About("Why the last try failed.", "answered 500", quotes=True)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EscalationDetail:
    """An escalation, and the notices about it."""

    escalation: EscalationInfo
    notices: list[EscalationNotice]


@dataclass(frozen=True, slots=True, kw_only=True)
class EscalationPage:
    """A page of escalations, newest first; it may hold fewer than `limit`, also when there is a next one."""

    escalations: list[EscalationInfo]
    next: Annotated[str | None, About("`before` of the next page; null on the last page.", "12")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelTest:
    """What became of a test notice to one channel."""

    channel: Annotated[str, About("The channel.", "pager")]
    sent: Annotated[bool, About("Whether the channel took the notice.", example=True)]
    error: Annotated[str | None, About("Why it did not.", "answered 500", quotes=True)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTest:
    """What became of the test notices of an escalation policy."""

    policy: Annotated[str, About("The policy.", "ops")]
    channels: list[ChannelTest]


@dataclass(frozen=True, slots=True, kw_only=True)
class AckRequest(Request):
    """The answer to an escalation."""

    note: Annotated[str | None, About("What was found, or is being done.", "the disk was full")] = field(
        default=None, metadata={"max_length": REASON_BYTES // 4}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SnoozeRequest(Request):
    """How long no notice is sent: for a length of time, or until a time."""

    lasts: Annotated[str | None, About("For how long.", "2h")] = field(default=None, metadata={"max_length": 40})
    until: Annotated[Instant | None, About("Until when, with an offset.", MOMENT)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTestRequest(Request):
    """The policy to test."""

    policy: Annotated[str, About("The policy.", "ops")] = field(metadata={"max_length": 64})
