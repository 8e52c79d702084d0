"""Where the code of a task stands, for a spawned process to find: known from the code, never from the store."""

import importlib
import runpy
import sys
from typing import Any

import msgspec

from holdfast.tasks.pipeline import Pipeline, PipelineTask
from holdfast.tasks.registry import AnyTask
from holdfast.tasks.task import Task

_MAIN = "__main__"
_SPAWNED_MAIN = "__holdfast_main__"


class Whereabouts(msgspec.Struct, frozen=True):
    """A module and a name in it; a program that was started as a file is found by that file."""

    module: str
    name: str
    file: str | None = None


def place_of(task: AnyTask) -> Whereabouts | None:
    """Say where a task stands; None for one inside a function, which nobody else can reach."""
    code: Any = task.pipeline if isinstance(task, PipelineTask) else getattr(task, "function", None)
    module, name = getattr(code, "__module__", None), getattr(code, "__qualname__", None)
    if module is None or name is None or "<locals>" in name:
        return None
    if module not in (_MAIN, _SPAWNED_MAIN):
        return Whereabouts(module, name)
    main = sys.modules[_MAIN]
    if main.__spec__ is not None:  # python -m package.module
        return Whereabouts(main.__spec__.name, name)
    file = getattr(main, "__file__", None)
    return None if file is None else Whereabouts(_MAIN, name, file)


def find(place: Whereabouts) -> AnyTask | None:
    """Find the task that stands somewhere."""
    found: Any = _module(place)
    for part in place.name.split("."):
        found = found.get(part) if isinstance(found, dict) else getattr(found, part, None)
    if isinstance(found, type) and issubclass(found, Pipeline):
        return found.registered()
    return found if isinstance(found, Task) else None


def _module(place: Whereabouts) -> Any:
    if place.file is None:
        main = sys.modules[_MAIN]
        if main.__spec__ is not None and main.__spec__.name == place.module:
            return main
        return importlib.import_module(place.module)
    if getattr(sys.modules[_MAIN], "__file__", None) == place.file:
        return sys.modules[_MAIN]
    return runpy.run_path(place.file, run_name=_SPAWNED_MAIN)
