"""What operators ask first, as the client, the HTTP API and the command line answer it."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from holdfast.about import About
from holdfast.job import JobState
from holdfast.resources.examples import JOB_ID, MOMENT
from holdfast.resources.job import ItemSet

ORG_TAG, PROJECT_TAG = "org_id", "project_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class KindBacklog:
    """How many jobs of a kind wait."""

    kind: Annotated[str, About("The kind.", "send_email")]
    jobs: Annotated[int, About("How many of its jobs wait, in whatever state.", 128)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveJob:
    """A job that runs: where, since when, and how far it is."""

    id: Annotated[str, About("Its public id.", JOB_ID)]
    kind: Annotated[str, About("Its kind.", "import_catalogue")]
    queue: Annotated[str, About("Its queue.", "default")]
    org: Annotated[str | None, About("The organisation that its tag names.", "acme")] = None
    project: Annotated[str | None, About("The project that its tag names.", "7")] = None
    phase: Annotated[str | None, About("The phase that it is in.", "import")] = None
    percent: Annotated[float | None, About("How much of it is done.", 42.0)] = None
    host: Annotated[str | None, About("The machine that it runs on.", "worker-1")] = None
    since: Annotated[datetime, About("When its handler was called, or else when a worker took it.", MOMENT)]
    items: Annotated[
        dict[str, ItemSet],
        About(
            "Its sets of items, and how many of each have finished how.",
            {"pages": {"total": 4, "completed": 2, "skipped": 1, "failed": 1, "in_progress": 0}},
        ),
    ] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveJobs:
    """How many jobs there are, and the 10,000 of them that run longest."""

    count: Annotated[int, About("How many there are.", 3)]
    jobs: list[ActiveJob]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCount:
    """How many of the jobs that finished in the last hour failed, wholly or in part."""

    jobs: Annotated[int, About("How many failed or completed with errors.", 2)]
    finished: Annotated[int, About("How many finished.", 4_096)]
    by_state: Annotated[
        dict[JobState, int], About("How many finished in which state.", {"completed": 4_094, "failed": 2})
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrgThroughput:
    """How many jobs of an organisation completed in the last hour."""

    org: Annotated[str | None, About("The organisation that the tag names; null for jobs without that tag.", "acme")]
    jobs: Annotated[int, About("How many completed.", 2_048)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """What operators ask first, at one moment; of each, at most 10,000 jobs are looked at."""

    at: Annotated[datetime, About("The moment.", MOMENT)]
    backlog: Annotated[list[KindBacklog], About("The jobs that wait, by kind; the most come first.")]
    active: Annotated[ActiveJobs, About("The jobs that run, the longest first.")]
    items: Annotated[list[ActiveJob], About("Of the jobs that run, those that work through items.")]
    errors: Annotated[ErrorCount, About("The jobs that failed in the last hour.")]
    throughput: Annotated[list[OrgThroughput], About("The jobs that completed in the last hour, by organisation.")]
    slow: Annotated[ActiveJobs, About("The jobs that have been running for more than 10 minutes.")]
    capped: Annotated[
        list[str], About('The answers that mean "this many or more": active, backlog, throughput.', ["throughput"])
    ]
