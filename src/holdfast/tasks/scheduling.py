"""`@app.schedule`: what stands above a task and says when it runs by itself."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar, Unpack

from holdfast.errors import ConfigError
from holdfast.schedules import PlanOptions, Schedule
from holdfast.tasks.pipeline import Pipeline
from holdfast.tasks.task import Task

Scheduled = TypeVar("Scheduled")

ELSEWHERE = "HOLDFAST_SCHEDULES_ELSEWHERE"
"""Names the schedules, with commas in between, that something outside fires: a CronJob for each of them."""


class ScheduleOptions(PlanOptions, total=False):
    """What `@app.schedule` takes; see `Schedule`."""

    name: str
    args: Mapping[str, Any]


class ScheduleDefinitions(dict[str, Schedule]):
    """The schedules that one program defines, by name; `configured` is what its file says of them.

    One that the file describes whole needs no code; what it says of others lies over what code says.
    """

    def __init__(self, configured: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        super().__init__()
        self._configured = dict(configured or {})
        self._of_code: set[str] = set()
        for name, fields in self._configured.items():
            if "cron" in fields or "every" in fields:
                self[name] = _unless_elsewhere(Schedule(**{"name": name, "kind": name, **fields}))

    def add(self, schedule: Schedule) -> None:
        """Take one more; its name must be its own."""
        if schedule.name in self._of_code:
            message = f"schedule {schedule.name!r} is defined twice; names are compared without case, give one of them"
            message += ' another: @app.schedule(name="...")'
            raise ConfigError(message)
        self._of_code.add(schedule.name)
        fields = dict(self._configured.get(schedule.name, {}))
        if "cron" in fields or "every" in fields:  # one takes the place of the other
            fields = {"cron": None, "every": None, **fields}
        self[schedule.name] = _unless_elsewhere(replace(schedule, **fields) if fields else schedule)

    def decorator(self, **options: Unpack[ScheduleOptions]) -> Callable[[Scheduled], Scheduled]:
        """Schedule what is decorated; without a name of its own a schedule has that of its task."""

        def schedule(task: Scheduled) -> Scheduled:
            kind = _kind_of(task)
            named: ScheduleOptions = {"name": kind, **options}
            self.add(Schedule(kind=kind, **named))
            return task

        return schedule


def _unless_elsewhere(schedule: Schedule) -> Schedule:
    elsewhere = [name.strip().lower() for name in os.environ.get(ELSEWHERE, "").split(",")]
    return replace(schedule, enabled=False) if schedule.name in elsewhere else schedule


def _kind_of(task: object) -> str:
    if isinstance(task, Task):
        return task.kind
    if isinstance(task, type) and issubclass(task, Pipeline):
        return task.registered().kind
    message = f"@app.schedule: expected a task, got {task!r}; write it above @app.task"
    raise ConfigError(message)
