"""What operators ask of a store, and the answers: backlog, active work, items, errors, throughput, slow jobs."""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec

from holdfast.job import TERMINAL, JobState

WITHIN_S = 5.0
LISTED = 10_000
SLOW = timedelta(minutes=10)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ERRORS = (JobState.FAILED, JobState.COMPLETED_WITH_ERRORS)


class ActiveJobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job that runs; `items` counts those of each set by state."""

    id: int
    kind: str
    queue: str
    org: str | None
    project: str | None
    phase: str | None
    percent: float | None
    host: str | None
    since_ms: int
    items: dict[str, dict[str, int]] | None

    @property
    def since(self) -> datetime:
        """When its handler began, or else when it was taken."""
        return _EPOCH + timedelta(milliseconds=self.since_ms)


class OperatorAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """The answers of one moment, `at`.

    `backlog` counts the jobs that wait, by kind. `running` and `slow` are counts; `active` lists the 10,000 jobs that
    run longest. `finished` counts jobs that finished in the last hour by state, `completed` those that completed by
    organisation. For each no more than 10,000 jobs are looked at; `capped` names the answers that mean "this many or
    more": `backlog`, `running` (and with it `active` and `slow`), `completed`. Where more jobs have finished than were
    looked at, `finished` is what workers have counted, by the minute.
    """

    at: datetime
    backlog: dict[str, int]
    running: int
    slow: int
    active: list[ActiveJobRow]
    finished: dict[JobState, int]
    completed: dict[str | None, int]
    capped: frozenset[str] = frozenset()

    @property
    def errors(self) -> int:
        """How many of the jobs that finished failed, wholly or in part."""
        return sum(self.finished.get(state, 0) for state in ERRORS)


def answers(rows: Iterable[tuple[str, str | None, int | None, str | None]], most: int) -> OperatorAnswers:
    """Put the rows of a store together: a question, a name, a number, and JSON; one more than `most` was looked at."""
    numbers = {"at": 0, "active": 0, "slow": 0}
    looked: dict[str, int] = {}
    backlog: Counter[str] = Counter()
    finished: Counter[JobState] = Counter()
    counted: dict[JobState, int] = {}
    completed: Counter[str | None] = Counter()
    active: list[ActiveJobRow] = []
    for question, name, number, detail in rows:
        if question == "backlog":
            backlog[name or ""] += number or 0
        elif question == "looked":
            looked[name or ""] = number or 0
        elif question == "finished":
            state = JobState(name or "")
            finished[state] += number or 0
            if state is JobState.COMPLETED:
                completed[detail] += number or 0
        elif question == "counted":
            counted[JobState(name or "")] = number or 0
        elif question == "job":
            active.append(msgspec.json.decode(detail or "", type=ActiveJobRow))
        else:
            numbers[question] = number or 0
    capped = frozenset(question for question, jobs in looked.items() if jobs > most)
    return OperatorAnswers(
        at=_EPOCH + timedelta(milliseconds=numbers["at"]),
        backlog=dict(backlog.most_common()),
        running=min(numbers["active"], most),
        slow=min(numbers["slow"], most),
        active=sorted(active, key=lambda job: job.since_ms),
        finished=dict(finished) if "completed" not in capped else _ends(counted),
        completed=dict(completed.most_common()),
        capped=capped,
    )


def _ends(counted: dict[JobState, int]) -> dict[JobState, int]:
    """Leave out what was not the end of a job: workers count the tries that are made again too."""
    return {state: jobs for state, jobs in counted.items() if state in TERMINAL}


def too_slow(within_s: float) -> str:
    """Say that the time was not enough, and what to do."""
    return (
        f"stats: the store could not count everything within {within_s:g} s, and nothing was changed; ask again when "
        "it has less to do, or read `holdfast queues list`, which counts to a bound"
    )
