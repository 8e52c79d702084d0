"""The health of a store, as `holdfast doctor`, the HTTP API and the dashboard show it."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from holdfast.about import About


class HealthLevel(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    """One finding: what was checked, how it is, and what to do."""

    name: Annotated[str, About("What was checked.", "workers")]
    level: Annotated[HealthLevel, About("Whether it is ok, a warning or an error.", "ok")]
    message: Annotated[str, About("How it is.", "2 alive", quotes=True)]
    advice: Annotated[str | None, About("What to do.", "start one: holdfast worker -A module:app")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReport:
    """What was found of a store, its queues and its workers; warnings leave it healthy."""

    healthy: Annotated[bool, About("Whether no check found an error.", example=True)]
    store: Annotated[str, About("The address of the store, without its password.", "sqlite:///jobs.db")]
    checks: list[HealthCheck] = field(default_factory=list)
