"""What `@app.task` makes of a function: it can still be called, and be enqueued with the same typed arguments."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, ParamSpec, TypeVar, Unpack

from holdfast import names
from holdfast.errors import ConfigError, InvalidValue, definition
from holdfast.handle import JobHandle
from holdfast.phases import Plan
from holdfast.policies.kinds import Kind
from holdfast.retry import Backoff
from holdfast.tasks.call import Call, Enqueuer
from holdfast.tasks.options import PLAIN, Options, TaskOptions, UsingOptions, read_options, read_policy
from holdfast.tasks.signature import Arguments, read_function
from holdfast.tasks.terms import settled

P = ParamSpec("P")  # the arguments of a job
C = ParamSpec("C")  # the arguments of the function itself: the same, perhaps with the context in front
R = TypeVar("R")  # the result of a job
T = TypeVar("T")  # what calling the function gives: the result, or a coroutine of it


class Task(Generic[P, R]):
    """Code registered under a kind; `P` are the arguments of its jobs and `R` is their result."""

    def __init__(
        self,
        name: str,
        source: str,
        options: TaskOptions,
        enqueuer: Enqueuer,
        *,
        arguments: Arguments,
        result_type: Any,
    ) -> None:
        with definition(f"task {source}"):
            self.name = options.get("kind", name)
            self.kind = names.name(self.name, "kind")
            self.aliases = _aliases(options.get("aliases", ()), self.kind)
            self._written = read_policy(options)
        self.policy = self._written
        self.source = source
        self.arguments = arguments
        self.result_type = result_type
        self._enqueuer = enqueuer

    def configure(self, kind: Kind | None) -> None:
        """Let the task's jobs be treated as configuration says of their kind, where it says something."""
        self.policy = settled(self._written, kind)

    def __repr__(self) -> str:
        return f"<Task {self.name} of {self.source} on queue {self.policy.queue}>"

    @property
    def plan(self) -> Plan:
        """The phases that its jobs go through, as far as they are known beforehand."""
        return self.policy.plan

    @property
    def enqueuer(self) -> Enqueuer:
        """The app that the task belongs to."""
        return self._enqueuer

    @property
    def queue(self) -> str:
        """The queue of this task's jobs."""
        return self.policy.queue

    @property
    def retry(self) -> Backoff | None:
        """How long a failed attempt waits for the next one; None leaves it to the worker."""
        return self.policy.retry

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Store a job with these arguments; when this returns, it is on disk."""
        return await self._enqueuer.enqueue(self.make_call(self.arguments.bind(args, kwargs), PLAIN))

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """Make a request with these arguments for `app.enqueue`, `app.enqueue_many` or `app.blocking()`."""
        return self.make_call(self.arguments.bind(args, kwargs), PLAIN)

    def using(self, **options: Unpack[UsingOptions]) -> "Using[P, R]":
        """Set options for one enqueue: when, how urgent, how unique, on whose connection."""
        return Using(self, self._enqueuer, self.checked(options))

    def call_json(self, args_json: str, **options: Unpack[UsingOptions]) -> Call[R]:
        """Make a request from arguments that came as JSON, from a command line or over HTTP."""
        return self._call(self.arguments.check(args_json), self.checked(options))

    def decode(self, args_json: str) -> dict[str, Any]:
        """Read the arguments of a stored job for its run; ArgumentError when they do not fit the signature."""
        return self.arguments.decode(args_json)

    def make_call(self, given: Mapping[str, Any], options: Options) -> Call[R]:
        """Make a request from arguments by name."""
        return self._call(self.arguments.encode(given), options)

    def checked(self, options: UsingOptions) -> Options:
        """Check the options of one enqueue of this task."""
        checked = read_options(options)
        if checked.queue not in (None, self.policy.queue) and not self.policy.queue_override:
            message = f"queue: the jobs of {self.name} belong to {self.policy.queue!r}, got {checked.queue!r};"
            message += " say @app.task(queue_override=True) to let callers choose"
            raise InvalidValue(message)
        return checked

    def _call(self, args_json: str, options: Options) -> Call[R]:
        return Call(
            kind=self.kind,
            queue=options.queue or self.policy.queue,
            args_json=args_json,
            policy=self.policy,
            options=options,
            result_type=self.result_type,
        )


class Using(Generic[P, R]):
    """A task together with the options of one enqueue."""

    def __init__(self, task: Task[P, R], enqueuer: Enqueuer, options: Options) -> None:
        self._task = task
        self._enqueuer = enqueuer
        self._options = options

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Store a job with these arguments; when this returns, it is on disk (or in the caller's transaction)."""
        return await self._enqueuer.enqueue(self.call(*args, **kwargs))

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """Make a request with these arguments and options."""
        return self._task.make_call(self._task.arguments.bind(args, kwargs), self._options)


class FunctionTask(Task[P, R], Generic[C, T, P, R]):
    """A function as a task: `send_email("a", "b")` runs it here and now, `send_email.enqueue("a", "b")` as a job."""

    def __init__(
        self,
        function: Callable[C, T],
        options: TaskOptions,
        enqueuer: Enqueuer,
        *,
        most_bytes: int,
        most_depth: int,
    ) -> None:
        source = _source_of(function)
        signature = read_function(function.__name__, function, most_bytes=most_bytes, most_depth=most_depth)
        super().__init__(
            function.__name__,
            source,
            options,
            enqueuer,
            arguments=signature.arguments,
            result_type=signature.result_type,
        )
        self.function = function
        self.wants_context = signature.wants_context
        self.is_async = inspect.iscoroutinefunction(function)
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: C.args, **kwargs: C.kwargs) -> T:
        """Run the function itself, without a job."""
        return self.function(*args, **kwargs)


def _source_of(function: Any) -> str:
    if not inspect.isfunction(function):
        message = f"@app.task: expected a function or a Pipeline class, got {function!r}"
        raise ConfigError(message)
    source = f"{function.__module__}.{function.__qualname__}"
    if function.__name__ == "<lambda>":
        message = f"task {source}: a lambda has no name to be its kind; write a def"
        raise ConfigError(message)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        message = f"task {source}: a generator has no result to be stored; return a list instead of yielding"
        raise ConfigError(message)
    return source


def _aliases(aliases: Iterable[str], kind: str) -> tuple[str, ...]:
    if isinstance(aliases, str):
        message = f"aliases: expected several names, got {aliases!r}; write ({aliases!r},)"
        raise InvalidValue(message)
    stored = dict.fromkeys(names.name(alias, "alias") for alias in aliases)
    stored.pop(kind, None)
    return tuple(stored)
