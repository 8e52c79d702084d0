"""Class tasks: the fields are the typed payload, the phases run in the order in which they are written."""

import dataclasses
import inspect
import math
import typing
from collections.abc import Callable
from types import FunctionType
from typing import Any, ClassVar, TypeVar, Unpack, dataclass_transform, overload

import msgspec

from holdfast.context import Context
from holdfast.errors import ConfigError
from holdfast.handle import JobHandle
from holdfast.tasks.call import Call, Enqueuer
from holdfast.tasks.options import PLAIN, Options, TaskOptions, UsingOptions
from holdfast.tasks.signature import read_fields, resolved_hints
from holdfast.tasks.task import Task

PhaseMethod = TypeVar("PhaseMethod", bound=Callable[[Any, Context], Any])

_MARK = "__holdfast_phase_weight__"
_RESERVED = frozenset({"call", "enqueue", "registered", "using"})


@overload
def phase(method: PhaseMethod, /) -> PhaseMethod: ...
@overload
def phase(*, weight: float = 1) -> Callable[[PhaseMethod], PhaseMethod]: ...
def phase(method: Any = None, /, *, weight: float = 1) -> Any:
    """Mark a method of a Pipeline as a phase; `weight` is its share of the overall progress."""
    is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
    if not is_number or not math.isfinite(weight) or weight <= 0:
        message = f"phase weight: expected a number above 0, got {weight!r}"
        raise ConfigError(message)

    def mark(function: Any) -> Any:
        if not isinstance(function, FunctionType):
            message = f"@phase: expected a method of a Pipeline, got {function!r}"
            raise ConfigError(message)
        setattr(function, _MARK, weight)
        return function

    return mark if method is None else mark(method)


@dataclasses.dataclass(frozen=True)
class Phase:
    """One step of a pipeline."""

    name: str
    weight: float
    is_async: bool


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Pipeline:
    """The parent of class tasks; a subclass is a frozen dataclass whose fields are given by keyword."""

    _task: ClassVar["PipelineTask | None"] = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._task = None  # a subclass of a registered pipeline is not itself registered
        dataclasses.dataclass(frozen=True, kw_only=True)(cls)

    async def enqueue(self) -> JobHandle[Any]:
        """Store a job with these fields; when this returns, it is on disk."""
        return await self.registered().enqueue_fields(self, PLAIN)

    def call(self) -> Call[Any]:
        """Make a request with these fields for `app.enqueue`, `app.enqueue_many` or `app.blocking()`."""
        return self.registered().call_fields(self, PLAIN)

    def using(self, **options: Unpack[UsingOptions]) -> "UsingPipeline":
        """Set options for one enqueue: when, how urgent, how unique, on whose connection."""
        task = self.registered()
        return UsingPipeline(self, task, task.checked(options))

    @classmethod
    def registered(cls) -> "PipelineTask":
        """The task that this class was registered as."""
        if cls._task is None:
            message = f"{cls.__qualname__} is not registered; write @app.task above the class"
            raise ConfigError(message)
        return cls._task


class UsingPipeline:
    """A pipeline's fields together with the options of one enqueue."""

    def __init__(self, pipeline: Pipeline, task: "PipelineTask", options: Options) -> None:
        self._pipeline = pipeline
        self._task = task
        self._options = options

    async def enqueue(self) -> JobHandle[Any]:
        """Store a job; when this returns, it is on disk (or in the caller's transaction)."""
        return await self._task.enqueue_fields(self._pipeline, self._options)

    def call(self) -> Call[Any]:
        """Make a request with these fields and options."""
        return self._task.call_fields(self._pipeline, self._options)


class PipelineTask(Task[..., Any]):
    """A pipeline class as the registry knows it."""

    def __init__(
        self, pipeline: type[Pipeline], options: TaskOptions, enqueuer: Enqueuer, *, most_bytes: int, most_depth: int
    ) -> None:
        name = pipeline.__name__
        self.phases = _phases_of(pipeline)
        _require_plain_fields(pipeline)
        arguments = read_fields(name, pipeline, most_bytes=most_bytes, most_depth=most_depth)
        source = f"{pipeline.__module__}.{pipeline.__qualname__}"
        if "phases" in options:
            message = f"task {name}: phases is for functions; those of a pipeline are its methods with @phase"
            raise ConfigError(message)
        super().__init__(name, source, options, enqueuer, arguments=arguments, result_type=Any)
        plan = tuple((phase.name, float(phase.weight)) for phase in self.phases)
        self._written = self.policy = msgspec.structs.replace(self._written, plan=plan)
        self.pipeline = pipeline

    def attach(self) -> None:
        """Let the instances of the class be enqueued; done last, when nothing can be refused any more."""
        self.pipeline._task = self  # noqa: SLF001 - the two classes of this file are one mechanism

    def call_fields(self, pipeline: Pipeline, options: Options) -> Call[Any]:
        """Make a request from the fields of an instance."""
        # Not dataclasses.asdict: it would also take nested dataclasses apart, and their types are to be checked.
        given = {field.name: getattr(pipeline, field.name) for field in _fields_of(type(pipeline))}
        return self.make_call(given, options)

    async def enqueue_fields(self, pipeline: Pipeline, options: Options) -> JobHandle[Any]:
        """Store a job with the fields of an instance."""
        return await self._enqueuer.enqueue(self.call_fields(pipeline, options))


def _fields_of(pipeline: type[Pipeline]) -> tuple[dataclasses.Field[Any], ...]:
    # Every subclass is made a dataclass above, which the type checker does not see of the parent.
    return dataclasses.fields(pipeline)  # type: ignore[arg-type] # see above


def _phases_of(pipeline: type[Pipeline]) -> tuple[Phase, ...]:
    """List the phases in written order; an overridden phase keeps its place."""
    found: dict[str, Any] = {}
    for cls in reversed(pipeline.__mro__):
        for name, attribute in vars(cls).items():
            if hasattr(attribute, _MARK):
                found[name] = attribute
            elif name in found:
                message = f"task {pipeline.__qualname__}: {name} replaces a phase and is none; write @phase above it"
                raise ConfigError(message)
    if not found:
        message = f"task {pipeline.__qualname__}: a pipeline needs at least one phase; write @phase above a method"
        raise ConfigError(message)
    for name, method in found.items():
        _require_phase_signature(pipeline, name, method)
    return tuple(
        Phase(name, getattr(method, _MARK), inspect.iscoroutinefunction(method)) for name, method in found.items()
    )


def _require_phase_signature(pipeline: type[Pipeline], name: str, method: Callable[..., Any]) -> None:
    where = f"task {pipeline.__qualname__}, phase {name}"
    parameters = list(inspect.signature(method).parameters.values())
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    takes_self_and_context = len(parameters) == len(("self", "ctx")) and all(p.kind in by_position for p in parameters)
    if not takes_self_and_context or inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method):
        message = f"{where}: expected `async def {name}(self, ctx)` or `def {name}(self, ctx)`, got"
        message += f" {name}{inspect.signature(method)}; what a phase needs comes from the fields and ctx.result()"
        raise ConfigError(message)
    annotation = resolved_hints(where, method).get(parameters[1].name, Context)
    plain = typing.get_origin(annotation) or annotation
    if not (isinstance(plain, type) and issubclass(Context, plain)):
        message = f"{where}: expected {parameters[1].name}: Context, got {annotation!r}"
        raise ConfigError(message)


def _require_plain_fields(pipeline: type[Pipeline]) -> None:
    for field in _fields_of(pipeline):
        if field.name in _RESERVED:
            message = f"task {pipeline.__qualname__}: {field.name} is a verb of every pipeline; rename the field"
            raise ConfigError(message)
        if not field.init:
            message = f"task {pipeline.__qualname__}, field {field.name}: a field that is not given cannot be stored;"
            message += " make it a property"
            raise ConfigError(message)
