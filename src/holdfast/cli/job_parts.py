"""The parts of a job's page that have several lines: phases, items, log lines, webhooks."""

from collections.abc import Sequence
from datetime import datetime

from holdfast import ages
from holdfast.cli import output
from holdfast.phases import PhaseState
from holdfast.resources.job import ItemSet, Job, JobPhase
from holdfast.resources.job_parts import JobItem, LogLine
from holdfast.resources.webhook import Delivery

_BAR = 20
_WHOLE = 100
_ITEMS = 10  # failed and skipped ones of each set
_LINES = 10
_STYLES = {
    PhaseState.PENDING: "bright_black",
    PhaseState.RUNNING: "yellow",
    PhaseState.COMPLETED: "green",
    PhaseState.FAILED: "red",
    PhaseState.CANCELLED: "bright_black",
}
_WEBHOOK_STYLES = {"pending": "yellow", "delivered": "green", "failed": "red"}
_LEVEL_STYLES = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "red"}


def write(job: Job, items: Sequence[JobItem], lines: Sequence[LogLine], now: datetime) -> None:
    """Print the parts that the job has."""
    if phases := job.phases:
        output.title("phases")
        _write_phases(phases, now)
    if job.items:
        output.title("items")
        for name, counts in job.items.items():
            _write_items(name, counts, items)
    if lines:
        more = len(lines) - _LINES
        output.title(f"log, the last {_LINES} of {len(lines)} lines; see jobs logs" if more > 0 else "log")
        write_lines(lines[-_LINES:], indent=2)
    if job.webhooks:
        output.title("webhooks")
        for message in job.webhooks:
            _write_webhook(message, now)


# ---- phases --------------------------------------------------------------------------------------------------------


def _write_phases(phases: Sequence[JobPhase], now: datetime) -> None:
    longest = max(len(output.one_line(phase.name)) for phase in phases)
    for phase in phases:
        bar, percent = _bar(phase)
        told = " ".join(part for part in (_took(phase, now), phase.message or "") if part)
        rest = f"  {bar} {percent}  {told}".rstrip()
        output.styled(
            (f"  {output.one_line(phase.name):<{longest}}  ", ""),
            (f"{phase.state:<9}" if rest else phase.state, _STYLES[phase.state]),
            (rest, ""),
        )
        if phase.error is not None:
            output.styled((f"  {'':{longest}}  {phase.error}", "red"))


def _bar(phase: JobPhase) -> tuple[str, str]:
    """Draw how far a phase is; one that has not begun, or does not say it, gets none."""
    if phase.percent is None:
        return " " * (_BAR + 2), " " * 5
    full = int(phase.percent * _BAR / _WHOLE)
    return f"[{'#' * full}{'.' * (_BAR - full)}]", f"{phase.percent:3.0f} %"


def _took(phase: JobPhase, now: datetime) -> str:
    if phase.started_at is None:
        return ""
    if phase.finished_at is not None:
        return ages.span(phase.finished_at - phase.started_at)
    return f"since {ages.span(now - phase.started_at)}" if phase.state is PhaseState.RUNNING else ""


# ---- items ---------------------------------------------------------------------------------------------------------


def _write_items(name: str, counts: ItemSet, items: Sequence[JobItem]) -> None:
    output.line(f"  {name}  {_counts(counts)}")
    for state in ("failed", "skipped"):
        listed = [item for item in items if (item.set, item.state) == (name, state)]
        for item in listed[:_ITEMS]:
            note = f" ({item.note})" if item.note else ""
            output.styled(
                (f"    {state:<7}  ", "red" if state == "failed" else "bright_black"), (f"{item.key}{note}", "")
            )
        if len(listed) > _ITEMS:
            output.line(f"    {'':7}  and {len(listed) - _ITEMS} more; `jobs items` has all")


def _counts(counts: ItemSet) -> str:
    """Say how many items of a set have finished, and how."""
    ends = ((counts.completed, "completed"), (counts.skipped, "skipped"), (counts.failed, "failed"))
    parts = [f"{number} {word}" for number, word in (*ends, (counts.in_progress, "left")) if number]
    return f"{counts.total} in all: {', '.join(parts)}"


def failures(job: Job) -> str:
    """Say how many items of each set failed."""
    sets = ((name, counts.failed, counts.total) for name, counts in job.items.items())
    return ", ".join(f"{name}: {failed} of {total} failed" for name, failed, total in sets if failed)


# ---- log -----------------------------------------------------------------------------------------------------------


def write_lines(lines: Sequence[LogLine], *, indent: int = 0) -> None:
    """Print log lines for a person; where there are several claims, each begins with its number."""
    claims = {line.claim for line in lines}
    last: int | None = None
    for line in lines:
        if len(claims) > 1 and line.claim != last:
            output.styled((f"{'':{indent}}claim {line.claim}", "bright_black"))
            last = line.claim
        output.styled(
            (f"{'':{indent}}{ages.stamp(line.at)}  ", "bright_black"),
            (f"{line.level:<7}", _LEVEL_STYLES.get(line.level, "")),
            (f"  {line.text}", ""),
        )


# ---- webhooks ------------------------------------------------------------------------------------------------------


def _write_webhook(message: Delivery, now: datetime) -> None:
    tries = "1 try" if message.tries == 1 else f"{message.tries} tries"
    if message.finished_at is not None:
        when = f"{tries}, {ages.stamp(message.finished_at)}"
    elif message.next_at is not None:
        when = f"{tries}, the next {ages.stamp(message.next_at)} ({ages.age(message.next_at, now)})"
    else:
        when = tries
    output.styled(
        (f"  {message.state:<9}", _WEBHOOK_STYLES.get(message.state, "")),
        (f"  {message.event} of run {message.run} to {message.url}", ""),
    )
    output.line(f"  {'':9}  {when}")
    if message.state != "delivered" and message.log and message.log[-1].error:
        output.line(f"  {'':9}  {message.log[-1].error}")
