"""What an app says of its workers: how much they run at once, and how patient they are."""

from dataclasses import dataclass, field
from typing import Annotated, Literal, get_args

from msgspec import Meta

from holdfast import names
from holdfast.duration import DurationOrZero, PositiveDuration, milliseconds, positive_ms
from holdfast.errors import InvalidValue, definition

Logs = Literal["ctx", "all", "none"]

MOST_CONCURRENT = 10_000
MOST_PROCESSES = 256
BUDGETS_IN_A_LEASE = 10


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """How the workers of an app behave; all durations as people write them.

    `concurrency` is the total of one instance, dealt evenly to its `processes`. A worker whose lease ends is dead for
    all others: `lease` holds under a supervisor, which renews it from a process of its own, `embedded_lease` where
    handlers can keep the renewing event loop waiting. `shutdown_grace` is how long running jobs may go on after the
    first signal, `cancel_grace` how long after a cancellation, `kill_grace` how long after their timeout. `poll` is how
    often a worker looks without a hint. `transaction_budget` bounds `ctx.transaction()` on SQLite. `logs` says which
    lines are kept with a job: those of `ctx.log` ("ctx"), those of every logger while its handler runs ("all"), none.
    """

    concurrency: Annotated[int, Meta(ge=1, le=MOST_CONCURRENT)] = 10
    processes: Annotated[int, Meta(ge=1, le=MOST_PROCESSES)] = 1
    lease: PositiveDuration = "10s"
    embedded_lease: PositiveDuration = "60s"
    shutdown_grace: DurationOrZero = "30s"
    cancel_grace: PositiveDuration = "30s"
    kill_grace: PositiveDuration = "5s"
    poll: PositiveDuration = "1s"
    transaction_budget: PositiveDuration = "1s"
    logs: Logs = "ctx"
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
