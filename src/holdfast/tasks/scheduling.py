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


class Schedules(dict[str, Schedule]):
    """The schedules that one program defines, by name."""

    def add(self, schedule: Schedule) -> None:
        """Take one more; its name must be its own."""
        if schedule.name in self:
            message = f"schedule {schedule.name!r} is defined twice; names are compared without case, give one of them"
            message += ' another: @app.schedule(name="...")'
            raise ConfigError(message)
        elsewhere = [name.strip().lower() for name in os.environ.get(ELSEWHERE, "").split(",")]
        self[schedule.name] = replace(schedule, enabled=False) if schedule.name in elsewhere else schedule

    def decorator(self, **options: Unpack[ScheduleOptions]) -> Callable[[Scheduled], Scheduled]:
        """Schedule what is decorated; without a name of its own a schedule has that of its task."""

        def schedule(task: Scheduled) -> Scheduled:
            kind = _kind_of(task)
            named: ScheduleOptions = {"name": kind, **options}
            self.add(Schedule(kind=kind, **named))
            return task

        return schedule


def _kind_of(task: object) -> str:
    if isinstance(task, Task):
        return task.kind
    if isinstance(task, type) and issubclass(task, Pipeline):
        return task.registered().kind
    message = f"@app.schedule: expected a task, got {task!r}; write it above @app.task"
    raise ConfigError(message)
