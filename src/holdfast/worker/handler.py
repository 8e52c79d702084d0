"""Calling the code of a task: a function or the phases of a pipeline, inside everything that the app put around it."""

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from holdfast import payload
from holdfast.config import Settings
from holdfast.context import Around, Context, Running
from holdfast.phasing import Phasing
from holdfast.tasks.pipeline import PipelineTask
from holdfast.tasks.registry import AnyTask
from holdfast.tasks.task import FunctionTask
from holdfast.worker import lines
from holdfast.worker.lines import Lines
from holdfast.worker.run import Run

InThread = Callable[[Run, Callable[[], Any]], Awaitable[Any]]
"""Runs a function that is no coroutine in a thread, and waits for its end."""


def make_context(run: Run, running: Running, settings: Settings, state: Any) -> Context[Any]:
    """Make what a handler is given, with what earlier claims have left."""
    limits = {"most_bytes": settings.max_args_bytes, "most_depth": settings.max_depth}
    phasing = Phasing(run.job, running, () if run.task is None else run.task.plan, limits)
    phasing.secrets = functools.cache(functools.partial(payload.secrets_in, run.arguments))
    if run.stored is not None:
        if run.task is not None and run.task.policy.on_retry == "restart":
            phasing.begin_anew()
        else:
            phasing.resume(run.stored)
    keep_line = None if settings.worker.logs == "none" else Lines(running.note, phasing.secrets).keep
    if settings.worker.logs == "all":
        lines.current.set(keep_line)
    return Context(run.job, state=state, running=running, phasing=phasing, keep_line=keep_line)


def keeps_phases(task: AnyTask | None) -> bool:
    """Whether the code of a task can have phases: a pipeline, or a function that takes a context."""
    return isinstance(task, PipelineTask) or (isinstance(task, FunctionTask) and task.wants_context)


async def call_handler(run: Run, arounds: Sequence[Around], in_thread: InThread, *, is_capturing: bool = False) -> Any:
    """Run the code of a job's task."""
    if is_capturing:
        _ = run.context  # whose lines are kept from here on
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
    pipeline, phasing, value = task.pipeline(**run.arguments), run.context.phasing, None
    for phase in task.phases:
        run.context.check()  # a phase in a thread cannot be cancelled, but no other one begins after it
        block = phasing.phase(phase.name)
        if not block.is_completed:
            method = functools.partial(getattr(pipeline, phase.name), run.context)
            opened = phasing.begin(phase.name)
            try:
                value = await (method() if phase.is_async else in_thread(run, method))
            except BaseException as error:
                phasing.failed(opened, error)
                raise
            entry = phasing.completed(opened, value)
            if run.is_committed or opened.is_kept:
                continue
            if phasing.is_last(opened):  # stored with the end of the job
                phasing.voice.note(entry)
            else:
                await phasing.voice.keep(entry)
        value = phasing.results[phase.name]
    return value
