"""The options of `@app.task(...)` and of `using(...)`: what may be written, and what is made of it.

An option that is left out differs from one that is None: `timeout=None` means "no timeout". So the keywords are typed
dictionaries, and a missing key means "not given".
"""

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TypedDict, TypeVar, get_args

import msgspec
from msgspec import UNSET, UnsetType

from holdfast import names
from holdfast.app_options import OnError
from holdfast.config import checked_on_error
from holdfast.duration import Duration, milliseconds, timeout_ms
from holdfast.errors import InvalidValue
from holdfast.policies.keys import key_path
from holdfast.policies.money import Amount, Written, read_amount
from holdfast.retry import Backoff

ExecutorName = Literal["process"]
OnRetry = Literal["resume", "restart"]
OnRestart = Literal["requeue", "fail"]
Phases = Iterable[str] | Mapping[str, float]
Choice = TypeVar("Choice", bound=str)
ErrorTypes = type[BaseException] | Iterable[type[BaseException]]

PHASE_BYTES = 128
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_TOO_LATE = datetime(9999, 1, 1, tzinfo=UTC)
_UTC_HINT = 'write datetime.now(UTC) + timedelta(minutes=5), or delay="5m"'


class TaskOptions(TypedDict, total=False):
    """What `@app.task(...)` takes."""

    queue: str
    kind: str
    aliases: Iterable[str]
    priority: int
    max_attempts: int
    max_crashes: int
    timeout: Duration | None
    retry: Backoff
    on_error: OnError
    retry_on: ErrorTypes
    fatal_on: ErrorTypes
    executor: ExecutorName
    queue_override: bool
    on_retry: OnRetry
    on_restart: OnRestart
    phases: Phases
    limits: Iterable[str]
    budget: str
    estimate: Written
    debounce: Duration
    debounce_key: str
    note: str


class UsingOptions(TypedDict, total=False):
    """What `using(...)` takes."""

    run_at: datetime
    delay: Duration
    priority: int
    unique: str
    unique_for: Duration
    key: str
    max_attempts: int
    max_crashes: int
    timeout: Duration | None
    tags: Mapping[str, str]
    actor: str
    connection: Any
    queue: str
    webhook: str
    estimate: Written


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How the jobs of one task are treated unless an enqueue says otherwise; None and UNSET leave it to the app."""

    queue: str = "default"
    priority: int | None = None
    max_attempts: int | None = None
    max_crashes: int | None = None
    timeout_ms: int | UnsetType | None = UNSET
    retry: Backoff | None = None
    on_error: OnError | None = None
    retry_on: tuple[type[BaseException], ...] = ()
    fatal_on: tuple[type[BaseException], ...] = ()
    executor: ExecutorName | None = None
    queue_override: bool = False
    on_retry: OnRetry = "resume"
    on_restart: OnRestart = "requeue"
    plan: tuple[tuple[str, float], ...] = ()
    limits: tuple[str, ...] = ()
    budget: str | None = None
    estimate: Amount | None = None
    debounce_ms: int | None = None
    debounce_path: tuple[str, ...] = ()
    note: str | None = None

    @property
    def extra(self) -> dict[str, Any]:
        """What every job of the task carries with it."""
        given: dict[str, Any] = {}
        if self.plan:
            given["phases"] = self.plan
        if self.on_restart == "fail":
            given["on_restart"] = "fail"
        return given


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What one enqueue asked for, checked and converted; None and UNSET leave it to the task and the app."""

    run_at: datetime | None = None
    delay_ms: int | None = None
    priority: int | None = None
    unique: str | None = None
    unique_for_ms: int | None = None
    key: str | None = None
    max_attempts: int | None = None
    max_crashes: int | None = None
    timeout_ms: int | UnsetType | None = UNSET
    tags: dict[str, str] | None = None
    actor: str | None = None
    connection: Any = None
    queue: str | None = None
    webhook: str | None = None
    estimate: Amount | None = None


PLAIN = Options()


def read_policy(given: TaskOptions) -> Policy:
    """Check the options of a task."""
    _refuse_unknown(given, TaskOptions)
    retry = given.get("retry")
    if retry is not None and not isinstance(retry, Backoff):
        message = f"retry: expected backoff(...), got {retry!r}"
        raise InvalidValue(message)
    return Policy(
        queue=names.name(given.get("queue", "default"), "queue"),
        priority=_optional(names.priority, given.get("priority")),
        max_attempts=_counted(given.get("max_attempts"), "max_attempts"),
        max_crashes=_counted(given.get("max_crashes"), "max_crashes"),
        timeout_ms=timeout_ms(given["timeout"]) if "timeout" in given else UNSET,
        retry=retry,
        on_error=checked_on_error(given["on_error"]) if "on_error" in given else None,
        retry_on=_error_types(given.get("retry_on", ()), "retry_on"),
        fatal_on=_error_types(given.get("fatal_on", ()), "fatal_on"),
        executor=_executor(given.get("executor")),
        queue_override=bool(given.get("queue_override", False)),
        on_retry=_one_of(given.get("on_retry", "resume"), "on_retry", OnRetry),
        on_restart=_one_of(given.get("on_restart", "requeue"), "on_restart", OnRestart),
        plan=_plan(given.get("phases", ())),
        **_read_policies(given),
    )


def _read_policies(given: TaskOptions) -> dict[str, Any]:
    limits, budget, note = given.get("limits", ()), given.get("budget"), given.get("note")
    if "debounce_key" in given and "debounce" not in given:
        message = f'debounce_key: expected with debounce, got {given["debounce_key"]!r} alone; add debounce="5s"'
        raise InvalidValue(message)
    return {
        "limits": tuple(names.name(limit, "limits") for limit in ((limits,) if isinstance(limits, str) else limits)),
        "budget": None if budget is None else names.name(budget, "budget"),
        "estimate": read_amount(given["estimate"], what="estimate") if "estimate" in given else None,
        "debounce_ms": milliseconds(given["debounce"], "debounce") if "debounce" in given else None,
        "debounce_path": key_path(given.get("debounce_key"), "debounce_key"),
        "note": None if note is None else names.text(note, "note", names.KEY_BYTES),
    }


def read_options(given: UsingOptions) -> Options:
    """Check the options of an enqueue."""
    _refuse_unknown(given, UsingOptions)
    run_at, delay = given.get("run_at"), given.get("delay")
    if run_at is not None and delay is not None:
        message = f"run_at and delay exclude each other: got run_at={run_at!r} and delay={delay!r}; give one"
        raise InvalidValue(message)
    unique, unique_for = given.get("unique"), given.get("unique_for")
    if unique_for is not None and unique is None:
        message = f'unique_for: expected with unique, got unique_for={unique_for!r} alone; add unique="..."'
        raise InvalidValue(message)
    key, tags, actor, queue = (given.get("key"), given.get("tags"), given.get("actor"), given.get("queue"))
    return Options(
        run_at=None if run_at is None else due_time(run_at),
        delay_ms=None if delay is None else milliseconds(delay, "delay"),
        priority=_optional(names.priority, given.get("priority")),
        unique=None if unique is None else names.key(unique, "unique"),
        unique_for_ms=None if unique_for is None else _unique_for_ms(unique_for),
        key=None if key is None else names.key(key, "key"),
        max_attempts=_counted(given.get("max_attempts"), "max_attempts"),
        max_crashes=_counted(given.get("max_crashes"), "max_crashes"),
        timeout_ms=timeout_ms(given["timeout"]) if "timeout" in given else UNSET,
        tags=None if tags is None else names.tags(tags),
        actor=None if actor is None else names.text(actor, "actor", names.ACTOR_BYTES),
        connection=given.get("connection"),
        queue=None if queue is None else names.name(queue, "queue"),
        webhook=given.get("webhook"),
        estimate=read_amount(given["estimate"], what="estimate") if "estimate" in given else None,
    )


def due_time(run_at: datetime) -> datetime:
    """Check an absolute time: with an offset, and within the years that both databases keep."""
    if not isinstance(run_at, datetime):
        message = f"run_at: expected a datetime with a time zone, got {run_at!r}; {_UTC_HINT}"
        raise InvalidValue(message)
    if run_at.utcoffset() is None:
        message = f"run_at: expected a datetime with a time zone, got {run_at!r} without one; {_UTC_HINT}"
        raise InvalidValue(message)
    if not _EARLIEST <= run_at < _TOO_LATE:
        message = f"run_at: expected between the years 1970 and 9998, got {run_at.isoformat()}"
        raise InvalidValue(message)
    return run_at.astimezone(UTC)


def _one_of(value: Choice, what: str, choices: Any) -> Choice:
    if value not in get_args(choices):
        expected = " or ".join(f'"{choice}"' for choice in get_args(choices))
        message = f"{what}: expected {expected}, got {value!r}"
        raise InvalidValue(message)
    return value


def _plan(phases: Phases) -> tuple[tuple[str, float], ...]:
    """Read which phases a function will go through: names, or names and their weights."""
    if isinstance(phases, str):
        message = f"phases: expected several names, got {phases!r}; write ({phases!r},)"
        raise InvalidValue(message)
    weights = dict(phases) if isinstance(phases, Mapping) else dict.fromkeys(phases, 1.0)
    for name, weight in weights.items():
        names.text(name, "phases", PHASE_BYTES)
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
            message = f"phases: expected a weight above 0 for {name!r}, got {weight!r}"
            raise InvalidValue(message)
    return tuple((name, float(weight)) for name, weight in weights.items())


def _unique_for_ms(unique_for: Duration) -> int:
    length = milliseconds(unique_for, "unique_for")
    if length == 0:
        message = f"unique_for: expected more than 0, got {unique_for!r}; unique alone holds while the job is live"
        raise InvalidValue(message)
    return length


def _error_types(given: ErrorTypes, what: str) -> tuple[type[BaseException], ...]:
    types = (given,) if isinstance(given, type) else tuple(given)
    if wrong := [kind for kind in types if not (isinstance(kind, type) and issubclass(kind, BaseException))]:
        message = f"{what}: expected classes of exceptions, got {wrong[0]!r}"
        raise InvalidValue(message)
    return types


def _executor(given: ExecutorName | None) -> ExecutorName | None:
    if given is not None and given not in get_args(ExecutorName):
        message = f'executor: expected "process", or nothing (async def: the event loop, def: a thread), got {given!r}'
        raise InvalidValue(message)
    return given


def _optional(check: Any, value: int | None) -> int | None:
    return None if value is None else check(value)


def _counted(value: int | None, what: str) -> int | None:
    return None if value is None else names.count(value, what)


def _refuse_unknown(given: Mapping[str, Any], known: type) -> None:
    if unknown := sorted(given.keys() - known.__annotations__.keys()):
        message = f"unknown option {', '.join(unknown)}; expected among {', '.join(sorted(known.__annotations__))}"
        raise InvalidValue(message)
