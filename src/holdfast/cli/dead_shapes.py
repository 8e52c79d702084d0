"""What `--json` prints of dead letters and bulk runs; the rules are those of `shapes`."""

from datetime import datetime
from typing import Any

import msgspec

from holdfast import public_id
from holdfast.stores.bulk import COUNT_CAP, BulkRun
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


class BulkShape(msgspec.Struct, frozen=True, kw_only=True):
    """Each entry of `bulk list --json`, and what a command prints that starts a run; `which` holds the conditions."""

    run: int
    verb: str
    state: str
    which: dict[str, Any]
    priority: int | None
    run_at: datetime | None
    delay_ms: int | None
    actor: str | None
    reason: str | None
    expected: int
    expected_capped: bool
    done: int
    refused: int
    per_second: float | None
    started_at: datetime
    ended_at: datetime | None
    errors: int
    error: str | None


class PreviewShape(msgspec.Struct, frozen=True):
    """What a command on many jobs prints with `--json` when it starts no run: how many jobs fit, or more if capped."""

    verb: str
    jobs: int
    capped: bool


class BulkRunsShape(msgspec.Struct, frozen=True):
    """`bulk list --json`."""

    runs: list[BulkShape]


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


def bulk_run(run: BulkRun) -> BulkShape:
    """Describe a run."""
    given = msgspec.to_builtins(run.which)
    return BulkShape(
        run=run.id,
        verb=run.verb.value,
        state=run.state.value,
        which={name: value for name, value in given.items() if value not in (None, [], ())},
        priority=run.priority,
        run_at=None if run.due is None else run.due.run_at,
        delay_ms=None if run.due is None else run.due.delay_ms,
        actor=run.actor,
        reason=run.reason,
        expected=min(run.expected, COUNT_CAP - 1),
        expected_capped=run.expected >= COUNT_CAP,
        done=run.done,
        refused=run.refused,
        per_second=1_000_000 / run.spacing_us if run.spacing_us else None,
        started_at=run.started_at,
        ended_at=run.ended_at,
        errors=run.errors,
        error=run.error,
    )
