"""An event: something that happened to a job or to a queue."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated, Any, Self

from holdfast import payload
from holdfast.about import About
from holdfast.events import EventType
from holdfast.job import JobState
from holdfast.resources.examples import JOB_ID, MOMENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened to a job, or to a queue as a whole; it was committed before anyone hears of it.

    The events of one job come in the order in which they happened.
    """

    type: Annotated[EventType, About("What happened.", "job:progress")]
    id: Annotated[str | None, About("The job; null where it happened to a queue.", JOB_ID)] = None
    at: Annotated[datetime, About("When it happened.", MOMENT)]
    kind: Annotated[str, About("The kind of the job; empty where it happened to a queue.", "import")] = ""
    queue: Annotated[str, About("The queue.", "high")]
    state: Annotated[
        JobState | None, About("Where the job stands now; null where it happened to a queue.", "running")
    ] = None
    run: Annotated[int, About("The run of the job: 1, and one more for each retry by hand.", 1)] = 0
    claim: Annotated[int, About("The claim of the job.", 1)] = 0
    attempt: Annotated[int, About("The attempt of the job.", 1)] = 0
    data: Annotated[
        dict[str, Any],
        About(
            "What there is to say beyond the state: an error, how far a handler is, which phase has finished.",
            {"percent": 40.0},
            quotes=True,
        ),
    ] = field(default_factory=dict)

    def redacted(self) -> Self:
        """Cover what a task calls secret."""
        data = payload.covered(self.data)
        return self if data == self.data else replace(self, data=data)
