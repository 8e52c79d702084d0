"""Calling the code of a task: a function or the phases of a pipeline, inside everything that the app put around it."""

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from holdfast.context import Around
from holdfast.tasks.pipeline import PipelineTask
from holdfast.tasks.task import FunctionTask
from holdfast.worker.run import Run

InThread = Callable[[Run, Callable[[], Any]], Awaitable[Any]]
"""Runs a function that is no coroutine in a thread, and waits for its end."""


async def call_handler(run: Run, arounds: Sequence[Around], in_thread: InThread) -> Any:
    """Run the code of a job's task."""
    if not arounds:
        return await _code(run, in_thread)
    call: Callable[[], Awaitable[Any]] = functools.partial(_code, run, in_thread)
    for around in reversed(arounds):
        call = functools.partial(around, run.context, call)
    return await call()


def _code(run: Run, in_thread: InThread) -> Awaitable[Any]:
    task = run.task
    if isinstance(task, PipelineTask):
        return _phases(task, run, in_thread)
    if not isinstance(task, FunctionTask):
        message = f"the task {task!r} of job {run.job.public_id} is neither a function nor a pipeline"
        raise TypeError(message)
    given = (run.context,) if task.wants_context else ()
    if task.is_async:
        coroutine: Awaitable[Any] = task.function(*given, **run.arguments)
        return coroutine
    return in_thread(run, functools.partial(task.function, *given, **run.arguments))


async def _phases(task: PipelineTask, run: Run, in_thread: InThread) -> Any:
    pipeline, value = task.pipeline(**run.arguments), None
    for phase in task.phases:
        run.context.check()  # a phase in a thread cannot be cancelled, but no other one begins after it
        method = functools.partial(getattr(pipeline, phase.name), run.context)
        value = run.results[phase.name] = await (method() if phase.is_async else in_thread(run, method))
    return value
