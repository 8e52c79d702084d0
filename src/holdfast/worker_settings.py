"""What an app says of its workers: how much they run at once, and how patient they are."""

from dataclasses import dataclass, field
from typing import Annotated, Literal, get_args

from msgspec import Meta

from holdfast import names
from holdfast.about import About
from holdfast.duration import DurationOrZero, PositiveDuration, milliseconds, positive_ms
from holdfast.errors import InvalidValue, definition

Logs = Literal["ctx", "all", "none"]

MOST_CONCURRENT = 10_000
MOST_PROCESSES = 256
BUDGETS_IN_A_LEASE = 10


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """How the workers of an app behave; all durations as people write them.

    A worker whose lease ends is dead for all others. `lease` holds under a supervisor, which renews it from a process
    of its own.
    """

    concurrency: Annotated[
        int,
        Meta(ge=1, le=MOST_CONCURRENT),
        About("How many jobs one instance runs at once, dealt evenly to its processes.", 10),
    ] = 10
    processes: Annotated[
        int, Meta(ge=1, le=MOST_PROCESSES), About("How many worker processes one instance has.", 1)
    ] = 1
    lease: Annotated[
        PositiveDuration, About("After how long without a renewal a supervised worker counts as dead.", "10s")
    ] = "10s"
    embedded_lease: Annotated[
        PositiveDuration,
        About("The same for a worker inside an app, whose handlers may keep the event loop waiting.", "60s"),
    ] = "60s"
    shutdown_grace: Annotated[
        DurationOrZero, About("How long running jobs may go on after the first signal.", "30s")
    ] = "30s"
    cancel_grace: Annotated[
        PositiveDuration, About("How long a cancelled job may take to stop before it is stopped by force.", "30s")
    ] = "30s"
    kill_grace: Annotated[
        PositiveDuration, About("How long a handler may take to end after its timeout before it is killed.", "5s")
    ] = "5s"
    poll: Annotated[PositiveDuration, About("How often a worker looks for jobs without a hint.", "1s")] = "1s"
    transaction_budget: Annotated[
        PositiveDuration, About("SQLite: how long the block of `ctx.transaction()` may take.", "1s")
    ] = "1s"
    logs: Annotated[
        Logs,
        About(
            "Which lines are kept with a job: those of `ctx.log`, those of every logger, or none.",
            "ctx",
        ),
    ] = "ctx"
    lease_s: float = field(init=False, repr=False, compare=False)
    embedded_lease_s: float = field(init=False, repr=False, compare=False)
    shutdown_grace_s: float = field(init=False, repr=False, compare=False)
    cancel_grace_s: float = field(init=False, repr=False, compare=False)
    kill_grace_s: float = field(init=False, repr=False, compare=False)
    poll_s: float = field(init=False, repr=False, compare=False)
    transaction_budget_s: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        with definition("WorkerSettings(...)"):
            names.count(self.concurrency, "concurrency", MOST_CONCURRENT)
            names.count(self.processes, "processes", MOST_PROCESSES)
            if self.processes > self.concurrency:
                message = f"processes: expected at most concurrency ({self.concurrency}), got {self.processes}; each"
                message += " process needs a slot"
                raise InvalidValue(message)
            for name in ("lease", "embedded_lease", "cancel_grace", "kill_grace", "poll", "transaction_budget"):
                object.__setattr__(self, f"{name}_s", positive_ms(getattr(self, name), name) / 1_000)
            if self.logs not in get_args(Logs):
                message = f'logs: expected "ctx", "all" or "none", got {self.logs!r}'
                raise InvalidValue(message)
            grace = milliseconds(self.shutdown_grace, "shutdown_grace")  # none at all is a choice
            object.__setattr__(self, "shutdown_grace_s", grace / 1_000)

    def check_on_sqlite(self) -> None:
        """Refuse a budget that could keep a renewal waiting until its lease has ended."""
        for name in ("lease", "embedded_lease"):
            if getattr(self, f"{name}_s") < BUDGETS_IN_A_LEASE * self.transaction_budget_s:
                message = f"{name}: expected at least {BUDGETS_IN_A_LEASE} x transaction_budget on SQLite, where a"
                message += f" transaction keeps every writer waiting, got {getattr(self, name)!r} with a budget of"
                message += f" {self.transaction_budget!r}"
                raise InvalidValue(message)
