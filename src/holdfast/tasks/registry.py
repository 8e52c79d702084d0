"""Kinds to tasks: the only way from a stored name to code."""

import difflib
from collections.abc import Iterator
from typing import Any

from holdfast import names
from holdfast.errors import DuplicateKind, UnknownKind
from holdfast.tasks.task import Task

AnyTask = Task[..., Any]


class Registry:
    """The tasks of one app, found by kind or alias."""

    def __init__(self) -> None:
        self._tasks: dict[str, AnyTask] = {}

    def add(self, task: AnyTask) -> None:
        """Register a task under its kind and aliases; none of them may be taken."""
        claimed = (task.kind, *task.aliases)
        for kind in claimed:
            if (other := self._tasks.get(kind)) is not None:
                message = f"kind {kind!r} is claimed by {other.source} and by {task.source}; kinds and aliases are"
                message += ' compared without case, give one of them another: @app.task(kind="...")'
                raise DuplicateKind(message)
        self._tasks.update(dict.fromkeys(claimed, task))

    def get(self, kind: str) -> AnyTask:
        """Find the task of a kind or alias."""
        task = self._tasks.get(kind)
        if task is not None:  # as jobs name it
            return task
        stored = names.name(kind, "kind")
        task = self._tasks.get(stored)
        if task is None:
            raise UnknownKind(self._unknown(kind, stored))
        return task

    def __contains__(self, kind: object) -> bool:
        return isinstance(kind, str) and kind.lower() in self._tasks

    def __iter__(self) -> Iterator[AnyTask]:
        """Go through the tasks, each once, in the order of registration."""
        return iter(dict.fromkeys(self._tasks.values()))

    def __len__(self) -> int:
        return len(set(self._tasks.values()))

    def _unknown(self, kind: str, stored: str) -> str:
        message = f"no task is registered under the kind {kind!r}"
        if close := difflib.get_close_matches(stored, self._tasks, n=3):
            return f"{message}; did you mean {' or '.join(close)}?"
        if self._tasks:
            return f"{message}; registered are {', '.join(sorted(self._tasks)[:10])}"
        return f"{message}, nor under any other: is the module that defines the tasks imported?"
