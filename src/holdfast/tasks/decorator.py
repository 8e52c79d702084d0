"""`@app.task`, with and without options, on functions and on pipelines."""

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, overload

from holdfast.config import Settings
from holdfast.context import Context
from holdfast.tasks.call import Enqueuer
from holdfast.tasks.options import TaskOptions
from holdfast.tasks.pipeline import Pipeline, PipelineTask
from holdfast.tasks.registry import Registry
from holdfast.tasks.task import FunctionTask

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")  # what the lifespan yields
PipelineClass = TypeVar("PipelineClass", bound=Pipeline)


class TaskDecorator:
    """Registers what it decorates; called with options, it gives a decorator that has them.

    A function becomes a `FunctionTask` that can still be called; a Pipeline class stays the class it is.
    """

    def __init__(
        self, registry: Registry, settings: Settings, enqueuer: Enqueuer, options: TaskOptions | None = None
    ) -> None:
        self._registry = registry
        self._settings = settings
        self._enqueuer = enqueuer
        self._options = TaskOptions() if options is None else options

    # A class is a callable too, so the first form overlaps the others; the checker takes the first that fits.
    @overload
    def __call__(  # type: ignore[overload-overlap] # see above
        self, definition: type[PipelineClass], /
    ) -> type[PipelineClass]: ...
    @overload
    def __call__(
        self, definition: Callable[Concatenate[Context[S], P], Coroutine[Any, Any, R]], /
    ) -> FunctionTask[Concatenate[Context[S], P], Coroutine[Any, Any, R], P, R]: ...
    @overload
    def __call__(
        self, definition: Callable[Concatenate[Context[S], P], R], /
    ) -> FunctionTask[Concatenate[Context[S], P], R, P, R]: ...
    @overload
    def __call__(
        self, definition: Callable[P, Coroutine[Any, Any, R]], /
    ) -> FunctionTask[P, Coroutine[Any, Any, R], P, R]: ...
    @overload
    def __call__(self, definition: Callable[P, R], /) -> FunctionTask[P, R, P, R]: ...
    @overload
    def __call__(self, /, **options: Unpack[TaskOptions]) -> "TaskDecorator": ...
    def __call__(self, definition: Any = None, /, **options: Unpack[TaskOptions]) -> Any:
        """Register a function or a pipeline, or take the options for it."""
        if definition is None:
            return TaskDecorator(self._registry, self._settings, self._enqueuer, {**self._options, **options})
        limits = {"most_bytes": self._settings.max_args_bytes, "most_depth": self._settings.max_depth}
        if isinstance(definition, type) and issubclass(definition, Pipeline):
            pipeline = PipelineTask(definition, self._options, self._enqueuer, **limits)
            pipeline.configure(self._settings.kinds.get(pipeline.kind))
            self._registry.add(pipeline)
            pipeline.attach()
            return definition
        task: FunctionTask[..., Any, ..., Any] = FunctionTask(definition, self._options, self._enqueuer, **limits)
        task.configure(self._settings.kinds.get(task.kind))
        self._registry.add(task)
        return task
