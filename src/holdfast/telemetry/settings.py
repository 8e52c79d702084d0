"""What an app tells about itself while it works."""

from dataclasses import dataclass
from typing import Annotated

from holdfast.about import About
from holdfast.errors import ConfigError, shown


@dataclass(frozen=True, kw_only=True)
class TelemetrySettings:
    """Which numbers are kept and which spans are made; spans need a tracer provider of OpenTelemetry.

    `holdfast worker --metrics` needs no setting.
    """

    metrics: Annotated[bool, About("Whether a worker inside your app counts, for `app.metrics()`.", example=False)] = (
        False
    )
    traces: Annotated[bool, About("Whether spans are made as soon as there is a tracer provider.", example=True)] = True

    def __post_init__(self) -> None:
        for name in ("metrics", "traces"):
            if not isinstance(getattr(self, name), bool):
                message = f"TelemetrySettings(...): {name}: expected True or False, got {shown(getattr(self, name))}"
                raise ConfigError(message)
