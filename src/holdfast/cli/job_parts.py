"""The parts of a job's page that have several lines: phases, items, log lines, webhooks."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from holdfast import ages
from holdfast.cli import output
from holdfast.job import DeliveryRow, Job, LogLine
from holdfast.phases import JobPhase, PhaseState

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
_DELIVERY_STYLES = {"pending": "yellow", "delivered": "green", "failed": "red"}
_LEVEL_STYLES = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "red"}


def write(job: Job, now: datetime) -> None:
    """Print the parts that the job has."""
    if phases := job.phases:
        _title("phases")
        _write_phases(phases, now)
    if items := job.items:
        _title("items")
        for name, shape in items.items():
            _write_items(name, shape)
    if lines := job.logs:
        more = len(lines) - _LINES
        _title(f"log, the last {_LINES} of {len(lines)} lines; see jobs logs" if more > 0 else "log")
        write_lines(lines[-_LINES:], indent=2)
    if deliveries := job.deliveries:
        _title("webhooks")
        for delivery in deliveries:
            _write_delivery(delivery, now)


def _title(text: str) -> None:
    output.line("")
    output.styled((text, "bold"))


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
    if phase.ended_at is not None:
        return ages.span(phase.ended_at - phase.started_at)
    return f"since {ages.span(now - phase.started_at)}" if phase.state is PhaseState.RUNNING else ""


# ---- items ---------------------------------------------------------------------------------------------------------


def _write_items(name: str, shape: Mapping[str, Any]) -> None:
    output.line(f"  {name}  {counts(name, shape)}")
    for how, key in (("failed", "error"), ("skipped", "reason")):
        entries = list(shape.get(f"{name}_{how}", ()))
        for entry in entries[:_ITEMS]:
            told = " ".join(part for part in _words(entry, key) if part)
            output.styled((f"    {how:<7}  ", "red" if how == "failed" else "bright_black"), (told, ""))
        if len(entries) > _ITEMS:
            output.line(f"    {'':7}  and {len(entries) - _ITEMS} more; --json has all")


def counts(name: str, shape: Mapping[str, Any]) -> str:
    """Say how many items of a set have ended, and how."""
    ends = (("completed", "completed"), ("skipped", "skipped"), ("failed", "failed"), ("in_progress", "left"))
    parts = [f"{len(shape[f'{name}_{how}'])} {word}" for how, word in ends if shape[f"{name}_{how}"]]
    return f"{shape[f'{name}_total']} in all: {', '.join(parts)}"


def failures(job: Job) -> str:
    """Say how many items of each set failed."""
    sets = ((name, len(shape[f"{name}_failed"]), shape[f"{name}_total"]) for name, shape in job.items.items())
    return ", ".join(f"{name}: {failed} of {total} failed" for name, failed, total in sets if failed)


def _words(entry: Mapping[str, Any], key: str) -> Iterator[str]:
    """Say which item it is, and why it ended so."""
    yield next((str(value) for word, value in entry.items() if word != key), "")
    if entry.get(key):
        yield f"({entry[key]})"


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


def _write_delivery(delivery: DeliveryRow, now: datetime) -> None:
    # The query stays out: it is where people put their secrets.
    place, query, _ = delivery.url.partition("?")
    tries = "1 try" if delivery.tries == 1 else f"{delivery.tries} tries"
    if delivery.ended_at is not None:
        when = f"{tries}, {ages.stamp(delivery.ended_at)}"
    elif delivery.next_at is not None:
        when = f"{tries}, the next {ages.stamp(delivery.next_at)} ({ages.age(delivery.next_at, now)})"
    else:
        when = tries
    output.styled(
        (f"  {delivery.state:<9}", _DELIVERY_STYLES.get(delivery.state, "")),
        (f"  {delivery.event} of life {delivery.life} to {place}{'?...' if query else ''}", ""),
    )
    output.line(f"  {'':9}  {when}")
    if delivery.state != "delivered" and delivery.log and delivery.log[-1].error:
        output.line(f"  {'':9}  {delivery.log[-1].error}")
