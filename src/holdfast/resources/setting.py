"""A setting, as `holdfast config show`, the HTTP API and the dashboard show it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from holdfast.about import About
from holdfast.resources.examples import MOMENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting: its value, where that comes from, and who changed it at run time; secrets are covered."""

    path: Annotated[str, About("Where it stands in the configuration.", "queues.high.workers")]
    value: Annotated[Any, About("The value in force.", 10, quotes=True)] = None
    default: Annotated[Any, About("The value that it has unless it is set.", 5)] = None
    origin: Annotated[str, About("default, code, a file, the environment, or override.", "override")]
    changed_by: Annotated[str | None, About("Who changed it at run time.", "ada")] = None
    changed_reason: Annotated[str | None, About("Why it was changed.", "the supplier is slow", quotes=True)] = None
    changed_at: Annotated[datetime | None, About("When it was changed at run time.", MOMENT)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingList:
    """The settings of an app and of its server, and the file that they come from."""

    file: Annotated[str | None, About("The configuration file.", "/srv/shop/holdfast.yaml")] = None
    settings: list[Setting]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingReset:
    """Whether a setting had been changed at run time."""

    reset: Annotated[bool, About("Whether it had been changed at run time.", example=True)]
