"""What an app tells about itself while it works."""

from dataclasses import dataclass

from holdfast.errors import ConfigError, shown


@dataclass(frozen=True, kw_only=True)
class TelemetrySettings:
    """Which numbers are kept and which spans are made.

    `metrics` counts what a worker inside your own program does, for `await app.metrics()`; `holdfast worker --metrics`
    needs no setting. `traces` makes spans as soon as the program has a tracer provider of OpenTelemetry.
    """

    metrics: bool = False
    traces: bool = True

    def __post_init__(self) -> None:
        for name in ("metrics", "traces"):
            if not isinstance(getattr(self, name), bool):
                message = f"TelemetrySettings(...): {name}: expected True or False, got {shown(getattr(self, name))}"
                raise ConfigError(message)
