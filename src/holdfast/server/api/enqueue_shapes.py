"""What an enqueue is asked with, and answers."""

from typing import Annotated, Any

from pydantic import FailFast, Field

from holdfast import names
from holdfast.server.api.job_shapes import ID
from holdfast.server.api.parameters import NAME, Instant
from holdfast.server.api.shape import Asked, Shape
from holdfast.tasks.options import UsingOptions

MOST_JOBS = 1_000
_MOST_COUNT = 1_000_000

Length = Annotated[
    float | str,
    Field(union_mode="left_to_right", description='Seconds, or text like "90s", "5m", "1h 30m".', examples=["5m"]),
]
Key = Annotated[str, Field(min_length=1, max_length=names.KEY_BYTES)]


class EnqueueRequest(Asked):
    """A job to be; whatever is left out is as its task says.

    `unique` holds among live jobs of a kind; `unique_for` keeps it for at least so long. `key` is the idempotency key:
    the same request sent again finds its job for 24 hours. `timeout: null` sets no limit.
    """

    kind: str = Field(max_length=NAME, examples=["send_email"])
    args: dict[str, Any] = Field(
        default_factory=dict, examples=[{"to": "ada@example.org"}], description="The arguments of the task, by name."
    )
    queue: str | None = Field(None, max_length=NAME, examples=["default"])
    priority: int | None = Field(
        None,
        ge=names.HIGHEST_PRIORITY,
        le=names.LOWEST_PRIORITY,
        strict=True,
        examples=[5],
        description="0 goes first, 10 last.",
    )
    run_at: Instant | None = Field(None, examples=["2026-11-16T09:30:00Z"])
    delay: Length | None = Field(None, examples=["5m"])
    unique: Key | None = Field(None, examples=["welcome:17"])
    unique_for: Length | None = Field(None, examples=["1h"])
    key: Key | None = Field(None, examples=["order-17"])
    tags: dict[str, str] | None = Field(None, max_length=names.TAGS, examples=[{"customer": "17"}])
    actor: str | None = Field(None, min_length=1, max_length=names.ACTOR_BYTES, examples=["checkout"])
    max_attempts: int | None = Field(None, ge=1, le=_MOST_COUNT, strict=True, examples=[5])
    max_crashes: int | None = Field(None, ge=1, le=_MOST_COUNT, strict=True, examples=[3])
    timeout: Length | None = Field(None, examples=["5m"])
    webhook: str | None = Field(None, max_length=2_000, examples=["https://example.org/hooks/jobs"])
    estimate: float | str | None = Field(
        None, union_mode="left_to_right", examples=["$0.02"], description="What it may cost of its budget."
    )

    def options(self) -> UsingOptions:
        """What `using(...)` takes of it."""
        same = ("queue", "priority", "run_at", "unique", "unique_for", "key", "tags", "actor", "webhook", "estimate")
        given: dict[str, Any] = {name: getattr(self, name) for name in (*same, "max_attempts", "max_crashes")}
        given["run_in"] = self.delay
        chosen: UsingOptions = {}
        chosen.update({name: value for name, value in given.items() if value is not None})  # type: ignore[typeddict-item] # the names are those of UsingOptions
        if "timeout" in self.model_fields_set:
            chosen["timeout"] = self.timeout
        return chosen


class BatchRequest(Asked):
    """Jobs to be; each is stored or refused by itself."""

    jobs: Annotated[list[EnqueueRequest], FailFast()] = Field(  # or each of thousands would list its mistakes
        min_length=1,
        max_length=MOST_JOBS,
        examples=[[{"kind": "send_email", "args": {"to": "ada@example.org"}}]],
    )


class Refused(Shape):
    """Why a job of a batch was not stored; `type` and `detail` are those of a problem."""

    type: str = Field(examples=["urn:holdfast:arguments"])
    detail: str = Field(examples=["send_email: object missing required field `to`"])


class BatchAnswer(Shape):
    """What became of one job of a batch: `status` is 201 for a new one, 200 for one that was there, or an error's."""

    status: int = Field(examples=[201])
    id: str | None = Field(None, examples=[ID])
    error: Refused | None = None


class BatchAnswers(Shape):
    """What became of each job of a batch, in the order in which they were sent."""

    jobs: list[BatchAnswer]
    created: int = Field(examples=[1])
    refused: int = Field(examples=[0])
