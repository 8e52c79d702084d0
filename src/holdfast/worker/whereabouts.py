"""Where the code of a task stands, for a spawned process to find: known from the code, never from the store."""

import ast
import importlib
import runpy
import sys
from pathlib import Path
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


def is_importable(task: AnyTask) -> bool:
    """Whether another process can import a task that never asked for one, without starting the program once more."""
    place = place_of(task)
    if place is None:
        return False
    main = sys.modules[_MAIN]
    if place.file is not None or (main.__spec__ is not None and place.module == main.__spec__.name):
        # guard: guarded-program, without: return find(place) is task
        return find(place) is task and _is_guarded(getattr(main, "__file__", None))
    # What was not imported by its name here is not imported now: that would run code in the middle of the program.
    return place.module in sys.modules and find(place) is task


def _is_guarded(file: str | None) -> bool:
    """Whether a program has its `if __name__ == "__main__":`, without which an import would run all of it."""
    try:
        program = ast.parse(Path(file or "").read_bytes())
    except (OSError, SyntaxError, ValueError):
        return False
    tests = [part for block in program.body if isinstance(block, ast.If) for part in ast.walk(block.test)]
    return any(isinstance(test, ast.Compare) and _asks_for_main(test) for test in tests)


def _asks_for_main(test: ast.Compare) -> bool:
    sides = {ast.unparse(test.left), *map(ast.unparse, test.comparators)}
    return isinstance(test.ops[0], ast.Eq) and sides == {"__name__", repr(_MAIN)}


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
