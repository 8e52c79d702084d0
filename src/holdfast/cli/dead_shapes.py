"""What `--json` prints of dead letters; the rules are those of `shapes`."""

from datetime import datetime

import msgspec

from holdfast import public_id
from holdfast.stores.failures import LEFT_CAP, DeadLetter

CAP = LEFT_CAP - 1


class DeadLetterShape(msgspec.Struct, frozen=True, kw_only=True):
    """Each entry of `dlq list --json`; `capped` says that there are more jobs left than were counted."""

    group: str
    kind: str
    queue: str
    error_class: str | None
    error: str | None
    fingerprint: str
    seen: int
    left: int
    capped: bool
    first_at: datetime
    last_at: datetime
    last_id: str
    last_public_id: str


class DeadLettersShape(msgspec.Struct, frozen=True):
    """`dlq list --json`; `next` is the cursor for `--after`, null on the last page."""

    groups: list[DeadLetterShape]
    next: str | None


class ExportedShape(msgspec.Struct, frozen=True):
    """`dlq export --json` and `jobs export --json`, printed beside the file."""

    exported: int


def dead_letter(group: DeadLetter) -> DeadLetterShape:
    """Describe a group."""
    return DeadLetterShape(
        group=group.id,
        kind=group.kind,
        queue=group.queue,
        error_class=group.error_class,
        error=group.error,
        fingerprint=group.fingerprint,
        seen=group.seen,
        left=min(group.left, CAP),
        capped=group.left >= LEFT_CAP,
        first_at=group.first_at,
        last_at=group.last_at,
        last_id=str(group.last_job),
        last_public_id=public_id.encode(group.last_job),
    )
