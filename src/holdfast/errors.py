"""Every error that Holdfast raises, as one tree.

HoldfastError
├── ConfigError               a setting, URL or definition is wrong
│   ├── InvalidConfig         a configuration file has errors: all of them are listed
│   ├── DuplicateKind         two tasks claim the same kind
│   └── NotOpen               the app was used outside `async with app`
├── InvalidValue              a name, key, time or option is outside its limits
│   ├── ArgumentError         the arguments of a task are wrong
│   └── InvalidFilter         a filter of jobs has errors: all of them are listed
├── UnknownKind               no task is registered under that kind
├── JobNotFound               no such job, or its retention has ended
├── DeadLetterNotFound        no such group of failed jobs
├── QueueNotFound             no such queue is defined or paused, or has jobs
├── LockNotFound              no such lock is held
├── BudgetNotFound            no such budget holds
├── LimitNotFound             no such limit is in force
├── BulkNotFound              no such bulk operation, or it ended long ago
├── WorkerNotFound            no such worker is alive
├── EndpointNotFound          no webhook was to be posted to such an endpoint
├── TokenNotFound             there is no such token
├── Conflict                  the request does not fit the state it met
│   ├── KeyConflict           an idempotency key was used for another request
│   ├── RateLimited           a rate limit refuses the job: it was not stored
│   ├── UniqueConflict        another live job holds the unique key
│   └── WrongState            the job is in a state that does not allow it
├── StoreError                the database
│   ├── StoreUnavailable      it cannot be reached, or cannot write now
│   ├── OutcomeUnknown        the deadline passed: it may or may not have happened
│   ├── DataRefused           the database refuses this very value
│   ├── WorkerLost            the worker was declared dead and must take a fresh id
│   ├── TransactionTooLong    `ctx.transaction()` on SQLite: the body took longer than its budget
│   ├── SchemaError           the schema is missing, too old or too new
│   └── StoreMoved            the jobs have moved to another store, or are about to: the message names it
├── ClaimLost                 the job was taken from this worker: the handler must stop, its writes are refused
├── TimedOut                  a handler ran longer than its job's timeout
├── LockTimeout               a lock was not free within the given timeout
├── LockLost                  a lock could not be kept: others may hold it by now
├── LockCycle                 those who wait for locks wait for each other
├── AllItemsFailed            not one item of a set was completed, and some failed
├── ShutdownTimeout           a worker left, but not everything it ran had ended in time
├── JobFailed                 `JobHandle.result()`: the job ended failed
├── JobCancelled              `JobHandle.result()`: the job ended cancelled
└── ResultTimeout             `JobHandle.result()`: not finished within the timeout
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

_LONGEST_SHOWN = 80


class HoldfastError(Exception):
    """The root of every error of this package."""


class ConfigError(HoldfastError, ValueError):
    """A setting, a URL or a definition is wrong."""


@dataclass(frozen=True, slots=True)
class WrongSetting:
    """What is wrong at a path of a configuration, and where that was written."""

    path: str
    message: str
    place: str

    def __str__(self) -> str:
        return f"{self.place}: {self.path}: {self.message}" if self.path else f"{self.place}: {self.message}"


class InvalidConfig(ConfigError):
    """A configuration file has errors; `errors` holds all of them, one line of the message each."""

    def __init__(self, message: str, errors: Sequence[WrongSetting]) -> None:
        super().__init__("\n".join([message, *(f"  {error}" for error in errors)]))
        self.errors = tuple(errors)


class DuplicateKind(ConfigError):
    """Two tasks claim the same kind."""


class NotOpen(ConfigError):
    """The app was used before it was opened or after it was closed."""


class InvalidValue(HoldfastError, ValueError):
    """A name, key, time or option is outside its limits."""


class ArgumentError(InvalidValue):
    """The arguments do not fit the task, or cannot be kept as JSON."""


@dataclass(frozen=True, slots=True)
class WrongTerm:
    """What is wrong with one term of a filter; without a term, with the filter as a whole."""

    term: str
    message: str

    def __str__(self) -> str:
        return f"{shown(self.term)}: {self.message}" if self.term else self.message


class InvalidFilter(InvalidValue):
    """A filter of jobs has errors; `errors` holds all of them, one line of the message each."""

    def __init__(self, errors: Sequence[WrongTerm]) -> None:
        lines = [f"filter: {errors[0]}"] if len(errors) == 1 else [f"filter: {len(errors)} errors"]
        super().__init__("\n".join([*lines, *(f"  {error}" for error in errors[:20] if len(errors) > 1)]))
        self.errors = tuple(errors)


class UnknownKind(HoldfastError, LookupError):
    """No task is registered under that kind."""


class QueueNotFound(HoldfastError, LookupError):
    """There is no queue of that name: none is defined or paused, and none has jobs."""


class EndpointNotFound(HoldfastError, LookupError):
    """There is no endpoint of that URL: it has no webhook messages, and is not disabled."""


class LockNotFound(HoldfastError, LookupError):
    """No process holds a lock of that name, or not under that token."""


class ScheduleNotFound(HoldfastError, LookupError):
    """There is no schedule of that name."""


class BudgetNotFound(HoldfastError, LookupError):
    """There is no budget of that name."""


class LimitNotFound(HoldfastError, LookupError):
    """There is no limit of that name."""


class DeadLetterNotFound(HoldfastError, LookupError):
    """There is no group of dead letters of that id."""


class BulkNotFound(HoldfastError, LookupError):
    """There is no bulk operation of that number, or it ended long ago."""


class EscalationNotFound(HoldfastError, LookupError):
    """There is no escalation of that number, or it was closed long ago."""


class WorkerNotFound(HoldfastError, LookupError):
    """There is no living worker of that id, and no instance of that name."""


class TokenNotFound(HoldfastError, LookupError):
    """There is no token of that number."""


class JobNotFound(HoldfastError, LookupError):
    """There is no such job, or its retention has ended."""


class Conflict(HoldfastError):
    """The request does not fit the state it met."""


class KeyConflict(Conflict):
    """An idempotency key was used before, for another kind or other arguments."""


class RateLimited(Conflict):
    """A rate limit refuses the job, and nothing was stored; `retry_after` is when to try again, in seconds.

    It is None when so many jobs never fit at once. `limit` and `key` say which limit it was, and for which key of it.
    """

    def __init__(self, message: str, limit: str, key: str, retry_after: float | None) -> None:
        super().__init__(message)
        self.limit = limit
        self.key = key
        self.retry_after = retry_after


class UniqueConflict(Conflict):
    """Another live job holds the unique key; `job_id` names it."""

    def __init__(self, message: str, job_id: int | None = None) -> None:
        super().__init__(message)
        self.job_id = job_id


class WrongState(Conflict):
    """The job is in a state that does not allow the request."""


class StoreError(HoldfastError):
    """The database could not do what was asked."""


class StoreUnavailable(StoreError):
    """The database cannot be reached, or cannot write now; nothing was changed."""


class OutcomeUnknown(StoreError):
    """The deadline passed or the link broke: the change may or may not have happened."""


class DataRefused(StoreError):
    """The database refuses this very value, whatever it is sent with."""


class WorkerLost(StoreError):
    """The worker was declared dead: it must stop, drop its claims and register anew."""


class TransactionTooLong(StoreError):
    """The body of `ctx.transaction()` held the database longer than its budget, and was rolled back."""


class SchemaError(StoreError):
    """The schema is missing, too old or too new for this release."""


class StoreMoved(StoreError):
    """The jobs of this store have moved to another one, or are about to; the message names it. Nothing was changed."""


class ClaimLost(HoldfastError):
    """The job was taken from this worker, rescued or cancelled by force: its handler must stop."""


class TimedOut(HoldfastError, TimeoutError):
    """A handler ran longer than its job's timeout."""


class LockTimeout(HoldfastError, TimeoutError):
    """A lock was not free within the timeout that was given for it; without one nobody is ever refused."""


class LockLost(HoldfastError):
    """A lock could not be kept while its body ran: others may hold it by now, so the body was stopped."""


class LockCycle(HoldfastError):
    """Those who wait for locks wait for each other, and this is the youngest of them; a job is tried again at once."""


class AllItemsFailed(HoldfastError):
    """Not one item of a set was completed, and at least one failed: the attempt has failed."""


class ShutdownTimeout(HoldfastError, TimeoutError):
    """A worker was asked to stop and has stopped; jobs that had not finished within the grace were requeued."""


class JobFailed(HoldfastError):
    """The job ended failed; `error_class` and `error` say why."""

    def __init__(self, message: str, error_class: str | None, error: str | None) -> None:
        super().__init__(message)
        self.error_class = error_class
        self.error = error


class JobCancelled(HoldfastError):
    """The job ended cancelled."""


class ResultTimeout(HoldfastError, TimeoutError):
    """The job had not finished when the timeout passed; it goes on."""


def shown(value: object) -> str:
    """Show a value in a message: short and in ASCII, whatever it is."""
    try:
        text = ascii(value)
    except Exception:  # noqa: BLE001 - __repr__ may be the user's code, and a number of 5,000 digits has none
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


@contextmanager
def definition(what: str) -> Iterator[None]:
    """Turn a refused value inside a definition into a ConfigError that names the definition."""
    try:
        yield
    except InvalidValue as error:
        message = f"{what}: {error}"
        raise ConfigError(message) from error
