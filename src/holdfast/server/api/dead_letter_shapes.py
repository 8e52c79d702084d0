"""Dead letters as the API shows and takes them."""

from datetime import datetime

from pydantic import Field

from holdfast import public_id
from holdfast.errors import InvalidValue
from holdfast.server.api.parameters import NAME, Instant, Reason
from holdfast.server.api.shape import Asked, Moment, Shape, Told
from holdfast.stores.failures import LEFT_CAP, DeadCursor, DeadLetter

_MARK = "~"


class DeadLetterShape(Shape):
    """The failed jobs of one kind with one error; `capped` says that more are left than were counted."""

    group: str = Field(examples=["3f9a0c71be42"])
    kind: str = Field(examples=["send_mail"])
    queue: str = Field(description="The queue of the last one.", examples=["high"])
    error_class: str | None = Field(examples=["ConnectionError"])
    error: Told | None = Field(examples=["the mail provider does not answer"])
    fingerprint: Told = Field(examples=["ConnectionError mail.py:send"])
    seen: int = Field(description="How many there ever were.", examples=[12])
    left: int = Field(description="How many are still there.", examples=[3])
    capped: bool = Field(examples=[False])
    first_at: Moment = Field(examples=["2026-11-16T08:00:00Z"])
    last_at: Moment = Field(examples=["2026-11-16T09:30:00Z"])
    last_job: str = Field(description="The public id of the last one.", examples=["htcx-2s16-z48b-09"])


class DeadLetterList(Shape):
    """One page of groups, the latest first; `next` is `after` of the next page, null on the last one."""

    groups: list[DeadLetterShape]
    next: str | None = Field(examples=["2026-11-16T09:30:00.123456+00:00~3f9a0c71be42"])


class Replay(Asked):
    """How fast failed jobs are given a new life, and why."""

    rate: str | None = Field(default=None, max_length=40, description="So many in a time.", examples=["50/s"])
    reason: Reason = None


PLAIN = Replay()


class ChosenJobs(Replay):
    """Which failed jobs; every condition that is given must hold, and one has to be given."""

    kind: str | None = Field(None, max_length=NAME, examples=["send_mail"])
    queue: str | None = Field(None, max_length=NAME, examples=["high"])
    error: str | None = Field(None, max_length=200, description="The class of the error.", examples=["ConnectionError"])
    since: Instant | None = Field(None, description="When they failed.", examples=["2026-11-16T08:00:00Z"])


def dead_letter_shape(group: DeadLetter) -> DeadLetterShape:
    """Show a group."""
    return DeadLetterShape(
        group=group.id,
        kind=group.kind,
        queue=group.queue,
        error_class=group.error_class,
        error=group.error,
        fingerprint=group.fingerprint,
        seen=group.seen,
        left=min(group.left, LEFT_CAP - 1),
        capped=group.left >= LEFT_CAP,
        first_at=group.first_at,
        last_at=group.last_at,
        last_job=public_id.encode(group.last_job),
    )


def cursor_text(cursor: DeadCursor | None) -> str | None:
    """Write where the next page begins."""
    return None if cursor is None else f"{cursor.last_at.isoformat()}{_MARK}{cursor.id}"


def read_cursor(text: str | None) -> DeadCursor | None:
    """Read where a page begins."""
    if text is None:
        return None
    moment, _, group = text.partition(_MARK)
    try:
        at = datetime.fromisoformat(moment.replace(" ", "+"))  # which an unescaped plus of an address has become
    except ValueError:
        at = None
    if at is None or at.tzinfo is None or not group:
        message = "after: expected `next` of the page before"
        raise InvalidValue(message)
    return DeadCursor(at, group)
