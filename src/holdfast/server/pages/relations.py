"""What a job belongs to, and what came of it: other jobs, its schedule, its keys."""

from dataclasses import dataclass

from holdfast.client.relatives import MOST, Relatives, relatives
from holdfast.filtering import Term
from holdfast.resources.job import Job
from holdfast.server.scoped.client import ScopedClient
from holdfast.stores.values import JobFilter
from holdfast.telemetry.redaction import COVER


@dataclass(frozen=True)
class Relation:
    """What a job belongs to: a word, a name, and the page of it, or the filter for all that belong to it.

    `job` is the job that it is, `note` what else there is to say.
    """

    title: str
    name: str
    path: tuple[str, ...] = ()
    asked: str = ""
    job: Job | None = None
    note: str = ""


@dataclass(frozen=True)
class Offspring:
    """Jobs that came of one: a word, the newest of them, and the filter for all."""

    title: str
    found: Relatives
    asked: str


async def relations(client: ScopedClient, job: Job) -> list[Relation]:
    """Tell what a job belongs to."""
    found = await _ancestors(client, job)
    if job.schedule is not None:
        found.append(Relation("schedule", job.schedule, ("schedules", job.schedule)))
    if job.unique_key is not None:
        found.append(Relation("unique key", job.unique_key, asked=Term("unique", (job.unique_key,)).text()))
    # An address that quotes a secret would show it.
    if job.error_fingerprint is not None and COVER not in job.error_fingerprint:
        same = f"{Term('error', (job.error_fingerprint,)).text()} {Term('kind', (job.kind,)).text()}"
        found.append(Relation("same error", "all jobs that have it", asked=same))
    if job.fire_time is not None:
        found.append(Relation("fire time", f"{job.fire_time:%Y-%m-%d %H:%M:%S} UTC"))
    for title, key in (("idempotency key", job.key), ("in order of", job.fifo_key), ("trace", job.trace)):
        if key is not None:
            found.append(Relation(title, key))
    return found


async def offspring(client: ScopedClient, job: Job) -> list[Offspring]:
    """Find what its handler enqueued and its changed copies, as far as they may see it."""
    asked = (
        ("Children", "parent", JobFilter(parent=job.number)),
        ("Cloned as", "origin", JobFilter(origin=job.number)),
    )
    found = []
    for title, term, which in asked:
        page = await client.jobs.search(which, limit=MOST)
        if page.jobs:
            found.append(Offspring(title, relatives(page), Term(term, (job.id,)).text()))
    return found


async def _ancestors(client: ScopedClient, job: Job) -> list[Relation]:
    """Name the jobs that it came of; one that is not kept any more has no page."""
    named = {title: other for title, other in (("copy of", job.origin), ("parent", job.parent)) if other is not None}
    there = await client.jobs.get_many(list(named.values())) if named else {}
    found = []
    for title, other in named.items():
        if (seen := there.get(other)) is not None:
            found.append(Relation(title, other, ("jobs", other), job=seen))
        else:
            found.append(Relation(title, other, note="not kept any more"))
    return found
