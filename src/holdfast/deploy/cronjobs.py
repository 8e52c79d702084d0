"""A CronJob for each schedule, for those who want Kubernetes to keep the time."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from cronsim import CronSim

from holdfast import payload
from holdfast.cron import Times, read_times
from holdfast.deploy.pods import Manifest, container, literal, metadata, pod
from holdfast.deploy.values import CronJobValues, Values
from holdfast.errors import InvalidValue

LONGEST_NAME = 52
"""Kubernetes puts the time behind a CronJob's name, and the result must be a label."""

_FIELDS = 5
_SOME_DAY = datetime(1970, 1, 1)  # noqa: DTZ001 - a line is parsed without a zone
_NOTHING = CronJobValues()
_UNSAFE = re.compile(r"[^a-z0-9]+")


class Scheduled(Protocol):
    """A schedule, as far as it concerns a cluster."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def kind(self) -> str:
        """The task that it enqueues."""

    @property
    def args(self) -> Mapping[str, Any]:
        """The arguments of the task."""

    @property
    def times(self) -> Times:
        """When it fires."""

    @property
    def overlap(self) -> str:
        """What becomes of a fire while an earlier job is not finished."""

    @property
    def enabled(self) -> bool:
        """Whether it fires at all."""


def cronjobs(values: Values, schedules: Sequence[Scheduled], environment: Sequence[Manifest]) -> list[Manifest]:
    """Make a CronJob for each schedule."""
    known = {schedule.name for schedule in schedules}
    for name in values.cronjobs:
        if name not in known:
            message = (
                f"cronjobs: expected a schedule of the app ({', '.join(sorted(known)) or 'it has none'}), got {name!r}"
            )
            raise InvalidValue(message)
    found: dict[str, str] = {}
    manifests = []
    for schedule in schedules:
        name = _cronjob_name(values, schedule.name)
        if name in found:
            message = f"schedules {found[name]!r} and {schedule.name!r} would both be the CronJob {name}; rename one"
            raise InvalidValue(message)
        found[name] = schedule.name
        manifests.append(_cronjob(values, schedule, name, environment))
    return manifests


def _cronjob(values: Values, schedule: Scheduled, name: str, environment: Sequence[Manifest]) -> Manifest:
    chosen = values.cronjobs.get(schedule.name, _NOTHING)
    times = schedule.times
    if chosen.schedule is not None:
        times = read_times(cron=chosen.schedule, tz=times.hours.tz)
    suspended = not schedule.enabled if chosen.suspend is None else chosen.suspend
    job_name = {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/job-name']"}}
    own = [*environment, {"name": "JOB_NAME", "valueFrom": job_name}]
    spec = pod([container(values, "enqueue", _arguments(schedule), own)], restartPolicy="OnFailure")
    head = metadata(values, name, "schedule")
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": head,
        "spec": {
            "schedule": _line(schedule.name, times),
            "timeZone": times.hours.tz,
            "suspend": suspended,
            "concurrencyPolicy": "Allow",  # it only enqueues, so one that hangs must not keep the next one waiting
            "startingDeadlineSeconds": 600,
            "successfulJobsHistoryLimit": 1,
            "failedJobsHistoryLimit": 3,
            "jobTemplate": {
                "metadata": {"labels": head["labels"]},
                "spec": {
                    "backoffLimit": 6,
                    "activeDeadlineSeconds": 600,
                    "template": {"metadata": {"labels": head["labels"]}, "spec": spec},
                },
            },
        },
    }


def _arguments(schedule: Scheduled) -> list[str]:
    """What the pod runs; the key is the Job's name, so that a pod that is started again finds what it stored before."""
    arguments = ["enqueue", schedule.kind]
    if schedule.args:
        encoded = payload.encode(schedule.args, f"schedule {schedule.name!r}: args")
        if payload.secrets_in(schedule.args):  # guard: cronjob-secret
            raise _refused(schedule.name, "a secret argument, which all could read", "let the task read it itself")
        arguments += ["--args", literal(encoded)]
    if schedule.overlap == "cancel":
        raise _refused(schedule.name, 'overlap="cancel"', 'choose "skip" or "queue"')
    if schedule.overlap == "skip":
        arguments += ["--unique", f"schedule:{schedule.name}"]
    return [*arguments, "--key", "$(JOB_NAME)"]


def _cronjob_name(values: Values, schedule: str) -> str:
    name = f"{values.name}-{_UNSAFE.sub('-', schedule).strip('-')}".strip("-")
    if len(name) > LONGEST_NAME:
        message = (
            f"schedule {schedule!r}: expected a CronJob's name of at most {LONGEST_NAME} characters, got {name!r};"
        )
        message += " shorten --name or the schedule's own"
        raise InvalidValue(message)
    return name


# ---- lines that Kubernetes reads as we do --------------------------------------------------------------------------


def _line(name: str, times: Times) -> str:
    if times.cron is None:
        raise _refused(name, "an interval")
    if not times.hours.always:
        raise _refused(name, "a window, weekdays of its own or excluded dates")
    if times.jitter_ms:
        raise _refused(name, "jitter")
    fields = times.cron.split()
    if len(fields) != _FIELDS:
        raise _refused(name, "seconds")
    return " ".join([*fields[:4], _weekday(name, times.cron)])


def _weekday(name: str, line: str) -> str:
    """Write the weekday as Kubernetes reads it, which knows no 7, no `L` and no `#`, and for which `*/2` is no star."""
    _, _, day, _, weekday = line.upper().split()
    parsed = CronSim(line, _SOME_DAY)
    if "L" in day or any(isinstance(chosen, tuple) for chosen in parsed.weekdays):
        raise _refused(name, "`L`, `W` or `#`")
    if parsed.day_and and day != "*" and weekday != "*":
        raise _refused(name, "a day of the month that begins with `*/` beside a weekday")
    if "7" not in weekday and "/" not in weekday:
        return weekday
    chosen = sorted({int(number) % 7 for number in parsed.weekdays if isinstance(number, int)})
    return ",".join(map(str, chosen))


def _refused(name: str, what: str, instead: str = "") -> InvalidValue:
    instead = instead or f"give --schedule {name}='MINUTE HOUR DAY MONTH WEEKDAY'"
    message = f"schedule {name!r}: a CronJob cannot express {what}; {instead}, or leave the schedules to Holdfast"
    return InvalidValue(f"{message} (--schedules holdfast)")
