"""What an enqueue asks for, one job or many at once, and what it answers."""

from dataclasses import dataclass, field
from typing import Annotated, Any

from holdfast import names
from holdfast.about import About
from holdfast.resources.examples import JOB_ID, MOMENT
from holdfast.resources.request import DEFAULT, LENGTH, Instant, Length, Request

MOST_JOBS = 1_000
_NAME_BYTES = 64
_MOST_COUNT = 1_000_000
_COUNT = {"ge": 1, "le": _MOST_COUNT, "strict": True}
_KEY = {"min_length": 1, "max_length": names.KEY_BYTES}
_PRIORITY = {"ge": names.HIGHEST_PRIORITY, "le": names.LOWEST_PRIORITY, "strict": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueueRequest(Request):
    """A new job; what is left out is as its task says."""

    kind: Annotated[str, About("The kind: the name of the task.", "send_email")] = field(
        metadata={"max_length": _NAME_BYTES}
    )
    args: Annotated[dict[str, Any], About("The arguments of the task, by name.", {"to": "ada@example.org"})] = field(
        default_factory=dict
    )
    queue: Annotated[str | None, About("Another queue, where its task allows that.", "default")] = field(
        default=None, metadata={"max_length": _NAME_BYTES}
    )
    priority: Annotated[int | None, About("0 goes first, 10 last.", 5)] = field(default=None, metadata=_PRIORITY)
    run_at: Annotated[Instant | None, About("When it may run.", MOMENT)] = field(default=None)
    delay: Annotated[Length | None, About('How much later it runs: seconds, or text like "90s", "1h 30m".', "5m")] = (
        field(default=None, metadata=LENGTH)
    )
    unique: Annotated[str | None, About("No other live job of its kind may have this key.", "welcome:17")] = field(
        default=None, metadata=_KEY
    )
    unique_for: Annotated[Length | None, About("Hold the unique key at least so long.", "1h")] = field(
        default=None, metadata=LENGTH
    )
    key: Annotated[
        str | None, About("Its idempotency key: the same request sent again finds its job for 24 hours.", "order-17")
    ] = field(default=None, metadata=_KEY)
    tags: Annotated[dict[str, str] | None, About("Its tags.", {"customer": "17"})] = field(
        default=None, metadata={"max_length": names.TAGS}
    )
    actor: Annotated[str | None, About("On whose behalf it runs.", "checkout")] = field(
        default=None, metadata={"min_length": 1, "max_length": names.ACTOR_BYTES}
    )
    max_attempts: Annotated[int | None, About("After how many attempts it fails.", 5)] = field(
        default=None, metadata=_COUNT
    )
    max_crashes: Annotated[int | None, About("After how many crashes it fails.", 3)] = field(
        default=None, metadata=_COUNT
    )
    timeout: Annotated[
        Length | None, About('How long an attempt may take; null sets no limit, "default" is as its task says.', "5m")
    ] = field(default=DEFAULT, metadata=LENGTH)
    webhook: Annotated[str | None, About("Where its end is posted.", "https://example.org/hooks/jobs")] = field(
        default=None, metadata={"max_length": 2_000}
    )
    estimate: Annotated[float | str | None, About("What it may cost of its budget.", "$0.02")] = field(
        default=None, metadata=LENGTH
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest(Request):
    """New jobs; each is stored or refused by itself."""

    jobs: Annotated[
        list[EnqueueRequest], About("The jobs.", [{"kind": "send_email", "args": {"to": "ada@example.org"}}])
    ] = field(metadata={"min_length": 1, "max_length": MOST_JOBS, "fail_fast": True})


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchError:
    """Why a job of a batch was not stored; `type` and `detail` are those of a problem."""

    type: Annotated[str, About("The type of the problem.", "urn:holdfast:arguments")]
    detail: Annotated[
        str, About("What was expected, and what came.", "send_email: object missing required field `to`", quotes=True)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAnswer:
    """What became of one job of a batch."""

    status: Annotated[int, About("201 for a new job, 200 for one that was there, or the status of an error.", 201)]
    id: Annotated[str | None, About("The job.", JOB_ID)] = None
    error: Annotated[BatchError | None, About("Why it was refused.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAnswers:
    """What became of each job of a batch, in the order in which they were sent."""

    jobs: list[BatchAnswer]
    created: Annotated[int, About("How many are new.", 1)]
    refused: Annotated[int, About("How many were refused.", 0)]
