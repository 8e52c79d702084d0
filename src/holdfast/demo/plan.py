"""What the demo stores, and how it has to end."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.demo import app as shop
from holdfast.job import JobState
from holdfast.resources.job import Job
from holdfast.tasks.call import Call

KILLED_IN = "export"
"""The kind of job in the middle of which a worker process is killed."""

QUIET = frozenset({"thumbnail", "send_mail", "print_label", "describe_photo"})
"""Kinds of which there are so many that a line for each would hide the others."""

_PARTLY = JobState.COMPLETED_WITH_ERRORS
_RESCUED, _SNOOZED = frozenset({"crash", "interrupt"}), frozenset({"snooze"})


@dataclass(frozen=True)
class Planned:
    """A job, and how it has to end: in which state, after how many attempts."""

    call: Call[Any]
    state: JobState = JobState.COMPLETED
    attempts: int = 1
    is_snoozed: bool = False


def jobs() -> list[Planned]:
    """List what is stored at the beginning."""
    return [
        *(Planned(shop.thumbnail.call(number=number)) for number in range(200)),
        *(Planned(shop.send_mail.call(to=f"customer-{number}@example.org")) for number in range(60)),
        *(Planned(shop.print_label.call(order=order)) for order in range(16)),
        *(Planned(shop.charge_card.call(order=order, works_on=3), attempts=3) for order in (17, 18)),
        Planned(shop.charge_card.call(order=19, works_on=2), attempts=2),
        Planned(shop.call_courier.call(order=20), JobState.FAILED, attempts=2),
        Planned(shop.refund.call(order=21), JobState.FAILED),
        *(Planned(shop.export.call(year=year)) for year in (2023, 2024, 2025)),
        *(Planned(shop.checksum.call(rounds=rounds)) for rounds in (100_000, 120_000)),
        *(Planned(shop.ImportCatalogue(supplier=name).call(), _PARTLY) for name in ("acme", "birch")),
        *(Planned(shop.describe_photo.call(photo=f"{number}.jpg")) for number in range(10)),
        Planned(shop.await_stock.call(), is_snoozed=True),
        Planned(shop.clean_up.call(folder="outbox")),
    ]


def more(number: int) -> list[Call[Any]]:
    """List what is stored now and then while somebody looks on: some of everything."""
    calls: list[Call[Any]] = [shop.thumbnail.call(number=number * 5 + one) for one in range(5)]
    calls.append(shop.send_mail.call(to=f"customer-{number}@example.org"))
    every: tuple[tuple[int, Call[Any]], ...] = (
        (2, shop.print_label.call(order=number)),
        (3, shop.charge_card.call(order=number, works_on=2)),
        (4, shop.ImportCatalogue(supplier=f"supplier-{number}").call()),
        (5, shop.export.call(year=2000 + number % 25)),
        (7, shop.call_courier.call(order=number)),
    )
    return calls + [call for often, call in every if number % often == 0]


def unwanted() -> Planned:
    """Give a job that waits for tomorrow, and is cancelled before."""
    return Planned(shop.export.using(delay="1d").call(year=2026), JobState.CANCELLED, attempts=0)


@dataclass(frozen=True)
class Summary:
    """What became of all jobs."""

    ended: Mapping[JobState, int]
    retried: int
    rescued: int
    snoozed: int
    problems: tuple[str, ...]


def summarise(planned: Mapping[str, Planned], found: Mapping[str, Job]) -> Summary:
    """Compare what happened with what was planned."""
    jobs_found = list(found.values())
    states = [job.state for job in jobs_found if job.is_finished]
    return Summary(
        ended={state: states.count(state) for state in JobState if state in states},
        retried=sum(job.attempt > 1 for job in jobs_found),
        rescued=sum(is_rescued(job) for job in jobs_found),
        snoozed=sum(_had(job, _SNOOZED) for job in jobs_found),
        problems=tuple(_problems(planned, found)),
    )


def is_rescued(job: Job) -> bool:
    """Whether the job was begun by a process that died, and given back."""
    return _had(job, _RESCUED)


def _had(job: Job, outcomes: frozenset[str]) -> bool:
    return any(attempt.outcome in outcomes for attempt in job.attempts)


def _problems(planned: Mapping[str, Planned], found: Mapping[str, Job]) -> list[str]:
    problems: list[str] = []
    for job_id, plan in planned.items():
        job = found.get(job_id)
        if job is None:
            problems.append(f"job {job_id} ({plan.call.kind}) is gone")
            continue
        name = f"job {job.id} ({job.kind})"
        if job.state is not plan.state:
            problems.append(f"{name}: expected {plan.state}, got {job.state}")
        elif job.attempt != plan.attempts:
            problems.append(f"{name}: expected {plan.attempts} attempts, got {job.attempt}")
        elif plan.is_snoozed and not _had(job, _SNOOZED):
            problems.append(f"{name}: expected to be snoozed, and it was not")
    return problems
